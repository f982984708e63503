"""BR-H's compiled decision, cut after each of its stages, so that their times can be told apart.

It puts together the parts of `balance_route.assign_kernel` as its `decide` does; a test holds the two equal.
"""
# pyright: basic

from __future__ import annotations

from evenstep import compiled
from evenstep.predict.window_kernel import project
from evenstep.routing.balance_route import assign_kernel as whole
from evenstep.routing.balance_route.f_score import ENUMERATED
from evenstep.routing.view import GROUP, HOLD, LOAD, RUNNING, WAITING_LOAD

#: Stages, each with those before it.
PREPARATION, STAGE_ONE, STAGE_TWO = 0, 1, 2
_take, _set_up, _stage_one, _stage_two = whole._take, whole._set_up, whole._stage_one, whole._stage_two
_MOST, Round, Rule, _key = whole._MOST, whole.Round, whole.Rule, whole._key

_UNTIL = _PROJECT = None
if compiled.INT is not None:
    _i, _f, _f1, _i1, _f2, _i2 = (
        compiled.INT, compiled.FLOAT, compiled.F1, compiled.I1, compiled.F2, compiled.I2,
    )  # fmt: skip
    _UNTIL = _i(_i, _i, _f, _f, _i, _i2, _f2, _f2, _f2, _i, _f, _f, _f, _f, _i, _i1, _f1, _i1)
    _PROJECT = _i(_i, _i2, _f2, _i2, _i2, _f2)


@compiled.declared(_UNTIL)
def decide_until(
    stage, repeats, now_s, mean_wait_s, waiting, workers_i, workers_f, waiting_f, projections, H1, discount,
    reward, penalty, threshold, candidates, scratch_i, scratch_f, worker,
):  # fmt: skip
    """Make one decision `repeats` times up to and with a stage: paper mode, no age bound; the answer in `worker`."""
    G = workers_i.shape[1]
    rule = Rule(reward, penalty, threshold, candidates, False, False, False, 0.0, False, False)
    for _ in range(repeats):
        worker[:] = HOLD
        total = 0
        for g in range(G):
            total += workers_i[2, g]
        subsets = 1 << min(candidates, ENUMERATED)
        free, i = _take(scratch_i, 0, G)
        members, i = _take(scratch_i, i, G)
        places, i = _take(scratch_i, i, H1)
        rows, i = _take(scratch_i, i, _MOST)
        row_keys, i = _take(scratch_i, i, _MOST)
        counts, i = _take(scratch_i, i, subsets)
        keys, i = _take(scratch_i, i, waiting)
        load, i = _take(scratch_f, 0, G * H1)
        envelope, i = _take(scratch_f, i, G * H1)
        kv, i = _take(scratch_f, i, G)
        key, i = _take(scratch_f, i, G)
        weights, i = _take(scratch_f, i, H1)
        margins, i = _take(scratch_f, i, H1)
        kinks, i = _take(scratch_f, i, H1)
        row_sizes, i = _take(scratch_f, i, _MOST)
        sums, i = _take(scratch_f, i, subsets)
        size = waiting_f[WAITING_LOAD, :waiting]
        now = Round(
            weights, workers_i[GROUP], free, members, kv, key, load, envelope, keys, size, margins, kinks, places,
            rows, row_keys, row_sizes, sums, counts, worker,
        )  # fmt: skip
        _set_up(now, workers_i, workers_f, projections, discount)
        for row in range(waiting):
            keys[row] = _key(size[row])
        left = waiting
        if stage >= 1:
            left, total = _stage_one(now, rule, left, total)
        if stage >= 2 and left > 0 and total > 0:
            _stage_two(now, rule, left)
    return repeats


@compiled.declared(_PROJECT)
def project_all(repeats, workers_i, workers_f, counts, loads, projected):
    """Read all workers' projections from their windows of departures `repeats` times."""
    mask = counts.shape[1] - 1
    for _ in range(repeats):
        for g in range(workers_i.shape[1]):
            project(
                int(workers_f[LOAD, g]),
                workers_i[RUNNING, g],
                0,
                1,
                1.0,
                mask,
                counts[g],
                loads[g],
                projected[g],
            )
    return repeats
