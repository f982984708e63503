"""Writes the gateway's Prometheus page, from a snapshot of its dispatchers and its data path."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, cast, get_args

from evenstep import __version__
from evenstep.dispatch.rounds.fallback import Reason
from evenstep.engines.metrics.page import Kind, Page

#: Every metric and its meaning.
HELP = {
    "evenstep_info": "The gateway's version.",
    "evenstep_snapshot_age_seconds": "Age of the numbers on this page.",
    "evenstep_policy_info": "Policy and predictor in force; kernel says whether its compiled form runs.",
    "evenstep_policy_off": "1 while the policy is switched off because it raised three times in a row.",
    "evenstep_worker_kv_tokens": "KV tokens of the requests of this gateway on a worker, as the mirror has them.",
    "evenstep_worker_active_requests": "Requests of this gateway on a worker.",
    "evenstep_worker_free_slots": "Requests a worker could take at once.",
    "evenstep_worker_slots": "Requests a worker runs at a time.",
    "evenstep_worker_kv_capacity_tokens": "KV tokens a worker can hold; +Inf where nothing limits it.",
    "evenstep_worker_state_age_seconds": "Time since a worker's metrics were read; 0 for one that has none.",
    "evenstep_worker_foreign_requests": "Requests a worker runs that were not sent from here.",
    "evenstep_worker_foreign_kv_tokens": "KV tokens of such requests.",
    "evenstep_worker_up": "0 while a worker is ejected.",
    "evenstep_worker_counting_estimated": "1 if an engine reports no token counts, so that they are estimated from events.",
    "evenstep_worker_cannot_continue": "1 if an engine answered from the start when it should continue a broken answer.",
    "evenstep_worker_counted_here_only": "1 if the engine has no metrics page, so that other gateways' load is not seen.",
    "evenstep_group_balance_ratio": "Mean KV load over largest, of the workers of a barrier group.",
    "evenstep_group_barrier_idle_ratio": "Share of worker time lost at the barrier in the last step; "
    "of=load while no step law is known: load imbalance then.",
    "evenstep_group_imbalance_tokens": "KV tokens below the heaviest worker (envelope); largest minus smallest (spread).",
    "evenstep_group_step_seconds": "Duration of a group's last step.",
    "evenstep_group_overhead_seconds": "Fixed part of a step, fitted while serving; NaN while the fit is not sound.",
    "evenstep_group_seconds_per_token": "Seconds a KV token of the heaviest worker adds; NaN while the fit is not sound.",
    "evenstep_group_fit_r_squared": "How well these two explain the steps; NaN while the fit is not sound.",
    "evenstep_group_fit_error_ratio": "Two standard errors of seconds per token over them; above 0.25 it is not sound.",
    "evenstep_group_steps_total": "Steps of a barrier group.",
    "evenstep_barrier_idle_device_seconds_total": "Worker seconds lost waiting at the barrier; "
    "does not add while no step law is known.",
    "evenstep_pool_depth": "Requests that wait for a decode slot.",
    "evenstep_pool_oldest_seconds": "How long the oldest of them has waited.",
    "evenstep_waiting_for_prefill": "Requests that wait for a prefiller.",
    "evenstep_requests_present": "Requests that wait or run.",
    "evenstep_tenant_requests": "Requests of a tenant that wait or run.",
    "evenstep_prefill_budget_free": "Share of a prefiller's KV budget that is free.",
    "evenstep_decisions_total": "Decision rounds: admitted, held (no request was sent), fallback.",
    "evenstep_requests_total": "Requests that ended, by status; error = after the first token, cancelled = the client left.",
    "evenstep_output_tokens_total": "Tokens of complete answers.",
    "evenstep_recompute_total": "Failed calls after which a request continues with the tokens that its client has.",
    "evenstep_retries_total": "Failed calls after which a request without a token is tried again.",
    "evenstep_cancelled_total": "Requests whose client left.",
    "evenstep_late_events_total": "Events of requests or legs that had already ended.",
    "evenstep_fallback_total": "Rounds that least load decided in place of the policy, by reason. `held`: the policy "
    "held a request that fits a worker which ran nothing.",
    "evenstep_state_divergence_total": "Readings in which a worker ran fewer requests than were sent there.",
    "evenstep_prefix_prompt_tokens_total": "Prompt tokens sent, by requests whose prefix is known.",
    "evenstep_prefix_hit_tokens_total": "Tokens of these prompts that the worker had seen before.",
    "evenstep_worker_prefix_believed_share": "Share of prompt tokens believed cached where they were sent, in the last "
    "window compared with the engine's counters; NaN before the first.",
    "evenstep_worker_prefix_true_share": "Share that the engine says it had cached, in that window.",
    "evenstep_worker_prefix_blocks": "Prompt blocks a worker is believed to hold at most, as its counters corrected it.",
    "evenstep_decision_seconds": "Time of a decision round, by stage.",
    "evenstep_pool_wait_seconds": "Time in the pool until sent to a worker, once for each time that a request is sent.",
    "evenstep_ttft_seconds": "Time from arrival to the first token, or to the end of an answer that is not streamed.",
    "evenstep_tpot_seconds": "Time per further token of each sequence of a stream.",
    "evenstep_prediction_error_tokens": "Predicted minus true output length, without sign.",
    "evenstep_connections": "Open connections of clients.",
    "evenstep_answers_total": "Answers that began, of every kind, by status.",
    "evenstep_passing": "Requests under way that do not generate tokens.",
    "evenstep_generations": "Generations that have not ended.",
    "evenstep_is_draining": "1 while the gateway accepts no new requests.",
    "evenstep_decision_log_failed": "1 while the decision log of a model is closed because it could not be written.",
    "evenstep_decision_log_failures_total": "How often the decision log began to fail.",
    "evenstep_class_requests_total": "Requests of a class that ended, by whether they kept to its targets.",
    "evenstep_class_weight": "Weight of a class.",
    "evenstep_scrapes_total": "Readings of workers' metrics, by result.",
    "evenstep_reloads_total": "Reloads of the config, by result.",
    "evenstep_log_lines_dropped_total": "Log lines dropped because stderr was too slow.",
}

_WORKER = {
    "worker_kv_tokens": "worker_kv_tokens",
    "worker_active_requests": "worker_active_requests",
    "worker_state_age_seconds": "worker_state_age_seconds",
    "free_slots": "worker_free_slots",
    "slots": "worker_slots",
    "foreign_requests": "worker_foreign_requests",
    "foreign_kv_tokens": "worker_foreign_kv_tokens",
    "is_up": "worker_up",
}
_GROUP = {
    "balance_ratio": "group_balance_ratio",
    "step_seconds": "group_step_seconds",
    "overhead_seconds": "group_overhead_seconds",
    "seconds_per_token": "group_seconds_per_token",
    "fit_r_squared": "group_fit_r_squared",
    "fit_error": "group_fit_error_ratio",
}
_GAUGES = ("pool_depth", "pool_oldest_seconds", "waiting_for_prefill", "requests_present")
_COUNTERS = (
    "output_tokens_total",
    "recompute_total",
    "retries_total",
    "cancelled_total",
    "late_events_total",
    "prefix_prompt_tokens_total",
    "prefix_hit_tokens_total",
)
_HISTOGRAMS = ("pool_wait_seconds", "ttft_seconds", "tpot_seconds", "prediction_error_tokens")


def metrics_page(snapshot: Mapping[str, Any], age_s: float = 0.0) -> bytes:
    """The gateway's Prometheus page in the text format, with each metric of `HELP`.

    Args:
        snapshot: as `Gateway.snapshot` or `Snapshots.latest` gives it.
        age_s: age of the snapshot, in seconds.
    """
    page = Page(HELP)
    for name in HELP:
        page.declare(kind_of(name), name)
    page.add("gauge", "evenstep_info", 1, version=__version__)
    page.add("gauge", "evenstep_snapshot_age_seconds", age_s)
    workers: dict[str, dict[str, str]] = {}
    for model, found in snapshot["models"].items():
        workers |= _model(page, model, found)
    _gateway(page, snapshot["gateway"], workers)
    return page.text()


def _model(page: Page, model: str, found: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Add the metrics of one model's dispatcher, its workers and its groups; `found` is its part of the snapshot.

    Returns the labels of each worker, by its name.
    """
    who = {"model": model}
    kernel = "true" if found["policy_has_kernel"] else "false"
    info = {"policy": found["policy"], "predictor": found["predictor"], "kernel": kernel}
    page.add("gauge", "evenstep_policy_info", 1, **who, **info)
    page.add("gauge", "evenstep_policy_off", found["policy_is_off"], **who)
    for name in _GAUGES:
        page.add("gauge", f"evenstep_{name}", found[name], **who)
    for name in _COUNTERS:
        page.add("counter", f"evenstep_{name}", found[name], **who)
    names, of = _names_of_groups(found["workers"]), {}
    for worker in found["workers"]:
        labels = of[worker["worker"]] = {**who, "group": names[worker["group"]], "worker": worker["worker"]}
        _worker(page, labels, worker)
    for one in found["prefillers"]:
        labels = of[one["worker"]] = {**who, "worker": one["worker"]}
        page.add("gauge", "evenstep_prefill_budget_free", one["prefill_budget_free"], **labels)
        page.add("gauge", "evenstep_worker_active_requests", one["requests"], **labels)
        page.add("gauge", "evenstep_worker_up", one["is_up"], **labels)
    for group in found["groups"]:
        _group(page, {**who, "group": names[group["group"]]}, group)
    for tenant, count in found["tenants"].items():
        page.add("gauge", "evenstep_tenant_requests", count, **who, tenant=tenant)
    for one in found["decisions_total"]:
        labels = {"policy": one["policy"], "outcome": one["outcome"]}
        page.add("counter", "evenstep_decisions_total", one["value"], **who, **labels)
    _by(page, "counter", "evenstep_requests_total", "code", {"200": 0, **found["requests_total"]}, who)
    reasons = dict.fromkeys(filter(None, get_args(Reason)), 0)
    _by(page, "counter", "evenstep_fallback_total", "reason", reasons | found["fallback_total"], who)
    for name in _HISTOGRAMS:
        _histogram(page, name, found[name], who)
    for stage, histogram in found["decision_seconds"].items():
        _histogram(page, "decision_seconds", histogram, {**who, "stage": stage})
    return of


def _names_of_groups(workers: Sequence[Mapping[str, Any]]) -> dict[int, str]:
    """Number of each barrier group -> its name; the number is added where a worker without a group has the same name.

    It is added once more where that is another group's name.
    """
    names = {worker["group"]: worker["group_name"] for worker in workers}
    counted = Counter(names.values())
    for number, name in names.items():
        if counted[name] > 1:
            while name in counted:
                name += f"#{number}"
            names[number] = name
    return names


def _worker(page: Page, labels: Mapping[str, str], worker: Mapping[str, Any]) -> None:
    """Add the metrics of one decoding worker; `worker` is its part of the snapshot."""
    for field, name in _WORKER.items():
        page.add("gauge", f"evenstep_{name}", worker[field], **labels)
    capacity = worker["kv_capacity_tokens"]
    page.add("gauge", "evenstep_worker_kv_capacity_tokens", math.inf if capacity is None else capacity, **labels)
    for share in ("prefix_believed_share", "prefix_true_share"):
        page.add("gauge", f"evenstep_worker_{share}", _known(worker[share]), **labels)
    page.add("gauge", "evenstep_worker_prefix_blocks", worker["prefix_room_blocks"], **labels)
    page.add("counter", "evenstep_state_divergence_total", worker["state_divergence_total"], **labels)


def _group(page: Page, labels: Mapping[str, str], group: Mapping[str, Any]) -> None:
    """Add the metrics of one barrier group; `group` is its part of the snapshot."""
    for field, name in _GROUP.items():
        page.add("gauge", f"evenstep_{name}", _known(group[field]), **labels)
    idle = group["barrier_idle_ratio"]
    page.add("gauge", "evenstep_group_barrier_idle_ratio", idle, **labels, of=group["ratios_are_of"])
    for definition, tokens in group["imbalance_tokens"].items():
        page.add("gauge", "evenstep_group_imbalance_tokens", tokens, **labels, **{"def": definition})
    page.add("counter", "evenstep_group_steps_total", group["steps_total"], **labels)
    idle_s = group["barrier_idle_device_seconds_total"]
    page.add("counter", "evenstep_barrier_idle_device_seconds_total", idle_s, **labels)


def _gateway(page: Page, found: Mapping[str, Any], workers: Mapping[str, Mapping[str, str]]) -> None:
    """Add the data path's own metrics: a number is one sample, a mapping or a list has several, and text is skipped.

    `workers` has the labels of each worker; one that has not said which models it serves has its name alone.
    """
    for name, value in found.items():
        if isinstance(value, list):
            for one in cast("list[dict[str, Any]]", value):
                labels = {key: text for key, text in one.items() if key != "value"}
                page.add(kind_of(name), f"evenstep_{name}", one["value"], **labels)
        elif name in OF_WORKERS:
            for worker, one in value.items():
                page.add("gauge", f"evenstep_{name}", one, **workers.get(worker, {"worker": worker}))
        elif isinstance(value, Mapping):
            _by(page, kind_of(name), f"evenstep_{name}", LABELS[name], value, {})
        elif not isinstance(value, str):
            page.add(kind_of(name), f"evenstep_{name}", _known(value))


#: Metrics of the data path, without ``evenstep_``, that have a value for each worker, and the label of those by another key.
OF_WORKERS = ("worker_counting_estimated", "worker_counted_here_only", "worker_cannot_continue")
LABELS = {
    "answers_total": "code",
    "class_weight": "class",
    "scrapes_total": "result",
    "reloads_total": "result",
    "decision_log_failed": "model",
    "decision_log_failures_total": "model",
}


def _by(page: Page, kind: Kind, name: str, label: str, values: Mapping[str, Any], who: Mapping[str, str]) -> None:
    """Add one sample of the metric `name` for each item of `values`; its key is the value of the label `label`."""
    for text, value in values.items():
        page.add(kind, name, value, **who, **{label: text})


def _histogram(page: Page, name: str, found: Mapping[str, Any], who: Mapping[str, str]) -> None:
    page.histogram(f"evenstep_{name}", found["buckets"], found["sum"], found["count"], **who)


def kind_of(name: str) -> Kind:
    """The Prometheus type of a metric, from its name with or without ``evenstep_``; ``gauge`` if it tells no other."""
    if name.removeprefix("evenstep_") in (*_HISTOGRAMS, "decision_seconds"):
        return "histogram"
    return "counter" if name.endswith("_total") else "gauge"


def _known(value: float | None) -> float:
    """The value itself, or nan for None."""
    return math.nan if value is None else value
