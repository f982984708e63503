"""Jobs of other barrier-synchronised machines as traces with a profile per request (BF-IO sec. 7.2).

The paper names the two domains and gives no model; these are ours, small and keyed, so that a policy can be tried on loads
that rise and fall. A "token" is a cell or a tile here, "prompt tokens" the work of a job's first step.
"""

from __future__ import annotations

import numpy as np

from evenstep import streams
from evenstep.errors import InputError
from evenstep.request import F8, I8, Trace
from evenstep.sim.drift import Drift, Profiles

_LEVELS = 3  # how often a region may be refined: each level doubles its cells
_REFINEMENT_STEPS = 8  # steps between two looks at the refinement criterion


def adaptive_mesh(
    regions: int, *, cells: int = 512, mean_steps: float = 120.0, seed: int = 0
) -> tuple[Trace, Drift]:
    """Regions of an adaptive mesh: a front passes, refines the region level by level, leaves, and it coarsens again.

    Args:
        regions: N, number of jobs.
        cells: cells of an unrefined region; each starts between half and one and a half times that.
        mean_steps: mean lifetime, steps (exponential, at least one).
        seed: key of the draws.

    Returns:
        The trace and the drift to run it with: loads rise by doublings and fall by halvings.

    Raises:
        InputError: no regions, no cells, or a lifetime below one step.

    Source: BF-IO sec. 7.2 names the domain; the model is ours.
    """
    _check("adaptive_mesh", regions=regions, cells=cells, mean_steps=mean_steps)
    ids = np.arange(regions, dtype=np.int64)
    base = np.round(cells * (0.5 + streams.uniform(seed, "mesh-cells", ids)))
    life = 1 + np.floor(-mean_steps * np.log1p(-streams.uniform(seed, "mesh-life", ids))).astype(np.int64)
    arrives = streams.uniform(seed, "mesh-front", ids)  # when the front passes, as a share of the lifetime
    rows: list[F8] = []
    for i in range(regions):
        looks = np.arange(int(life[i])) // _REFINEMENT_STEPS
        front = int(arrives[i] * life[i]) // _REFINEMENT_STEPS
        level = np.clip(_LEVELS - np.abs(looks - front), 0, _LEVELS)
        rows.append(base[i] * 2.0**level)
    return _job_trace(rows, "adaptive mesh")


def tiled_factorisation(matrices: int, *, tiles: int = 24, seed: int = 0) -> tuple[Trace, Drift]:
    """Blocked factorisations: step k of an n-tile matrix updates the trailing (n - k)(n - k + 1) / 2 tiles.

    Args:
        matrices: N, number of jobs.
        tiles: largest number of tile rows; each matrix has between a third of that and all.
        seed: key of the draws.

    Returns:
        The trace and the drift to run it with: loads fall to one tile.

    Raises:
        InputError: no matrices or no tiles.

    Source: BF-IO sec. 7.2 names the domain; the task count is that of a right-looking Cholesky factorisation.
    """
    _check("tiled_factorisation", matrices=matrices, tiles=tiles)
    share = streams.uniform(seed, "tiles", np.arange(matrices, dtype=np.int64))
    low = max(1, tiles // 3)
    sizes = low + np.floor(share * (tiles - low + 1)).astype(np.int64)
    rows = [left * (left + 1.0) / 2.0 for n in sizes for left in [np.arange(int(n), 0, -1)]]
    return _job_trace(rows, "tiled factorisation")


def _job_trace(rows: list[F8], name: str) -> tuple[Trace, Drift]:
    steps: I8 = np.array([row.size for row in rows], dtype=np.int64)
    offsets = np.concatenate([[0], np.cumsum(steps)]).astype(np.int64)
    first: I8 = np.array([row[0] for row in rows]).astype(np.int64)
    trace = Trace(
        first,
        steps,
        name=name,
        format="synthetic",
        notes=(f"{name}: work per step is given by a profile per job",),
    )
    return trace, Drift(profiles=Profiles(np.concatenate(rows), offsets))


def _check(where: str, **values: float) -> None:
    for name, value in values.items():
        if not value >= 1:
            raise InputError(where, name, value, "a number >= 1")
