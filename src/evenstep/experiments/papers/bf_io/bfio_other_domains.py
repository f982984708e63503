"""BF-IO sec. 7.2: the barrier in other domains, adaptive meshes and tiled factorisations, whose work also falls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from evenstep import streams
from evenstep.experiments import vocabulary as ex
from evenstep.experiments.papers.bf_io import _bf_io as bf
from evenstep.request import I8, Trace, offsets_of
from evenstep.sim.cluster.drift import Drift, Profiles

#: Steps between two changes of a patch's level, and its finest level: each level has four times the cells.
LOOK, FINEST = 10, 3
_FIELD = "idle_share"


@ex.experiment("adaptive meshes and tiled factorisations", "BF-IO sec. 7.2", most_traces=0)
def experiment(setting: ex.Setting) -> ex.Findings:
    jobs = setting.pick(8_000, 600)
    fleet = bf.fleet(*setting.pick((16, 32), (4, 8)))
    single, idle = replace(setting, seeds=1), dict[tuple[str, str], list[float]]()
    for domain, drawn in DOMAINS.items():
        for replicate in range(setting.replicates):
            work = drawn(jobs, setting.seed + replicate)
            trace = Trace(np.ceil(work.values[work.offsets[:-1]]).astype(np.int64), np.diff(work.offsets), name=domain)
            cluster = replace(fleet, drift=Drift(profiles=work))
            for policy, (done,) in ex.run_policies(single, trace, bf.POLICIES, cluster, bf.STEP_TIME).items():
                idle.setdefault((domain, policy), []).extend(ex.values([done], _FIELD, 100.0))
    return ex.Findings(
        **ex.told(_told(idle)),
        constants=ex.constants(f"""
            mesh | 1..100 cells for 20..120 steps; every {LOOK} steps refined or coarsened, by 4 times the cells | the paper
              describes the domain and gives no figure
            tiles | factorisations of 4..40 panels; after panel k of n, (n - k)(n - k + 1)/2 tiles are left to update | as
              above
            fleet | {fleet.workers} workers of {fleet.slots} slots, saturated, {jobs:,} jobs | not given
        """),
        remark="the paper names both domains without a figure; its theorems ask for work that never falls, and this falls",
        stands_in="drawn jobs for the traces of either domain",
        data=ex.curves({key: [own] for key, own in idle.items()}, ("domain", "policy"), ["idle_percent"]),
        draw=lambda figure: _draw(figure, idle),
    )


def _told(idle: Mapping[tuple[str, str], list[float]]) -> ex.Told:
    for (domain, policy), own in idle.items():
        base = idle[domain, bf.FCFS]
        yield ex.row(f"{domain}, {policy}", "load imbalance", "%", own, None, base, bf.FCFS)
        if policy in (bf.BF0, bf.BF20):
            says, share = f"{domain}: {policy} has less load imbalance than FCFS", ex.mean_text(ex.ratio(own, base))
            yield ex.compared(says, own, base, -1, f"{share} of FCFS's")


def mesh(jobs: int, seed: int) -> Profiles:
    """Load profiles of `jobs` patches of a mesh, in cells a step, for 20 to 120 steps.

    The level of each patch is a random walk between 0 and `FINEST`, with a move every `LOOK` steps. A level has 4 times the
    cells of the one below.
    """
    steps = _whole(seed, "mesh-steps", jobs, 20, 120)
    looks = int(steps.max()) // LOOK + 1
    level = np.zeros((jobs, looks))
    for at in range(1, looks):
        level[:, at] = np.clip(level[:, at - 1] + _whole(seed, "mesh-level", jobs, -1, 1, at), 0, FINEST)
    patch, step = _each_step(steps)
    return Profiles(_whole(seed, "mesh-cells", jobs, 1, 100)[patch] * 4.0 ** level[patch, step // LOOK], offsets_of(steps))


def tiles(jobs: int, seed: int) -> Profiles:
    """Load profiles of `jobs` blocked factorisations of 4 to 40 panels, one a step; the load is the tiles left to update."""
    panels = _whole(seed, "tile-panels", jobs, 4, 40)
    matrix, done = _each_step(panels)
    left = panels[matrix] - done
    return Profiles(left * (left + 1) / 2.0, offsets_of(panels))


DOMAINS: Mapping[str, Callable[[int, int], Profiles]] = {"mesh": mesh, "tiles": tiles}


def _whole(seed: int, stream: str, count: int, low: int, high: int, draw: int = 0) -> I8:
    """int64[count], random integers from `low` to `high`, both included, with equal chances."""
    drawn = streams.uniform(seed, stream, np.arange(count, dtype=np.int64), draw)
    return low + (drawn * (high - low + 1)).astype(np.int64)


def _each_step(steps: I8) -> tuple[I8, I8]:
    """(index of the job, number of the step in its job) for every step of every job."""
    job = np.repeat(np.arange(steps.size), steps)
    return job, np.arange(job.size) - offsets_of(steps)[job]


def _draw(figure: ex.Figure, idle: Mapping[tuple[str, str], list[float]]) -> None:
    axes = figure.add_subplot(1, 1, 1)
    policies = list(bf.POLICIES)
    ex.lines(axes, {d: (policies, [np.mean(idle[d, p]) for p in policies]) for d in DOMAINS}, marker="o", ls="-")
    axes.set_ylim(bottom=0)
    ex.labelled(axes, "policy", "load imbalance, %", legend=True)
