"""BalanceRoute's overhead of a decision at its reduced size. No bound is a time: any machine keeps the ratios."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest
from tests.experiments.papers.quick import quick

from evenstep.experiments.papers.balance_route import br_overhead
from evenstep.experiments.papers.balance_route.br_overhead import STAGES, _best, _claims, _measure, captured, until_stage
from evenstep.experiments.reproduce import Setting
from evenstep.routing.balance_route.assign import PREPARATION, STAGE_ONE, STAGE_TWO

SMALL = Setting(quick=True, seeds=1, processes=1)
#: Seconds on a made clock: to enter a loop once, and of one repeat of each part.
ENTER, PROJECTION, CHECK = 100.0, 1.0, 16.0
UNTIL = {PREPARATION: 2.0, STAGE_ONE: 2.0 + 4.0, STAGE_TWO: 2.0 + 4.0 + 8.0}


class Clock:
    """Moves only where work is done; `waits` is the time that another process takes in each of the next calls."""

    def __init__(self) -> None:
        self.now = 0.0
        self.waits: list[float] = []

    def perf_counter(self) -> float:
        return self.now

    def work(self, seconds: float, repeats: int) -> Callable[[], None]:
        def act() -> None:
            self.now += ENTER + repeats * seconds + (self.waits.pop(0) if self.waits else 0.0)

        return act


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(br_overhead, "time", SimpleNamespace(perf_counter=made.perf_counter))
    return made


def test_a_stage_takes_what_its_best_round_took_without_entering_the_loop(clock: Clock):
    clock.waits = [0.0, 500.0, 0.0, 0.0, 700.0, 900.0, 0.0]
    assert _best(lambda repeats: clock.work(3.0, repeats), 40) == 3.0


def test_each_stage_is_given_its_own_time_and_no_other(clock: Clock, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(br_overhead, "_projecting", lambda project, windows, repeats: clock.work(PROJECTION, repeats))
    monkeypatch.setattr(br_overhead, "_deciding", lambda policy, view, stage, repeats: clock.work(UNTIL[stage], repeats))
    monkeypatch.setattr(br_overhead, "_checking", lambda view, decision, repeats: clock.work(CHECK, repeats))
    taken, _ = _measure(SMALL, 4, 0, 3, 5)
    assert taken == pytest.approx(np.array([[1.0, 2.0, 4.0, 8.0, 16.0]] * 3))


@pytest.mark.slow
def test_stage_two_takes_most_of_a_small_decision_and_what_looks_at_all_workers_grows_with_them():
    few, many = (_measure(SMALL, g, 0, 60, 5)[0] for g in (4, 16))
    typical = dict(zip(STAGES, np.median(few, axis=0), strict=True))
    assert typical["stage 2"] > max(typical["projection"], typical["preparation"], typical["stage 1"])
    # Alike in all decisions, so that the least is without noise.
    projection, preparation = many[:, :2].min(axis=0) / few[:, :2].min(axis=0)
    assert 2.5 < projection < 6, "four times as many windows are read"
    assert 1.5 < preparation < 6
    growth = np.median(many, axis=0)[3] / typical["stage 2"]
    assert growth < 0.8 * projection, "the number of candidates has a cap"


@pytest.mark.slow
def test_the_stages_of_a_decision_add_up_to_a_decision():
    """The same decisions timed whole, by another loop, take as long as their stages together."""
    policy, seen, _ = captured(SMALL, 4, 0)
    views = [view for view in seen if view.waiting_id.size and view.free_slots.sum() > 0]
    chosen = [views[i] for i in np.unique(np.linspace(0, len(views) - 1, 60).astype(np.int64))]
    whole: list[float] = []
    for view in chosen:
        calls = [until_stage(policy, view, STAGE_TWO, repeats) for repeats in (0, 40)]
        empty, full = (min(_seconds(call.function, call.arguments) for _ in range(5)) for call in calls)
        whole.append((full - empty) / 40)
    stages = _measure(SMALL, 4, 0, 60, 40)[0][:, 1:4].sum(axis=1)
    assert 0.6 < np.median(stages / np.array(whole)) < 1.6


def _seconds(function: Callable[..., object], arguments: tuple[object, ...]) -> float:
    start = time.perf_counter()
    function(*arguments)
    return time.perf_counter() - start


@pytest.mark.slow
def test_every_stage_has_a_time_for_every_decision_and_rows_add_up():
    found = quick("br-overhead")
    data = found.findings.data
    assert tuple(data["stage"][: len(STAGES)]) == STAGES
    seconds = data["seconds"].reshape(-1, len(STAGES))
    assert set(data["replicate"]) == {0, 1} and (seconds >= 0).all()
    rows = {row.quantity: row.ours.value for row in found.findings.rows}
    assert rows["decision, p50"] <= rows["decision, p95"] <= rows["decision, p99"] <= rows["decision, largest"]
    assert rows["decision, largest"] < rows["engine step, mean"]
    assert sum(rows[f"{stage}, mean"] for stage in STAGES) == pytest.approx(1e6 * seconds.sum(axis=1).mean(), rel=0.05)


def test_verdicts_follow_the_intervals_of_the_times():
    """Two replicates of two decisions, seconds: projection, preparation, stage 1, stage 2, check."""

    def verdicts(second_stage, step_s):
        taken = [np.array([[1.0, 1.0, 1.0, own, 9.0]] * 2) for own in second_stage]
        return [claim.holds for claim in _claims(8, taken, step_s)]

    assert verdicts((6.0, 6.1), 20.0) == [True, True]
    assert verdicts((6.0, 6.1), 17.0) == [False, True]
    assert verdicts((1.0, 1.01), 20.0) == [True, False]
    assert verdicts((1.0, 9.0), 20.0) == [None, None]
