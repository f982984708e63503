# pyright: basic
# ruff: noqa: F403, F405 - the names of the state's sections are this file's vocabulary
"""One decode step of the compiled cluster: its loads, its length, its energy, its records."""

from __future__ import annotations

import numpy as np

from evenstep.compiled import inlined, jit
from evenstep.routing.view import GROUP
from evenstep.routing.view import RUNNING as ON_WORKER
from evenstep.sim.cluster_layout import *
from evenstep.sim.slots_kernel import longest_units, steps_of


@inlined
def root(x, table):
    """x ** exponent from the table (`cluster_layout.root_table`); x is held inside its range."""
    bits = np.float64(x).view(np.int64)
    cell = np.uintp(min(max((bits >> 43) - ((1023 + ROOT_OCTAVES[0]) << 9), 0), table.size - 2))
    part = (bits & 0x7FFFFFFFFFF) * 1.1368683772161603e-13
    return table[cell] + part * (table[cell + np.uintp(1)] - table[cell])


@inlined
def energy(
    running, load, local, law_kind, slope, overhead, summed, duration, full_power_s, count_power, table
):
    """Joules of one step of a group beyond idle power, without the factor `SPAN_W`: (busy/idle, step average).

    The arrays are the group's own parts; `summed` is the workers' seconds without overhead, `full_power_s` the longest a
    step may last for one request to take full power. A worker busy for x seconds costs ``min(x, power * x ** exponent)``.
    Sums are kept in whole multiples of 2^-40 s: unlike sums of floats they need not wait for each other.
    """
    most, fewest = running[0], running[0]
    for g in range(running.size):
        most, fewest = max(most, running[g]), min(fewest, running[g])
    if duration <= fewest * full_power_s:  # all at full power throughout, under either accounting
        return running.size * overhead + summed, running.size * duration
    grain = 1099511627776.0
    whole = root(duration, table)
    worked, average = np.int64(0), np.int64(0)
    if most == fewest:
        power = count_power[np.uintp(most)]
        for g in range(load.size):
            x = overhead + (slope * load[g] if law_kind == ONE_LINE else local[g])
            worked += np.int64(min(x, power * root(x, table)) * grain)
        return worked / grain, running.size * min(duration, power * whole)
    for g in range(load.size):
        x = overhead + (slope * load[g] if law_kind == ONE_LINE else local[g])
        power = count_power[np.uintp(running[g])]
        worked += np.int64(min(x, power * root(x, table)) * grain)
        average += np.int64(min(duration, power * whole) * grain)
    return worked / grain, average / grain


@inlined
def line_seconds(law, g, tokens):
    """Seconds at so many KV tokens on the lines of worker g."""
    cell = 0
    while cell < law.shape[1] - 2 and tokens >= law[0, cell + 1]:
        cell += 1
    row = 1 + g % (law.shape[0] - 1)
    slope = (law[row, cell + 1] - law[row, cell]) / (law[0, cell + 1] - law[0, cell])
    return law[row, cell] + slope * (tokens - law[0, cell])


@jit
def local_times(load, unit, law, local, low, high):
    """Local seconds of workers low..high-1 under a piecewise-linear law; returns (largest, sum)."""
    largest, total = 0.0, 0.0
    for g in range(low, high):
        seconds = line_seconds(law, g, load[g] * unit)
        local[g] = seconds
        total += seconds
        if g == low or seconds > largest:
            largest = seconds
    return largest, total


@jit
def local_times_of_longest(
    sc, wi, worker_i, load, slot_i, prompt, profile, share, unit, law, local, step, low, high
):
    """As `local_times`, the lines being read at `PiecewiseLinear.effective_load`, `share` its share of the longest."""
    largest, total = 0.0, 0.0
    for g in range(low, high):
        tokens = load[g] * unit
        longest = longest_units(sc, worker_i, slot_i, prompt, profile, g, step) * unit
        seconds = line_seconds(law, g, tokens + share * max(wi[ON_WORKER, g] * longest - tokens, 0.0))
        local[g] = seconds
        total += seconds
        if g == low or seconds > largest:
            largest = seconds
    return largest, total


@jit
def sample(sc, sf, wi, load, group_i, sample_i, sample_f, sample_load, sample_longest, sample_running, q):
    """Keep every worker's load at each stride-th step of a group; a full table drops every other row."""
    at = sc[SAMPLES]
    if at == sample_i.shape[0]:
        half = at // 2
        for i in range(half):
            sample_i[i, 0], sample_i[i, 1] = sample_i[2 * i, 0], sample_i[2 * i, 1]
            sample_f[i, 0], sample_f[i, 1] = sample_f[2 * i, 0], sample_f[2 * i, 1]
            for g in range(sc[WORKERS]):
                sample_load[i, g] = sample_load[2 * i, g]
                sample_running[i, g] = sample_running[2 * i, g]
                if sample_longest.shape[0] > 0:
                    sample_longest[i, g] = sample_longest[2 * i, g]
        sc[STRIDE] *= 2
        sc[SAMPLES] = half
        at = half
        if group_i[STEP, q] % sc[STRIDE] != 0:
            return
    sample_i[at, 0], sample_i[at, 1] = group_i[STEP, q], q
    sample_f[at, 0] = sf[NOW]
    sample_f[at, 1] = 0.0
    for g in range(sc[WORKERS]):
        sample_load[at, g] = load[g] * sf[UNIT]
        sample_running[at, g] = wi[ON_WORKER, g]
    sc[SAMPLES] = at + 1


@jit
def sample_longest_of(sc, sf, wi, worker_i, group_i, slot_i, prompt, profile, sample_longest):
    """Keep the longest request of every worker beside the newest sample."""
    for g in range(sc[WORKERS]):
        step = group_i[STEP, wi[GROUP, g]]
        units = longest_units(sc, worker_i, slot_i, prompt, profile, g, step)
        sample_longest[sc[SAMPLES] - 1, g] = units * sf[UNIT]


@jit
def tokens_made(sc, group_i, slot_i, buckets, output, profile, q, low, high):
    """Tokens the coming step of a group produces; over a request's steps they add up to its output."""
    step = group_i[STEP, q]
    tokens = group_i[GROUP_RUNNING, q] * sc[TOKENS_PER_STEP]
    if sc[PROFILE_KIND] == 2:  # one a step until the output is made; what is left comes with the last step
        tokens = 0
        for slot in range(low * sc[SLOTS_MAX], high * sc[SLOTS_MAX]):
            row = slot_i[slot, ROW]
            if row >= 0:
                done = slot_i[slot, DONE0] + step - slot_i[slot, ADMIT]
                after = output[row] if slot_i[slot, FINISH] == step else min(output[row], done + 1)
                tokens += after - min(output[row], done)
    elif sc[TOKENS_PER_STEP] > 1:  # the last step of a request may make fewer
        slot = buckets[q, step & sc[RING_MASK]]
        while slot >= 0:
            row = slot_i[slot, ROW]
            tokens -= steps_of(sc, row, output, profile) * sc[TOKENS_PER_STEP] - output[row]
            slot = slot_i[slot, FOLLOWER]
    return tokens


@inlined
def start_step(sc, sf, wi, worker_i, load, group_i, group_f, step_times, slot_i, buckets, prompt, output, profile, local,
               count_power, table, law, out_i, out_f, q):  # fmt: skip
    """Measure a group that has running requests and start its step. The caller has seen to a free row in the records."""
    low = group_i[GROUP_FIRST, q]
    high = low + group_i[GROUP_SIZE, q]
    unit = sf[UNIT]
    loads = load[low:high]
    top, bottom, total = loads[0], loads[0], np.int64(0)
    for g in range(loads.size):
        top = max(top, loads[g])
        bottom = min(bottom, loads[g])
        total += loads[g]
    overhead = group_f[OVERHEAD, q]
    if sc[LAW_KIND] == ONE_LINE:
        largest = sf[SLOPE] * (top * unit)
        summed = sf[SLOPE] * (total * unit)
    elif sc[LAW_KIND] == LINES:
        largest, summed = local_times(load, unit, law, local, low, high)
    else:
        largest, summed = local_times_of_longest(sc, wi, worker_i, load, slot_i, prompt, profile, sf[LONGEST_SHARE], unit,
                                                 law, local, group_i[STEP, q], low, high)  # fmt: skip
    duration = overhead + largest
    at = sc[STEP_ROWS]
    sc[STEP_ROWS] = at + 1
    tokens = group_i[GROUP_RUNNING, q]
    if sc[TOKENS_PER_STEP] > 1 or sc[PROFILE_KIND] == 2:
        tokens = tokens_made(sc, group_i, slot_i, buckets, output, profile, q, low, high)
    out_i[0, at], out_i[1, at], out_i[2, at] = q, group_i[STEP, q], group_i[GROUP_RUNNING, q]
    out_i[3, at], out_i[4, at], out_i[5, at] = sc[RUNNING_ALL], group_i[GROUP_ADMITTED, q], tokens
    out_f[0, at], out_f[1, at], out_f[2, at], out_f[3, at] = sf[NOW], duration, top * unit, total * unit
    out_f[4, at], out_f[5, at], out_f[6, at] = bottom * unit, largest, summed
    if sc[ENERGY] == 1:
        busy, average = energy(wi[ON_WORKER, low:high], loads, local[low:high], sc[LAW_KIND], sf[SLOPE] * unit, overhead,
                               summed, duration, sf[FULL_POWER_S], count_power, table)  # fmt: skip
        idle = sf[IDLE_W] * duration * group_i[GROUP_SIZE, q]
        out_f[7, at], out_f[8, at] = idle + sf[SPAN_W] * busy, idle + sf[SPAN_W] * average
    sc[LOAD_STEPS] += total
    sc[ACTIVE_STEPS] += group_i[GROUP_RUNNING, q]
    sc[STEPS] += 1
    sc[OVERLOADED] += sc[OVERLOADED_NOW]
    group_i[GROUP_ADMITTED, q] = 0
    group_i[GROWN, q] = 0
    group_i[BUSY, q] = 1
    end = sf[NOW] + duration
    group_f[END, q] = end
    ring = np.uintp(group_i[STEP, q] & sc[RING_MASK])
    step_times[BEGAN, q, ring], step_times[ENDED_AT, q, ring] = sf[NOW], end
