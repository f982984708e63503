"""The demonstration: its figures by hand, and the whole of it once."""

from __future__ import annotations

import math
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
from tests.load.outcomes import four

from evenstep.errors import InputError
from evenstep.load import demo
from evenstep.load.demo import gateway_config, replayed, run_demo, shown, window
from evenstep.load.demo_settings import DemoSettings
from evenstep.load.run import Progress
from evenstep.load.settings import LoadSettings
from evenstep.load.summary import summary
from evenstep.load.watching import Sample
from evenstep.workload.reading import read_trace

SETTINGS = DemoSettings(ranks=2, slots=4, overhead_s=0.01)


def sample(at_s, running, step, stepped_s, busy_s, tokens=0.0, late=0.0, **gateway):
    engine = {
        "running": running,
        "steps": step,
        "stepped_s": stepped_s,
        "busy_s": busy_s,
        "tokens": tokens,
        "late": late,
    }
    return Sample(at_s, {**engine, "ranks": 2.0}, gateway, {"engines": at_s / 10, "gateway": at_s / 5})


def row(samples, name="jsq", settings=SETTINGS):
    outcome = four()
    return shown(settings, name, outcome, summary(outcome, LoadSettings()), samples)


RUN = [
    sample(0.0, 0, 0, 0.0, 0.0, oldest_s=0.0, idle_device_s=0.0, steps=0),
    sample(1.0, 8, 10, 0.5, 0.5, 100, oldest_s=1.0, idle_device_s=0.2, steps=10),
    sample(2.0, 7, 20, 1.3, 1.6, 300, oldest_s=5.0, idle_device_s=0.5, steps=19),
    sample(3.0, 8, 30, 2.1, 2.9, 500, 5, oldest_s=2.0, idle_device_s=0.6, steps=28),
    sample(4.0, 1, 40, 2.9, 3.0, 510, oldest_s=0.0, idle_device_s=0.9, steps=38),
]


def test_figures_are_of_the_time_with_full_slots():
    found = row(RUN)
    assert found.window_s == 2.0
    assert found.tokens_per_s == pytest.approx(250.0)  # 400 tokens in 1.6 s of steps
    assert found.wall_tokens_per_s == 200.0
    assert found.step_ms == pytest.approx(80.0)
    assert found.late_share == pytest.approx(0.25)
    assert found.cpu == {
        "engines": pytest.approx(0.1),
        "gateway": pytest.approx(0.2),
        "client": pytest.approx(0.1),
    }


def test_idle_time_is_what_ranks_wait_for_the_heaviest_and_the_fixed_part_is_work():
    """1.6 s of 20 steps: 2 x (1.6 - 20 x 0.01) s could have been worked beyond the fixed part, 2.4 s were."""
    found = row(RUN)
    assert found.idle_engines == pytest.approx((2 * (1.6 - 0.2) - 2.4) / 3.2)
    assert found.idle_gateway == pytest.approx(0.4 / 4.0)
    assert found.steps_seen == pytest.approx(0.9)
    assert math.isnan(found.fallback_share)
    assert found.oldest_wait_s == 5.0


@pytest.mark.parametrize(
    ("before", "after", "share"),
    [
        ({"rounds": 10.0}, {"rounds": 30.0, "fallbacks": 5.0}, 0.25),
        ({"rounds": 10.0, "fallbacks": 2.0}, {"rounds": 30.0, "fallbacks": 5.0}, 0.15),
        ({}, {"rounds": 1.0, "fallbacks": 1.0}, 1.0),
        ({"rounds": 30.0, "fallbacks": 5.0}, {"rounds": 30.0, "fallbacks": 5.0}, math.nan),
        ({"rounds": 10.0}, {"rounds": 30.0}, 0.0),
    ],
)
def test_rounds_that_the_fallback_decided_are_counted(before, after, share):
    found = row([sample(1.0, 8, 10, 0.5, 0.5, **before), sample(2.0, 8, 20, 1.3, 1.6, **after)])
    assert found.fallback_share == pytest.approx(share, nan_ok=True)


def test_a_gateway_that_tells_nothing_has_no_figure():
    found = row([sample(1.0, 8, 10, 0.5, 0.5), sample(2.0, 8, 20, 1.5, 1.6)])
    assert math.isnan(found.idle_gateway) and math.isnan(found.oldest_wait_s) and math.isnan(found.steps_seen)


def test_a_window_in_which_no_step_ends_has_tokens_of_no_step():
    """Its steps were said to be ones of which the gateway saw none."""
    first, last = (sample(at_s, 8, 3, 0.5, 0.5, steps=3, idle_device_s=at_s) for at_s in (1.0, 5.0))
    found = row([first, last])
    assert all(map(math.isnan, (found.tokens_per_s, found.step_ms, found.steps_seen)))
    assert (found.late_share, found.wall_tokens_per_s) == (0.0, 0.0)
    assert found.idle_gateway == pytest.approx(4.0 / (2 * 4.0))


def test_slots_are_full_from_98_of_100_on():
    settings = replace(SETTINGS, ranks=5, slots=10)
    fewer, full, also = (sample(at_s, running, 10 * at_s, at_s, at_s) for at_s, running in ((1.0, 48), (2.0, 49), (4.0, 49)))
    assert row([fewer, full, also, also], settings=settings).window_s == 2.0
    assert row([full, also], settings=settings).is_full
    assert not row([fewer, also], settings=settings).is_full


def test_slots_that_are_never_full_are_looked_at_while_anything_runs():
    first, last = window(RUN, 99.0)
    assert (first.at_s, last.at_s) == (1.0, 4.0)
    with pytest.raises(InputError, match=r"--requests"):
        window(RUN[:1], 8.0)
    assert row(RUN).is_full
    assert not row(RUN[:3]).is_full  # a single reading with full slots is no window
    assert not row([RUN[2], RUN[4]]).is_full


def test_the_config_of_the_gateway_is_one_it_takes():
    from evenstep.config.convert import convert
    from evenstep.config.yaml_file import Document
    from evenstep.gateway.config.config import GatewayConfig
    from evenstep.gateway.config.config import checked as checked_config

    found = gateway_config(SETTINGS, "best", 0.0, 8100)
    config = checked_config(convert(Document("demo", found), GatewayConfig))
    assert [worker.rank for worker in config.fleet()] == [0, 1]
    assert {worker.slots for worker in config.fleet()} == {4}
    assert config.settings().gather_ms == 0.0
    assert "gather_ms" not in gateway_config(SETTINGS, "best", None, 8100)["dispatch"]


def test_engines_start_once_and_each_policy_has_a_gateway_of_its_own(monkeypatch):
    begun, seen = [], []

    @contextmanager
    def beside(words, port, path, wait_s):
        begun.append(("engines", dict(zip(words[1::2], words[2::2], strict=True)), port))
        yield 7
        begun.append("engines ended")

    @contextmanager
    def gateway(config, listen, admin, wait_s):
        begun.append((config["policy"], config["dispatch"].get("gather_ms"), config["workers"][0]["url"]))
        seen.append((listen, admin))
        yield 8

    @contextmanager
    def watched(engine, admin, processes):
        assert not engine.secure and not admin.secure
        seen.append((engine.port, admin.port, processes))
        yield RUN

    def drive(trace, asked, watch):
        assert len(trace) == 3
        seen.append((asked.url, asked.model, asked.seed, asked.source))
        if watch is not None:
            watch(Progress(0, 0, 0, 3, 0, 0.0))
        return four()

    for stub in (beside, gateway, watched, drive):
        monkeypatch.setattr(demo, stub.__name__, stub)
    settings = replace(SETTINGS, policies=["jsq", "best@5"], seed=9, source="mine.csv", requests=3)
    trace, told = read_trace("sample:azure-conv").head(3), []
    runs = run_demo(settings, trace, lambda name, progress: told.append((name, progress.total)))
    assert next(runs).name == "jsq" and len(begun) == 2, "the second policy has not begun"
    _, words, engine = begun[0]
    (listen, admin), watched_at, asked = seen
    assert len({engine, listen, admin}) == 3
    assert (watched_at, asked) == (
        (engine, admin, {"engines": 7, "gateway": 8}),
        (f"http://127.0.0.1:{listen}", "emulated", 9, "mine.csv"),
    )
    given = {name: float(words[f"--{name}"]) for name in ("ranks", "slots", "overhead-s", "per-token-s")}
    assert given == {"ranks": 2, "slots": 4, "overhead-s": 0.01, "per-token-s": settings.per_token_s}
    assert (words["--prefill-per-token-s"], words["--token-budget"]) == ("0", "0"), "no prefill on these ranks"
    assert [one.name for one in runs] == ["best@5"]
    url = f"http://127.0.0.1:{engine}"
    assert begun[1:] == [("jsq", None, url), ("best", 5.0, url), "engines ended"]
    assert told == [("jsq", 3), ("best@5", 3)]
    assert next(run_demo(settings, trace)).name == "jsq", "it can run unwatched"


def test_a_trace_without_times_gets_them_from_the_seed():
    trace = replace(read_trace("sample:azure-conv"), arrival_s=None)
    first, again, other = (replayed(trace, DemoSettings(requests=20, seed=seed)).arrival_s for seed in (1, 1, 2))
    assert np.array_equal(first, again) and not np.array_equal(first, other)


def test_the_trace_is_brought_to_the_load():
    trace = read_trace("sample:azure-conv")
    even, more = (replayed(trace, DemoSettings(load=load, requests=200)) for load in (0.5, 1.0))
    assert len(even) == 200
    assert even.arrival_s[-1] == pytest.approx(2 * more.arrival_s[-1])
