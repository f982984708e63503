"""One decode step of the compiled cluster: its loads, seconds, energy and records."""

from __future__ import annotations

import numpy as np

from evenstep.compiled import Ints, part
from evenstep.sim.cluster.model import LINES_OF_LONGEST, ONE_LINE, PROFILES, Fixed, Fleet, Law, Now, Run, Samples
from evenstep.sim.cluster.roots import root
from evenstep.sim.cluster.slots import longest_units, steps_of


@part
def full_power(law: Law, tokens: int) -> float:
    """Share of the span of power that a worker takes which makes this many tokens in a step of one second; may exceed 1."""
    return law.token_power[np.uintp(min(tokens, law.token_power.size - 1))]


@part
def energy(
    fixed: Fixed, law: Law, made: Ints, units: Ints, first: int, overhead: float, summed: float, duration: float
) -> tuple[float, float]:
    """Joules of one step of a group beyond idle power, divided by `Fixed.span_w`, so in seconds: (busy/idle, step average).

    The two are accountings of power: by each worker's busy time, and by its average over the whole step. A worker busy for x
    seconds costs ``min(x, power * x ** exponent)`` (`full_power`, `roots`). If the law is not `ONE_LINE`, the workers'
    seconds are read from `law.local_s` (`local_times`).

    Args:
        made, units: int64[workers], output tokens that the group's workers make in this step, and their load units.
        first: the group's first worker.
        overhead: seconds of overhead, the same for each worker.
        summed: seconds of all workers together without overhead.
        duration: seconds of the step.
    """
    slope, roots, local_s = fixed.slope * fixed.unit, law.roots, law.local_s
    most, fewest, _ = extremes(made)
    if duration <= fewest * fixed.full_power_s:  # all at full power throughout, under either accounting
        return made.size * overhead + summed, made.size * duration
    grain = 1099511627776.0
    whole = root(duration, roots)
    worked, average = 0, 0
    if most == fewest:
        power = full_power(law, most)
        for g in range(units.size):
            x = overhead + (slope * units[g] if fixed.law_kind == ONE_LINE else local_s[first + g])
            worked += np.int64(min(x, power * root(x, roots)) * grain)
        return worked / grain, made.size * min(duration, power * whole)
    for g in range(units.size):
        x = overhead + (slope * units[g] if fixed.law_kind == ONE_LINE else local_s[first + g])
        power = full_power(law, made[g])
        worked += np.int64(min(x, power * root(x, roots)) * grain)
        average += np.int64(min(duration, power * whole) * grain)
    return worked / grain, average / grain


@part
def line_seconds(law: Law, g: int, tokens: float) -> float:
    """Seconds of worker g at `tokens` KV tokens, without overhead; its last line continues beyond the last knot."""
    knots, cell = law.knots, 0
    while cell < knots.size - 2 and tokens >= knots[cell + 1]:
        cell += 1
    row = g % law.seconds.shape[0]
    slope = (law.seconds[row, cell + 1] - law.seconds[row, cell]) / (knots[cell + 1] - knots[cell])
    return law.seconds[row, cell] + slope * (tokens - knots[cell])


@part
def local_times(run: Run, q: int) -> tuple[float, float]:
    """Write the seconds, without overhead, of group q's workers to `law.local_s`; returns the largest and their sum.

    For a law that is not `ONE_LINE`. A law of the longest request is read at `PiecewiseLinear.effective_load`.
    """
    fixed, fleet, law, group = run.fixed, run.fleet, run.law, run.fleet.groups[q]
    largest, total = 0.0, 0.0
    for g in range(group.first, group.first + group.workers):
        tokens = fleet.units[g] * fixed.unit
        if fixed.law_kind == LINES_OF_LONGEST:
            longest = longest_units(run, g, group.step) * fixed.unit
            tokens = tokens + fixed.longest_share * max(fleet.running[g] * longest - tokens, 0.0)
        seconds = line_seconds(law, g, tokens)
        law.local_s[g] = seconds
        total += seconds
        if g == group.first or seconds > largest:
            largest = seconds
    return largest, total


@part
def thin_out(now: Now, samples: Samples) -> None:
    """Double `now.stride`, the steps between samples, and keep only samples whose step is a multiple of the new stride."""
    now.stride *= 2
    now.samples = 0
    for i in range(samples.rows.size):
        here, there = samples.rows[now.samples], samples.rows[i]
        if there.step % now.stride == 0:
            here.step, here.group = there.step, there.group
            here.start_s, here.duration_s = there.start_s, there.duration_s
            for g in range(samples.load.shape[1]):
                samples.load[now.samples, g] = samples.load[i, g]
                samples.running[now.samples, g] = samples.running[i, g]
                if samples.longest.shape[0] > 0:
                    samples.longest[now.samples, g] = samples.longest[i, g]
            now.samples += 1


@part
def sample(fixed: Fixed, now: Now, fleet: Fleet, samples: Samples, q: int, step: int) -> bool:
    """Record load and requests of every worker of the fleet at the start of a step of group q; returns whether it did.

    Call it only for a step that is a multiple of `now.stride`. A full table is thinned out first, which doubles the stride.
    It returns False if the step is not a multiple of the new stride, or if the table is still full. After True, the caller
    sets the sample's `duration_s`.
    """
    if now.samples == samples.rows.size:
        thin_out(now, samples)
        if step == 0 and now.samples == samples.rows.size:  # more groups than rows: their first steps alone fill the table
            now.stride = max(2, now.stride // 2)
        if step % now.stride != 0 or now.samples == samples.rows.size:
            return False
    here = samples.rows[now.samples]
    here.step, here.group, here.start_s, here.duration_s = step, q, now.now_s, 0.0
    for g in range(fixed.workers):
        samples.load[now.samples, g] = fleet.units[g] * fixed.unit
        samples.running[now.samples, g] = fleet.running[g]
    now.samples += 1
    return True


@part
def sample_longest(run: Run) -> None:
    """Write the load of every worker's longest request, in KV tokens, into the newest sample; 0 where no request runs."""
    fleet, longest = run.fleet, run.samples.longest
    for g in range(run.fixed.workers):
        units = longest_units(run, g, fleet.groups[fleet.group[g]].step)
        longest[run.now.samples - 1, g] = units * run.fixed.unit


@part
def tokens_made(run: Run, q: int) -> int:
    """Write the output tokens that each worker of group q makes in its coming step to `law.made`; returns their sum.

    Over a request's steps they add up to its output.
    """
    fixed, rows, output, made, group = run.fixed, run.slots.rows, run.requests.output, run.law.made, run.fleet.groups[q]
    low, high, slots, step = group.first, group.first + group.workers, fixed.slots_max, group.step
    if fixed.profile_kind == PROFILES:  # one token a step until the output is complete; the last step makes the rest
        for g in range(low, high):
            tokens = 0
            for slot in range(g * slots, (g + 1) * slots):
                mine = rows[slot]
                if mine.row >= 0:
                    done = mine.done + step - mine.admit
                    made_by = int(output[mine.row])
                    after = made_by if mine.finish == step else min(made_by, done + 1)
                    tokens += after - min(made_by, done)
            made[g] = tokens
    else:  # the last step of a request may make fewer
        for g in range(low, high):
            made[g] = run.fleet.running[g] * fixed.tokens_per_step
        slot = run.slots.calendar[q, step & fixed.ring_mask]
        while slot >= 0:
            row = rows[slot].row
            made[slot // slots] -= steps_of(fixed, run.requests, row) * fixed.tokens_per_step - int(output[row])
            slot = rows[slot].follower
    return extremes(made[low:high])[2]


@part
def extremes(counts: Ints) -> tuple[int, int, int]:
    """Largest, smallest and total of the workers' load units, or of their requests."""
    top, bottom, total = counts[0], counts[0], 0
    for g in range(counts.size):
        top, bottom = max(top, counts[g]), min(bottom, counts[g])
        total += counts[g]
    return top, bottom, total


@part
def start_step(run: Run, q: int) -> None:
    """Compute and record the coming step of group q, which must have running requests, and start it now.

    Its end is written to `Group.end_s`. The caller has checked that the table of steps has a free row.
    """
    fixed, now, fleet, law, rows, group = run.fixed, run.now, run.fleet, run.law, run.records.steps, run.fleet.groups[q]
    low, high = group.first, group.first + group.workers
    units, unit, overhead = fleet.units[low:high], fixed.unit, group.overhead_s
    top, bottom, total = extremes(units)
    if fixed.law_kind == ONE_LINE:
        largest = fixed.slope * (top * unit)
        summed = fixed.slope * (total * unit)
    else:
        largest, summed = local_times(run, q)
    duration = overhead + largest
    at = now.step_rows
    now.step_rows = at + 1
    tokens, made = group.running, fleet.running[low:high]
    if fixed.tokens_per_step > 1 or fixed.profile_kind == PROFILES:
        tokens, made = tokens_made(run, q), law.made[low:high]
    rows.group[at], rows.step[at], rows.running[at] = q, group.step, group.running
    rows.running_all[at], rows.admitted[at], rows.tokens[at] = now.running_all, group.admitted, tokens
    rows.start_s[at], rows.duration_s[at] = now.now_s, duration
    rows.envelope[at], rows.load_sum[at], rows.load_min[at] = top * unit, total * unit, bottom * unit
    rows.local_max_s[at], rows.local_sum_s[at] = largest, summed
    busy, average = energy(fixed, law, made, units, low, overhead, summed, duration)
    idle = fixed.idle_w * duration * group.workers
    rows.energy_busy_idle_j[at] = idle + fixed.span_w * busy
    rows.energy_step_average_j[at] = idle + fixed.span_w * average
    now.load_steps += total * unit
    now.active_steps += group.running
    now.steps += 1
    now.overloaded += now.overloaded_now
    group.admitted, group.grown, group.busy = 0, 0, 1
    group.end_s = now.now_s + duration
    ring = np.uintp(group.step & fixed.ring_mask)
    run.slots.began_s[q, ring], run.slots.ended_s[q, ring] = now.now_s, group.end_s
