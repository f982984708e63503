"""The page has every promised metric, as Prometheus reads it, with the numbers of the dispatcher."""

from __future__ import annotations

import math
import re
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families as read
from tests.pages import clashes

from evenstep.dispatch import events as ev
from evenstep.dispatch.commands import SendDecode
from evenstep.dispatch.core import Dispatcher
from evenstep.dispatch.settings import WorkerSpec
from evenstep.gateway.operate.metrics_page import HELP, metrics_page

#: What operators were promised: name -> type as Prometheus says it.
PROMISED = {
    "worker_kv_tokens": "gauge",
    "worker_active_requests": "gauge",
    "worker_state_age_seconds": "gauge",
    "group_balance_ratio": "gauge",
    "group_barrier_idle_ratio": "gauge",
    "group_imbalance_tokens": "gauge",
    "pool_depth": "gauge",
    "pool_oldest_seconds": "gauge",
    "prefill_budget_free": "gauge",
    "barrier_idle_device_seconds": "counter",
    "decisions": "counter",
    "requests": "counter",
    "output_tokens": "counter",
    "recompute": "counter",
    "cancelled": "counter",
    "fallback": "counter",
    "state_divergence": "counter",
    "decision_seconds": "histogram",
    "pool_wait_seconds": "histogram",
    "ttft_seconds": "histogram",
    "tpot_seconds": "histogram",
    "prediction_error_tokens": "histogram",
}


#: Metrics whose values `Gateway.snapshot` and the operation add, so that no model has them.
OF_THE_DATA_PATH = [
    "answers_total",
    "class_requests_total",
    "class_weight",
    "connections",
    "decision_log_failed",
    "decision_log_failures_total",
    "generations",
    "is_draining",
    "log_lines_dropped_total",
    "passing",
    "reloads_total",
    "scrapes_total",
    "worker_cannot_continue",
    "worker_counted_here_only",
    "worker_counting_estimated",
]


def served() -> Dispatcher:
    """A dispatcher that has served one request of three tokens and runs another, with one waiting and a prefiller."""
    dispatcher = Dispatcher("jsq")
    tell = dispatcher.handle
    tell(ev.WorkerAdded(now_s=0.0, spec=WorkerSpec(name='w"0', slots=1, scraped=False)))
    done: list[SendDecode] = []
    for number in (1, 2, 3):
        tell(ev.Arrived(now_s=1.0 * number, request=number, prompt_tokens=100, tenant="t"))
        found = [c for c in tell(ev.Tick(now_s=1.0 * number)) if isinstance(c, SendDecode)]
        for sent in found:
            for token in range(3):
                dispatcher.now_s = number + 0.1 * token
                dispatcher.produced(sent.row, 1)
            done.append(sent)
        if number == 1:
            tell(ev.Finished(now_s=1.5, request=1, leg=done[0].leg))
    tell(ev.WorkerAdded(now_s=3.0, spec=WorkerSpec(name="p", role="prefill")))
    return dispatcher


def page(gateway: dict[str, object] | None = None, dispatcher: Dispatcher | None = None):
    text = metrics_page({"models": {"m": (dispatcher or served()).snapshot()}, "gateway": gateway or {}}, 0.25).decode()
    assert text.endswith("\n") and clashes(text) == []
    return {family.name: family for family in read(text)}


def values(family, **labels):
    return [s.value for s in family.samples if labels.items() <= s.labels.items()]


def test_every_promised_metric_is_there_with_its_type():
    found = page()
    assert {name: found[f"evenstep_{name}"].type for name in PROMISED} == PROMISED
    assert all(found[f"evenstep_{name}"].samples for name in PROMISED)


def test_each_metric_of_a_model_has_samples():
    found = page()
    empty = {name for name in HELP if not found[name.removesuffix("_total")].samples}
    known = {f"evenstep_{name}" for name in OF_THE_DATA_PATH}
    assert not empty - known, f"no sample of {empty - known}: add them in metrics_page.py, or name them in OF_THE_DATA_PATH"
    assert not known - empty, f"a model has samples of {known - empty}: take them out of OF_THE_DATA_PATH"


def test_groups_keep_their_names_when_others_leave():
    dispatcher = Dispatcher("jsq")
    for name, group in (("a", "b"), ("b", ""), ("c", "x"), ("d", ""), ("b#0", "")):
        dispatcher.handle(ev.WorkerAdded(now_s=0.0, spec=WorkerSpec(name=name, group=group)))

    def shown() -> list[str]:
        steps = page(dispatcher=dispatcher)["evenstep_group_steps"].samples
        return [one.labels["group"] for one in steps]

    assert shown() == ["b#0#0", "b#1", "x", "d", "b#0"]  # a group and a worker have the same name
    dispatcher.handle(ev.WorkerRemoved(now_s=1.0, worker="b", drain=False))
    assert shown() == ["b", "x", "d", "b#0"]


def test_the_numbers_are_those_of_the_dispatcher():
    found = page()
    assert values(found["evenstep_worker_kv_tokens"], worker='w"0') == [103.0]
    assert values(found["evenstep_worker_active_requests"], worker='w"0', group='w"0', model="m") == [1]
    assert values(found["evenstep_pool_depth"]) == [1] and values(found["evenstep_waiting_for_prefill"]) == [0]
    assert values(found["evenstep_requests"], code="200") == [1]
    assert values(found["evenstep_output_tokens"]) == [3]
    assert values(found["evenstep_decisions"], policy="jsq", outcome="admitted") == [2]
    assert {s.labels["def"] for s in found["evenstep_group_imbalance_tokens"].samples} == {
        "envelope",
        "spread",
    }
    assert {s.labels["reason"] for s in found["evenstep_fallback"].samples} >= {
        "raised",
        "stale",
        "budget",
        "contract",
    }
    assert values(found["evenstep_prefill_budget_free"], worker="p") != []
    assert values(found["evenstep_worker_kv_capacity_tokens"], worker='w"0') == [math.inf]
    assert values(found["evenstep_snapshot_age_seconds"]) == [0.25]


def test_histograms_are_cumulative_and_end_with_their_count():
    for name in ("ttft_seconds", "tpot_seconds", "pool_wait_seconds", "prediction_error_tokens"):
        samples = page()[f"evenstep_{name}"].samples
        buckets = [s for s in samples if s.name.endswith("_bucket")]
        counts = [s.value for s in buckets]
        assert counts == sorted(counts) and buckets[-1].labels["le"] == "+Inf"
        assert counts[-1] == next(s.value for s in samples if s.name.endswith("_count"))
    assert [s.value for s in page()["evenstep_ttft_seconds"].samples if s.name.endswith("_count")] == [2]
    stages = {s.labels["stage"] for s in page()["evenstep_decision_seconds"].samples}
    assert stages >= {"prepare", "route", "apply"}


def test_numbers_of_the_data_path_stand_beside_those_of_the_models():
    found = page(
        {
            "connections": 7,
            "answers_total": {"401": 2},
            "not_ready": "warming",
            "worker_counting_estimated": {"w": True},
            "passing": None,
            "worker_cannot_continue": {"w": False},
            "class_requests_total": [{"class": "fast", "met": "true", "value": 4}],
        }
    )
    assert values(found["evenstep_connections"]) == [7]
    assert {s.labels["code"]: s.value for s in found["evenstep_answers"].samples} == {"401": 2}
    assert "evenstep_not_ready" not in found
    assert values(found["evenstep_worker_counting_estimated"], worker="w") == [1]
    assert values(found["evenstep_worker_cannot_continue"], worker="w") == [0]
    assert values(found["evenstep_class_requests"], **{"class": "fast", "met": "true"}) == [4]
    assert math.isnan(values(found["evenstep_passing"])[0])


def test_all_metrics_of_a_worker_have_its_labels():
    """Three had the worker's name alone."""
    names = ("worker_counting_estimated", "worker_cannot_continue", "worker_counted_here_only")
    found = page({name: {'w"0': True, "p": False, "new": True} for name in names})
    labels = [one.labels for one in found["evenstep_worker_up"].samples]
    assert labels == [{"model": "m", "group": 'w"0', "worker": 'w"0'}, {"model": "m", "worker": "p"}]
    for name in names:
        assert [one.labels for one in found[f"evenstep_{name}"].samples] == [*labels, {"worker": "new"}]


def test_every_metric_says_what_it_is_and_no_number_is_left_out():
    found = page()
    for name, said in HELP.items():
        assert found[name.removesuffix("_total")].documentation == said
    unknown = [name for name in found if name not in HELP and f"{name}_total" not in HELP]
    assert unknown == []


def test_the_reference_names_every_label():
    found = page({"scrapes_total": {"ok": 1}, "class_requests_total": [{"class": "fast", "met": "true", "value": 4}]})
    text = (Path(__file__).parents[2] / "docs" / "reference" / "gateway.md").read_text(encoding="utf-8")
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| `evenstep_")]
    told = {name.strip("|` "): set(re.findall(r"\w+", labels)) for name, _, labels, _ in rows}
    assert told.keys() == HELP.keys()
    for name in HELP:
        family = found[name.removesuffix("_total")]
        used = {label for sample in family.samples for label in sample.labels} - {"le"}
        assert told[name] == used or not family.samples, name
