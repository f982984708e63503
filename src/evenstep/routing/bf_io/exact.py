"""Solves a decision of BF-IO(H) to optimality, as a MILP with one envelope variable per step and group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from evenstep.errors import PolicyError
from evenstep.request import F8, I8
from evenstep.routing.view import HOLD, RoutingView


@dataclass(frozen=True, slots=True, eq=False)
class Instance:
    """One decision as the solver takes it: G workers, W requests, Q groups, n = H + 1 steps."""

    group: I8  # [G], 0..Q-1
    free_slots: I8  # [G]
    kv_free: F8  # [G], KV tokens; inf where only slots limit
    load: F8  # [G, n], projected KV tokens before any admission, those of queued requests included
    profile: F8  # [W, n], KV tokens of each request h steps after its admission; 0 once it has ended
    size: F8  # [W], KV tokens at admission
    weight: F8  # [n], discount ** h
    forced: int  # the oldest `forced` requests are admitted before all others, as many as fit
    count: int  # requests to admit


def instance(view: RoutingView, horizon: int, discount: float, window: int, age_limit: float) -> Instance:
    """Convert a view to the solver's input, with options of `BFIO`. Its requests are those of the window, oldest first."""
    n = horizon + 1
    growth = np.zeros(n)
    known = min(n, view.growth.size)
    growth[:known] = np.where(np.isnan(view.growth[:known]), 0.0, view.growth[:known])
    ahead = view.projections if view.projections.shape[1] else view.load[:, None]
    free = int(view.free_slots[view.free_slots > 0].sum())
    count = min(view.waiting_id.size, free)
    considered = min(view.waiting_id.size, max(window, count)) if window > 0 else view.waiting_id.size
    size, steps = view.waiting_load[:considered], view.waiting_steps[:considered]
    stays = np.where(np.isnan(steps), np.inf, steps)
    forced, most = 0, min(count, max(1, free // 4))
    if age_limit > 0 and view.mean_wait_s > 0:
        while forced < most and view.waited_s[forced] > age_limit * view.mean_wait_s:
            forced += 1
    return Instance(
        group=np.unique(view.group, return_inverse=True)[1].astype(np.int64),
        free_slots=view.free_slots,
        kv_free=view.kv_free,
        load=ahead + (view.queued_load[:, None] + view.queued[:, None] * growth),
        profile=(size[:, None] + growth) * (np.arange(n) < stays[:, None]),
        size=size,
        weight=np.array([discount**h for h in range(n)]),
        forced=forced,
        count=count,
    )


def solve(
    instance: Instance, start: I8 | None = None, relative_gap: float = 1e-9, seconds: float = np.inf
) -> tuple[I8, float]:
    """Find the best answer, and a certified lower bound of J.

    If KV memory does not allow `count` admissions, as many requests as can fit are admitted, overdue ones before others.

    Args:
        start: int64[W], an answer to begin with, e.g. the fast one; the result is no worse than one that admits as many.
        relative_gap: the solver stops once its bound is within this share of J, or within 1e-6 tokens.
        seconds: the solver stops after this time with the best answer so far; the bound stays valid. Where KV memory limits,
            it runs twice, and the bound is for the number that it admits.

    Returns:
        int64[W], worker or `HOLD` of each request; and the bound in KV tokens.

    Raises:
        PolicyError: the solver found no answer.

    Source: BF-IO sec. 4, Algorithm 1 (IO): x[i, g] binary, one envelope z[q, h] >= every load of its group.
    """
    from scipy import sparse

    opened = np.flatnonzero(instance.free_slots > 0)
    W, P, n = instance.size.size, opened.size, instance.weight.size
    member = instance.group[:, None] == np.arange(int(instance.group.max()) + 1)
    kv_free, is_forced = instance.kv_free[opened], np.arange(W) < instance.forced
    options = {"mip_rel_gap": relative_gap, "time_limit": seconds}
    rows: Any = sparse.vstack(
        [
            sparse.kron(sparse.eye(W), np.ones((1, P))),  # each request at most once
            sparse.kron(np.ones((1, W)), sparse.eye(P)),  # slots of each worker
            sparse.kron(instance.size[None], sparse.eye(P)),  # its KV tokens
            np.ones((1, W * P)),
            np.repeat(is_forced, P)[None],
        ]
    )
    lower = np.append(np.zeros(W + 2 * P), [instance.count, instance.forced])
    upper = np.concatenate([np.ones(W), instance.free_slots[opened], kv_free, [instance.count, np.inf]])
    chosen = np.zeros((W, P), np.bool_) if start is None else start[:, None] == opened
    if np.isfinite(kv_free).any():  # admit as many as fit, the overdue before all others
        lower[-2:] = 0
        reward = np.repeat(np.where(is_forced, W + 1.0, 1.0), P)
        fitting, _ = _solved(-reward, np.zeros(W * P), 0.0, rows, (lower, upper), np.zeros_like(chosen), options)
        lower[-2:] = fitting.sum(), fitting[is_forced].sum()
    is_closed = member & (instance.free_slots <= 0)[:, None]
    floor = [instance.load[closed].max(axis=0, initial=0.0) for closed in is_closed.T]
    cost: Any = np.append(-np.repeat(instance.profile @ instance.weight, P), np.outer(member.sum(axis=0), instance.weight))
    added: Any = sparse.hstack([sparse.kron(sparse.eye(P), -profile[:, None]) for profile in instance.profile])
    chosen, bound = _solved(
        cost,
        np.append(np.zeros(W * P), floor),
        -float((instance.load @ instance.weight).sum()),
        sparse.bmat([[rows, None], [added, sparse.kron(member[opened].astype(np.float64), sparse.eye(n))]]),
        (np.append(lower, instance.load[opened]), np.append(upper, np.full(P * n, np.inf))),
        chosen,
        options,
    )
    return np.where(chosen.any(axis=1), opened[np.argmax(chosen, axis=1)], HOLD), bound


def _solved(
    cost: F8, floor: F8, offset: float, rows: Any, bounds: tuple[F8, F8], start: Any, options: dict[str, float]
) -> tuple[Any, float]:
    """Solve a MILP; returns which binary variables are 1, bool[W, P] for P open workers, and a lower bound of the objective.

    Raises a `PolicyError` if the solver found no answer.

    Args:
        cost, floor: float64[columns], coefficients of the objective, and least values. The W * P binaries are the first
            columns.
        offset: a constant in the objective.
        rows, bounds: the constraint matrix, and lower and upper bounds of its rows.
        start: bool[W, P], the binaries to begin with; all False = not known.
        options: HiGHS option -> value.
    """
    import highspy

    solver, program, matrix = highspy.Highs(), highspy.HighsLp(), rows.tocsr()
    for option, value in {"output_flag": False, "threads": 1, "random_seed": 0, "mip_abs_gap": 1e-6, **options}.items():
        solver.setOptionValue(option, value)
    program.num_col_, program.num_row_, program.offset_ = cost.size, bounds[0].size, offset
    program.col_cost_, program.col_lower_ = cost, floor
    program.col_upper_ = np.where(np.arange(cost.size) < start.size, 1.0, np.inf)
    program.row_lower_, program.row_upper_ = bounds
    program.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    program.a_matrix_.start_, program.a_matrix_.index_, program.a_matrix_.value_ = matrix.indptr, matrix.indices, matrix.data
    kinds = highspy.HighsVarType
    program.integrality_ = [kinds.kInteger] * start.size + [kinds.kContinuous] * (cost.size - start.size)
    solver.passModel(program)
    if start.any():
        solver.setSolution(start.size, np.arange(start.size, dtype=np.int32), start.ravel().astype(np.float64))
    solver.run()
    info = solver.getInfo()
    if info.primal_solution_status != int(highspy.SolutionStatus.kSolutionStatusFeasible):
        status = solver.modelStatusToString(solver.getModelStatus())
        raise PolicyError(f"bf-io: the exact solver found no answer ({status}).")
    return np.asarray(solver.getSolution().col_value)[: start.size].reshape(start.shape) > 0.5, float(info.mip_dual_bound)
