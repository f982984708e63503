# pyright: basic
# ruff: noqa: F403, F405 - the names of the state's sections are this file's vocabulary
"""What the compiled cluster knows of the coming steps: projections, predictions, overload."""

from __future__ import annotations

import math

import numpy as np

from evenstep.compiled import inlined, jit
from evenstep.predict.expected_kernel import fill_between, rounded, step_at, steps_between
from evenstep.predict.window_kernel import project as project_worker
from evenstep.routing.view import GROUP, KV_FREE, LOAD, QUEUED, QUEUED_LOAD, WAITING_LOAD
from evenstep.routing.view import RUNNING as ON_WORKER
from evenstep.sim.cluster_layout import *
from evenstep.sim.slots_kernel import weight, window_add


@jit
def project_expected(sc, sf, wi, group_i, slot_i, look, curves, growth, projections, prompt, profile):
    """Expected load of the running requests, [G, H+1]: every request counts with the chance that it is still there."""
    for g in range(sc[WORKERS]):
        if sc[PROFILE_KIND] == 0:
            expect_growing(g, sc, sf, wi, group_i, slot_i, look, curves, growth, projections[g])
        else:
            expect_others(g, sc, sf, wi, group_i, slot_i, look, curves, projections[g], prompt, profile)
        fill_between(projections[g])


@jit
def expect_growing(g, sc, sf, wi, group_i, slot_i, look, curves, growth, ahead):
    """Expected loads of one worker where requests grow alike: eight steps at a time, whose sums stay in registers."""
    step, delta, unit = group_i[STEP, wi[GROUP, g]], sc[DELTA], sf[UNIT]
    H, B, K = sc[HORIZON], sc[SLOTS_MAX], curves.shape[1]
    between, chances = steps_between(H), curves.reshape(curves.size)
    for n in range(0, between + 1, 8):
        i, j, k, m = (
            step_at(n, between, H),
            step_at(n + 1, between, H),
            step_at(n + 2, between, H),
            step_at(n + 3, between, H),
        )
        p, q, r, s = (
            step_at(n + 4, between, H),
            step_at(n + 5, between, H),
            step_at(n + 6, between, H),
            step_at(n + 7, between, H),
        )
        at_i, at_j, at_k, at_m, at_p, at_q, at_r, at_s = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        for slot in range(g * B, (g + 1) * B):
            if slot_i[slot, ROW] < 0:
                continue
            load = (slot_i[slot, LOAD0] + (step - slot_i[slot, ADMIT]) * delta) * unit
            at = slot * K + step - look[slot, PREDICTED]
            share = 1.0 / chances[at]
            at_i += rounded((load + growth[i]) * (chances[at + i] * share))
            at_j += rounded((load + growth[j]) * (chances[at + j] * share))
            at_k += rounded((load + growth[k]) * (chances[at + k] * share))
            at_m += rounded((load + growth[m]) * (chances[at + m] * share))
            at_p += rounded((load + growth[p]) * (chances[at + p] * share))
            at_q += rounded((load + growth[q]) * (chances[at + q] * share))
            at_r += rounded((load + growth[r]) * (chances[at + r] * share))
            at_s += rounded((load + growth[s]) * (chances[at + s] * share))
        ahead[i], ahead[j], ahead[k], ahead[m] = at_i, at_j, at_k, at_m
        ahead[p], ahead[q], ahead[r], ahead[s] = at_p, at_q, at_r, at_s


@jit
def expect_others(g, sc, sf, wi, group_i, slot_i, look, curves, ahead, prompt, profile):
    """Expected loads of one worker where every request has its own profile."""
    step, kind, B, H = group_i[STEP, wi[GROUP, g]], sc[PROFILE_KIND], sc[SLOTS_MAX], sc[HORIZON]
    between = steps_between(H)
    for h in range(H + 1):
        ahead[h] = 0.0
    for slot in range(g * B, (g + 1) * B):
        row = slot_i[slot, ROW]
        if row < 0:
            continue
        since, age = step - look[slot, PREDICTED], slot_i[slot, DONE0] + step - slot_i[slot, ADMIT]
        base, share = prompt[row] * sc[SCALE], 1.0 / curves[slot, since]
        for n in range(between + 1):
            h = step_at(n, between, H)
            load = weight(kind, row, age + h, base, sc[DELTA], profile) * sf[UNIT]
            ahead[h] += rounded(load * (curves[slot, since + h] * share))


@jit
def project(sc, sf, wi, load, group_i, slot_i, look, leaves, projections, prompt, profile):
    """Projected load of the running requests, [G, H+1], from the windows of departures."""
    G, H, delta, unit = sc[WORKERS], sc[HORIZON], sc[DELTA], sf[UNIT]
    B = sc[SLOTS_MAX]
    if sc[PROFILE_KIND] == 0:
        mask = sc[WINDOW_MASK]
        for g in range(G):
            step = group_i[STEP, wi[GROUP, g]]
            project_worker(
                load[g], wi[ON_WORKER, g], step, delta, unit, mask, leaves[0, g], leaves[1, g], projections[g]
            )
        return
    for g in range(G):
        step = group_i[STEP, wi[GROUP, g]]
        for h in range(H + 1):
            projections[g, h] = 0.0
        for slot in range(g * B, (g + 1) * B):
            row = slot_i[slot, ROW]
            if row >= 0:
                age = slot_i[slot, DONE0] + step - slot_i[slot, ADMIT]
                base = prompt[row] * sc[SCALE]
                for h in range(min(H + 1, look[slot, LEAVE] - step)):
                    projections[g, h] += weight(sc[PROFILE_KIND], row, age + h, base, delta, profile) * unit


@jit
def due_predictions(sc, wi, group_i, slot_i, look, curves, due):
    """List the slots whose prediction is missing, old or overtaken, by worker; they are answered in `due`."""
    count = 0
    B = sc[SLOTS_MAX]
    for g in range(sc[WORKERS]):
        if wi[ON_WORKER, g] == 0:
            continue
        step = group_i[STEP, wi[GROUP, g]]
        for slot in range(g * B, (g + 1) * B):
            if slot_i[slot, ROW] < 0:
                continue
            predicted = look[slot, PREDICTED]
            every = sc[REFRESH_EVERY]
            if (
                predicted < 0
                or (step - predicted) * sc[TOKENS_PER_STEP] >= every
                or look[slot, LEAVE] <= step
                or (sc[PREDICTION] == EXPECTED and curves[slot, step - predicted] <= 0.0)
            ):
                due[count] = slot
                count += 1
    sc[DUE_COUNT] = count


@jit
def take_predictions(sc, wi, group_i, slot_i, look, leaves, due, answer):
    """Enter the host's answers: `answer[i]` is the slot's steps left, or a negative number for "not in the window"."""
    for i in range(sc[DUE_COUNT]):
        slot = due[i]
        step = group_i[STEP, wi[GROUP, slot // sc[SLOTS_MAX]]]
        if look[slot, IN_WINDOW] == 1 and look[slot, LEAVE] > step:
            window_add(sc, slot_i, look, leaves, slot, sc[DELTA], -1)
        look[slot, IN_WINDOW] = 0
        look[slot, PREDICTED] = step
        look[slot, LEAVE] = NEVER
        if sc[PREDICTION] == DEPARTURES and answer[i] >= 0.0:
            look[slot, LEAVE] = step + max(np.int64(1), np.int64(math.ceil(answer[i])))
            if sc[PROFILE_KIND] == 0:
                window_add(sc, slot_i, look, leaves, slot, sc[DELTA], 1)
    sc[DUE_COUNT] = 0


@jit
def advance_window(sc, group_i, slot_i, look, buckets, leaves, q, low, high):
    """The windows of departures of a group move on by one step."""
    step = group_i[STEP, q]
    if (
        sc[PREDICTION] == 1
    ):  # the oracle: who leaves just inside the new end of the window stands in one bucket
        slot = buckets[q, (step + sc[HORIZON] - 1) & sc[RING_MASK]]
        while slot >= 0:
            if look[slot, LEAVE] == step + sc[HORIZON] and look[slot, IN_WINDOW] == 0:
                window_add(sc, slot_i, look, leaves, slot, sc[DELTA], 1)
            slot = slot_i[slot, FOLLOWER]
    else:  # who was expected to have left by now and has not is out of the window until predicted anew
        column = step & sc[WINDOW_MASK]
        for g in range(low, high):
            leaves[0, g, column] = 0
            leaves[1, g, column] = 0


@inlined
def overloaded(waiting_f, first, W, C):
    """BF-IO's Definition 1: without its most frequent load the pool of W requests still fills all C free slots."""
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
                same += waiting_f[WAITING_LOAD, j] == waiting_f[WAITING_LOAD, i]
            if W - same < C:
                return False
        return True
    # Two at a time: if no pair is of one class, a majority has one of each pair and the request left over.
    twins = 0
    for i in range(first, first + span - 1, 2):
        twins += waiting_f[WAITING_LOAD, i] == waiting_f[WAITING_LOAD, i + 1]
    over = waiting_f[WAITING_LOAD, first + span - 1]
    if (
        twins == 0
        and C > 1
        and over != waiting_f[WAITING_LOAD, first]
        and over != waiting_f[WAITING_LOAD, first + 1]
    ):
        return True
    candidate, votes = 0.0, 0
    for i in range(first, first + span):
        value = waiting_f[WAITING_LOAD, i]
        if votes == 0:
            candidate, votes = value, 1
        elif value == candidate:
            votes += 1
        else:
            votes -= 1
    same = 0
    for i in range(first, first + span):
        same += waiting_f[WAITING_LOAD, i] == candidate
    if same < C:
        return True
    for i in range(first + span, first + W):
        same += waiting_f[WAITING_LOAD, i] == candidate
    return W - same >= C


@inlined
def build_view(
    sc, sf, wi, wf, load, projections, group_i, slot_i, look, leaves, curves, growth, prompt, profile
):
    """Bring what the policy sees up to date."""
    if sc[KV_LIMITED] == 1:
        for g in range(sc[WORKERS]):
            used = wf[LOAD, g] + wf[QUEUED_LOAD, g] + sf[KV_RESERVE] * (wi[ON_WORKER, g] + wi[QUEUED, g])
            wf[KV_FREE, g] = max(0.0, sf[KV_TOKENS] - used)
    if sc[WAITS] > 0:
        sf[MEAN_WAIT] = sf[WAIT_SUM] / sc[WAITS]
    if sc[PREDICTION] == EXPECTED:
        project_expected(sc, sf, wi, group_i, slot_i, look, curves, growth, projections, prompt, profile)
    elif sc[HORIZON] > 0:
        project(sc, sf, wi, load, group_i, slot_i, look, leaves, projections, prompt, profile)
