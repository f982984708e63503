"""The compiled cluster's view of coming steps: projections, predictions, overload."""

from __future__ import annotations

import math

import numpy as np

from evenstep.compiled import Floats, part
from evenstep.predict.departures import project as project_worker
from evenstep.predict.expected import fill_between, rounded, step_at, steps_between
from evenstep.sim.cluster.model import DEPARTURES, EXPECTED, LINEAR, NEVER, ORACLE, Run
from evenstep.sim.cluster.slots import weight, window_add


@part
def expect_growing(run: Run, g: int, expected: Floats) -> None:
    """Write the expected loads of worker g, now and after h = 1..H steps, to `expected`, for linear loads.

    `expected` is float64[H+1], KV tokens. A request counts with the chance that it is still there. Only some steps are
    written; `fill_between` fills the others.
    """
    fixed, slots, look, growth = run.fixed, run.slots.rows, run.ahead.look, run.ahead.growth
    step, delta, unit = run.fleet.groups[run.fleet.group[g]].step, fixed.delta, fixed.unit
    H, B, K = fixed.horizon, fixed.slots_max, run.ahead.curves.shape[1]
    between, chances = steps_between(H), run.ahead.curves.reshape(run.ahead.curves.size)
    for n in range(0, between + 1, 8):  # eight steps at a time: their sums stay in registers
        i, j = step_at(n, between, H), step_at(n + 1, between, H)
        k, m = step_at(n + 2, between, H), step_at(n + 3, between, H)
        p, q = step_at(n + 4, between, H), step_at(n + 5, between, H)
        r, s = step_at(n + 6, between, H), step_at(n + 7, between, H)
        at_i, at_j, at_k, at_m, at_p, at_q, at_r, at_s = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        for slot in range(g * B, (g + 1) * B):
            mine = slots[slot]
            if mine.row < 0:
                continue
            load = (mine.units + (step - mine.admit) * delta) * unit
            at = slot * K + step - look[slot].predicted
            share = 1.0 / chances[at]
            at_i += rounded((load + growth[i]) * (chances[at + i] * share))
            at_j += rounded((load + growth[j]) * (chances[at + j] * share))
            at_k += rounded((load + growth[k]) * (chances[at + k] * share))
            at_m += rounded((load + growth[m]) * (chances[at + m] * share))
            at_p += rounded((load + growth[p]) * (chances[at + p] * share))
            at_q += rounded((load + growth[q]) * (chances[at + q] * share))
            at_r += rounded((load + growth[r]) * (chances[at + r] * share))
            at_s += rounded((load + growth[s]) * (chances[at + s] * share))
        expected[i], expected[j], expected[k], expected[m] = at_i, at_j, at_k, at_m
        expected[p], expected[q], expected[r], expected[s] = at_p, at_q, at_r, at_s


@part
def expect_others(run: Run, g: int, expected: Floats) -> None:
    """Write the expected loads of worker g as `expect_growing` does, for loads that are not linear."""
    fixed, curves = run.fixed, run.ahead.curves
    step, B, H = run.fleet.groups[run.fleet.group[g]].step, fixed.slots_max, fixed.horizon
    between = steps_between(H)
    for h in range(H + 1):
        expected[h] = 0.0
    for slot in range(g * B, (g + 1) * B):
        mine = run.slots.rows[slot]
        if mine.row < 0:
            continue
        since, age = step - run.ahead.look[slot].predicted, mine.done + step - mine.admit
        share = 1.0 / curves[slot, since]
        for n in range(between + 1):
            h = step_at(n, between, H)
            load = weight(fixed, run.requests, mine.row, age + h) * fixed.unit
            expected[h] += rounded(load * (curves[slot, since + h] * share))


@part
def project_expected(run: Run) -> None:
    """Write all workers' loads after h = 0..H steps to `Ahead.projections`, weighted by the requests' survival curves."""
    for g in range(run.fixed.workers):
        expected = run.ahead.projections[g]
        if run.fixed.profile_kind == LINEAR:
            expect_growing(run, g, expected)
        else:
            expect_others(run, g, expected)
        fill_between(expected)


@part
def project_others(run: Run, g: int, step: int) -> None:
    """Write worker g's loads after h = 0..H steps to `Ahead.projections`, where loads are not linear.

    `step` is the present step of its group. A request counts in full before its expected departure (`Look.leave`), and from
    that step on not at all.
    """
    fixed, projected = run.fixed, run.ahead.projections[g]
    H, B = fixed.horizon, fixed.slots_max
    for h in range(H + 1):
        projected[h] = 0.0
    for slot in range(g * B, (g + 1) * B):
        mine = run.slots.rows[slot]
        if mine.row >= 0:
            age = mine.done + step - mine.admit
            for h in range(min(H + 1, run.ahead.look[slot].leave - step)):
                projected[h] += weight(fixed, run.requests, mine.row, age + h) * fixed.unit


@part
def project(run: Run) -> None:
    """Write all workers' projected loads after h = 0..H steps, in KV tokens, to `Ahead.projections`.

    A request counts in full until its expected departure, and from that step on not at all. Linear loads are computed from
    the windows of departures (`Ahead.leaving`).
    """
    fixed, fleet, ahead = run.fixed, run.fleet, run.ahead
    for g in range(fixed.workers):
        step = fleet.groups[fleet.group[g]].step
        if fixed.profile_kind == LINEAR:
            leaving, units, projected = ahead.leaving[g], ahead.leaving_units[g], ahead.projections[g]
            project_worker(fleet.units[g], fleet.running[g], step, fixed.delta, fixed.unit, leaving, units, projected)
        else:
            project_others(run, g, step)


@part
def due_predictions(run: Run) -> None:
    """List in `Ahead.due` the slots whose prediction is missing, too old or already wrong, for the host to answer.

    `Now.due` becomes their number. A prediction is too old when the request has produced `refresh_every` tokens since. It is
    wrong if the request should be gone by now.
    """
    fixed, fleet, ahead = run.fixed, run.fleet, run.ahead
    count, B, every = 0, fixed.slots_max, fixed.refresh_every
    for g in range(fixed.workers):
        if fleet.running[g] == 0:
            continue
        step = fleet.groups[fleet.group[g]].step
        for slot in range(g * B, (g + 1) * B):
            if run.slots.rows[slot].row < 0:
                continue
            predicted = ahead.look[slot].predicted
            if (
                predicted < 0
                or (step - predicted) * fixed.tokens_per_step >= every
                or ahead.look[slot].leave <= step
                or (fixed.prediction == EXPECTED and ahead.curves[slot, step - predicted] <= 0.0)
            ):
                ahead.due[count].slot = slot
                count += 1
    run.now.due = count


@part
def take_predictions(run: Run) -> None:
    """Copy the host's answers in `Ahead.due` to `Ahead.look`, as predictions made at the present step; `Now.due` becomes 0.

    Fractions of steps are rounded up, to 1 at least. With curves, and for negative answers, `leave` becomes `NEVER`.
    """
    fixed, fleet = run.fixed, run.fleet
    for i in range(run.now.due):
        slot, steps_left = run.ahead.due[i].slot, run.ahead.due[i].steps_left
        look, step = run.ahead.look[slot], fleet.groups[fleet.group[slot // fixed.slots_max]].step
        if look.in_window == 1 and look.leave > step:
            window_add(run, slot, -1)
        look.in_window, look.predicted, look.leave = 0, step, NEVER
        if fixed.prediction == DEPARTURES and steps_left >= 0.0:
            look.leave = step + max(np.int64(1), np.int64(math.ceil(steps_left)))
            if fixed.profile_kind == LINEAR:
                window_add(run, slot, 1)
    run.now.due = 0


@part
def advance_window(run: Run, q: int) -> None:
    """Move group q's windows of departures on by one step, for linear loads; call it each time `Group.step` has risen."""
    fixed, slots, ahead, group = run.fixed, run.slots, run.ahead, run.fleet.groups[q]
    step = group.step
    if fixed.prediction == ORACLE:  # requests that leave just inside the new end of the window are in one bucket
        slot = slots.calendar[q, (step + fixed.horizon - 1) & fixed.ring_mask]
        while slot >= 0:
            if ahead.look[slot].leave == step + fixed.horizon and ahead.look[slot].in_window == 0:
                window_add(run, slot, 1)
            slot = slots.rows[slot].follower
    else:  # a request that was expected to have left and has not is out of the window until the next prediction
        place = step & fixed.window_mask
        for g in range(group.first, group.first + group.workers):
            ahead.leaving[g, place] = 0
            ahead.leaving_units[g, place] = 0


@part
def overloaded(load: Floats, first: int, W: int, C: int) -> bool:
    """Whether the waiting requests, less those of the most frequent load, still fill the free slots (BF-IO, Definition 1).

    True without free slots, False with fewer requests than slots.

    Args:
        load: KV tokens of requests in the pool's arrays.
        first, W: the waiting requests: `load[first : first + W]`.
        C: free slots of all workers.
    """
    if W < C:
        return False
    if C == 0:
        return True
    # A class that breaks it has more than W - C members, so at least C of any 2C - 1 requests: look for a majority there.
    span = 2 * C - 1
    if span > W:  # few spare requests: count every class
        for i in range(first, first + W):
            same = 0
            for j in range(first, first + W):
                same += load[j] == load[i]
            if W - same < C:
                return False
        return True
    # Two at a time: if no pair is of one class, a majority has one of each pair and the request left over.
    twins = 0
    for i in range(first, first + span - 1, 2):
        twins += load[i] == load[i + 1]
    over = load[first + span - 1]
    if twins == 0 and C > 1 and over != load[first] and over != load[first + 1]:
        return True
    candidate, votes = 0.0, 0
    for i in range(first, first + span):
        value = load[i]
        if votes == 0:
            candidate, votes = value, 1
        elif value == candidate:
            votes += 1
        else:
            votes -= 1
    same = 0
    for i in range(first, first + span):
        same += load[i] == candidate
    if same < C:
        return True
    for i in range(first + span, first + W):
        same += load[i] == candidate
    return W - same >= C


@part
def build_view(run: Run) -> None:
    """Bring the parts of the view that only a decision needs up to date: workers' free KV tokens, mean wait, projections.

    The mean wait is over the requests sent so far, in seconds.
    """
    fixed, now, fleet = run.fixed, run.now, run.fleet
    if fixed.kv_limited == 1:
        for g in range(fixed.workers):
            requests = fleet.running[g] + fleet.queued[g]
            used = fleet.load[g] + fleet.queued_load[g] + fixed.kv_reserve * requests
            fleet.kv_free[g] = max(0.0, fixed.kv_tokens - used)
    if now.waits > 0:
        now.mean_wait_s = now.wait_sum_s / now.waits
    if fixed.prediction == EXPECTED:
        project_expected(run)
    elif fixed.horizon > 0:
        project(run)
