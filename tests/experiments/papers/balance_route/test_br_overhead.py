"""BalanceRoute's overhead of a decision at its reduced size. No test asks how long anything takes."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest
from tests.experiments.papers.quick import quick

from evenstep.compiled import as_plain
from evenstep.experiments.papers.balance_route import br_overhead
from evenstep.experiments.papers.balance_route.br_overhead import STAGES, _best, _claims, _measure, captured, until_stage
from evenstep.experiments.reproduce import Setting
from evenstep.routing.balance_route import assign
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
def test_projections_grow_with_the_workers_and_the_candidates_of_stage_two_have_a_cap(monkeypatch: pytest.MonkeyPatch):
    """Counts of work, of the decisions that are timed; how long that takes is for the experiment's rows."""
    seen: list[tuple[int, ...]] = []
    listed: list[int] = []

    def projecting(_project: object, windows: tuple[np.ndarray, ...], _repeats: int) -> Callable[[], None]:
        seen.append(windows[-1].shape)
        return lambda: None

    def list_candidates(*arguments: object) -> int:
        listed.append(as_plain(assign.list_candidates)(*arguments))
        return listed[-1]

    monkeypatch.setattr(br_overhead, "_projecting", projecting)
    monkeypatch.setitem(as_plain(assign.send_subset).__globals__, "list_candidates", list_candidates)
    for workers in (4, 16):
        listed.clear()
        _measure(SMALL, workers, 0, 5, 1)
        policy, views, _ = captured(SMALL, workers, 0)
        for view in views:
            until_stage(policy, view, STAGE_TWO, 1).in_plain().decision()
        assert max(listed) == policy.candidates, "a choice among as many as there may be, and never more"
    assert set(seen) == {(4, policy.horizon + 1), (16, policy.horizon + 1)}


@pytest.mark.slow
def test_every_stage_has_a_time_for_every_decision_and_rows_add_up():
    found = quick("br-overhead")
    data = found.findings.data
    assert tuple(data["stage"][: len(STAGES)]) == STAGES
    seconds = np.reshape(data["seconds"], (-1, len(STAGES)))
    assert set(data["replicate"]) == {0, 1} and (seconds >= 0).all()
    rows = {row.quantity: row.ours.value for row in found.findings.rows}
    assert rows["decision, p50"] <= rows["decision, p95"] <= rows["decision, p99"] <= rows["decision, largest"]
    assert sum(rows[f"{stage}, mean"] for stage in STAGES) == pytest.approx(1e6 * seconds.sum(axis=1).mean(), rel=0.05)


def test_the_engine_step_is_that_of_all_replicates(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(br_overhead, "_measure", lambda setting, g, replicate, *_: (np.ones((3, 5)), 1.0 + 2 * replicate))
    rows = {row.quantity: row.ours for row in br_overhead.experiment.run(Setting(quick=True)).rows}
    assert rows["engine step, mean"].value == 2e6 and rows["engine step, mean"].low is not None


def test_verdicts_follow_the_intervals_of_the_times():
    """Two replicates of two decisions, seconds: projection, preparation, stage 1, stage 2, check."""

    def verdicts(second_stage, step_s):
        taken = [np.array([[1.0, 1.0, 1.0, own, 9.0]] * 2) for own in second_stage]
        return [claim.holds for claim in _claims(8, taken, step_s)]

    assert verdicts((6.0, 6.1), 20.0) == [True, True]
    assert verdicts((6.0, 6.1), 17.0) == [False, True]
    assert verdicts((1.0, 1.01), 20.0) == [True, False]
    assert verdicts((1.0, 9.0), 20.0) == [None, None]
