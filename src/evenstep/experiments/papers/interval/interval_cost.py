"""Interval scheduling Theorem 4.1: how the time of an iteration under A_min grows with the memory."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence

import numpy as np

from evenstep import streams
from evenstep.experiments import vocabulary as ex
from evenstep.experiments.papers.interval.interval_instances import engine_run

MEMORIES = (4_000, 16_000, 64_000, 256_000)
#: Longest outputs: with short ones a tenth of the batch ends and joins in each iteration.
LONGEST = (20, 400)
PROMPT, FULL_BATCHES = 10, 6

#: CPU seconds of an iteration by (longest output, M), one a replicate.
Times = Mapping[tuple[int, int], Sequence[float]]


@ex.experiment("A_min's time over its memory", "Interval scheduling Theorem 4.1", most_traces=0)
def experiment(setting: ex.Setting) -> ex.Findings:
    memories = setting.pick(MEMORIES, MEMORIES[:2])
    iteration_s(LONGEST[0], memories[0], setting.seed, 0)  # compiles
    taken: dict[tuple[int, int], list[float]] = {(u, m): [] for u in LONGEST for m in memories}
    for replicate in range(setting.replicates):
        for (longest, memory), own in taken.items():
            own.append(iteration_s(longest, memory, setting.seed, replicate))
    return ex.Findings(
        rows=[
            ex.row(f"outputs to {u}, M = {m:,}", "CPU time of an iteration", "us", [1e6 * s for s in own])
            for (u, m), own in taken.items()
        ],
        claims=[claim(longest, memories, taken) for longest in LONGEST],
        constants=ex.constants(f"""
            prompts, outputs | {PROMPT}; uniform from 1 | ours; the theorem is for any
            requests | {FULL_BATCHES} times what the memory holds, all there at the start | ours
            time | of the whole simulator on this machine | what grows with the batch is in it, too
        """),
        remark="the proof counts one check of eq. 3 in an iteration, of O(M). As many checks are made as requests join, "
        "and that is a share of the batch where outputs are short: then the time grows like a square of M",
        stands_in="nothing: instances are made",
        data={**ex.grouped(taken, ("longest output", "M")), "iteration_s": ex.flat(taken)},
        draw=lambda figure: _draw(figure, memories, taken),
        size=(5.0, 3.4),
    )


def iteration_s(longest: int, memory: int, seed: int, replicate: int) -> float:
    """CPU seconds of the simulator for an iteration, the mean over a run of A_min with outputs up to `longest` tokens."""
    count = FULL_BATCHES * memory // (PROMPT + longest // 2)
    u = streams.uniform(seed, "interval-cost", np.arange(count), draw=replicate)
    output = 1 + (longest * u).astype(np.int64)
    bounds = np.ones_like(output), np.full_like(output, longest)
    begin_s = time.process_time()
    done = engine_run("a-min", output, bounds, memory, seed + replicate, prompt=PROMPT)
    return (time.process_time() - begin_s) / done.totals.iterations


def claim(longest: int, memories: Sequence[int], taken: Times) -> ex.Claim:
    """The claim that an iteration's time grows no faster than M log M, from the smallest of `memories` to the largest.

    `memories` are in KV tokens, ascending; the runs have outputs up to `longest` tokens; `taken` has the measured times.
    """
    least, most = memories[0], memories[-1]
    allowed = most * math.log(most) / (least * math.log(least))
    grows = ex.ratio(taken[longest, most], taken[longest, least])
    span = f"outputs to {longest}: from M = {least:,} to {most:,}"
    says = f"{span} an iteration takes at most {allowed:.1f} times as long (M log M)"
    return ex.limited(says, grows, allowed, -1, "{} times")


def _draw(figure: ex.Figure, memories: Sequence[int], taken: Times) -> None:
    axes = figure.add_subplot(1, 1, 1)
    for colour, longest in zip(ex.COLOURS, LONGEST, strict=False):
        axes.loglog(memories, [1e6 * np.mean(taken[longest, m]) for m in memories], color=colour, label=f"to {longest}")
    ex.labelled(axes, "M", "us an iteration", "A_min, by longest output", legend=True)
