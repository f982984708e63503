"""BF-IO(H) solved to optimality: a MILP with one envelope variable per step and group, for small instances and gaps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from evenstep.errors import PolicyError
from evenstep.request import F8, I8
from evenstep.routing.filling import most_overdue
from evenstep.routing.view import HOLD, RoutingDecision, RoutingView


@dataclass(frozen=True, slots=True, eq=False)
class Instance:
    """One decision as the solver takes it: G workers, W requests, Q groups, n = H + 1 steps.

    Args:
        group: int64[G], 0..Q-1.
        free_slots: int64[G].
        kv_free: float64[G], KV tokens; inf where only slots limit.
        load: float64[G, n], projected KV tokens before any admission, those of queued requests included.
        profile: float64[W, n], KV tokens of each request h steps after its admission; 0 once it has ended.
        size: float64[W], KV tokens at admission.
        weight: float64[n], discount ** h.
        forced: the oldest `forced` requests are admitted before all others, as many as fit.
        count: requests to admit.
    """

    group: I8
    free_slots: I8
    kv_free: F8
    load: F8
    profile: F8
    size: F8
    weight: F8
    forced: int
    count: int


def instance(view: RoutingView, horizon: int, discount: float, window: int, age_limit: float) -> Instance:
    """The decision that a view asks for; parameters as in `BFIO`. Its W requests are those of the window, oldest first."""
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
    forced, most = 0, min(count, most_overdue(free))
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


def improved(instance: Instance, found: RoutingDecision) -> RoutingDecision:
    """A new decision: the optimum with its certified bound, and the memory of `found`; the search starts from `found`.

    With no request to admit it is `found` itself.
    """
    if instance.count == 0:
        return found
    worker = found.worker.copy()
    worker[: instance.size.size], bound = solve(instance, worker[: instance.size.size])
    return RoutingDecision(worker, found.memory, bound)


def objective(instance: Instance, worker: I8) -> float:
    """J of an answer, in KV tokens: the weighted sum over steps of members times envelope less loads, over all groups.

    Args:
        worker: int64[W], worker or `HOLD` of each request.
    """
    load = instance.load.copy()
    for i in np.flatnonzero(worker != HOLD):
        load[worker[i]] += instance.profile[i]
    value = 0.0
    for q in range(int(instance.group.max()) + 1):
        own = load[instance.group == q]
        value += float(np.dot(instance.weight, own.shape[0] * own.max(axis=0) - own.sum(axis=0)))
    return value


def solve(
    instance: Instance, start: I8 | None = None, relative_gap: float = 1e-9, seconds: float = np.inf
) -> tuple[I8, float]:
    """Find the best answer, and a certified lower bound of J.

    With KV limits that bind, as many of `count` are admitted as fit at all.

    Args:
        start: int64[W], an answer to begin with, for instance the fast one; the result is never worse.
        relative_gap: the solver stops once its bound is this near.
        seconds: the solver stops after this time with the best answer so far; the bound stays valid.

    Returns:
        int64[W] worker or `HOLD`, and the bound in KV tokens.

    Raises:
        PolicyError: the solver found no answer.

    Source: BF-IO sec. 4, Algorithm 1 (IO): x[i, g] binary, one envelope z[q, h] >= every load of its group.
    """
    most, most_forced = instance.count, instance.forced
    if np.isfinite(instance.kv_free[instance.free_slots > 0]).any():
        worker, _ = _solved(_counting(instance), None, relative_gap, seconds)
        most, most_forced = int((worker != HOLD).sum()), int((worker[: instance.forced] != HOLD).sum())
    model = _assignment(instance, most, most_forced)
    _add_envelopes(model, instance)
    return _solved(model, start, relative_gap, seconds)


@dataclass(slots=True)
class _Model:
    """A MILP under construction: W x O binaries (row by row), then the envelopes."""

    waiting: int
    opened: I8
    cost: list[F8]
    lower: list[F8]
    rows: list[tuple[I8, F8, float, float]]  # columns, coefficients, lower, upper
    offset: float = 0.0

    def columns_of_worker(self, o: int) -> I8:
        return np.arange(self.waiting, dtype=np.int64) * self.opened.size + o

    def columns_of_requests(self, first: int, end: int) -> I8:
        return np.arange(first * self.opened.size, end * self.opened.size, dtype=np.int64)


def _assignment(instance: Instance, least: int, least_forced: int) -> _Model:
    """Each request at most once, at most the free slots and tokens of each worker, `count` in all."""
    waiting, opened = instance.size.size, np.flatnonzero(instance.free_slots > 0)
    binaries = waiting * opened.size
    model = _Model(waiting, opened, [np.zeros(binaries)], [np.zeros(binaries)], [])
    for i in range(waiting):
        model.rows.append((model.columns_of_requests(i, i + 1), np.ones(opened.size), 0.0, 1.0))
    for o, g in enumerate(opened):
        own = model.columns_of_worker(o)
        model.rows.append((own, np.ones(waiting), 0.0, float(instance.free_slots[g])))
        if np.isfinite(instance.kv_free[g]):
            model.rows.append((own, instance.size, 0.0, float(instance.kv_free[g])))
    everything = model.columns_of_requests(0, waiting)
    model.rows.append((everything, np.ones(binaries), float(least), float(instance.count)))
    if least_forced:
        overdue = model.columns_of_requests(0, instance.forced)
        model.rows.append((overdue, np.ones(overdue.size), float(least_forced), np.inf))
    return model


def _counting(instance: Instance) -> _Model:
    """Admit as many as fit, the overdue before all others."""
    model = _assignment(instance, 0, 0)
    reward = np.where(np.arange(model.waiting) < instance.forced, model.waiting + 1.0, 1.0)
    model.cost = [-np.repeat(reward, model.opened.size)]
    return model


def _add_envelopes(model: _Model, instance: Instance) -> None:
    """Columns z[q, h] above every load of the group, and the objective J."""
    steps = instance.weight.size
    worth = instance.profile @ instance.weight
    model.cost = [-np.repeat(worth, model.opened.size)]
    model.offset = -float((instance.load @ instance.weight).sum())
    for q in range(int(instance.group.max()) + 1):
        member = instance.group == q
        is_closed = member & (instance.free_slots <= 0)
        floor = instance.load[is_closed].max(axis=0) if is_closed.any() else np.zeros(steps)
        first = model.waiting * model.opened.size + q * steps
        model.cost.append(member.sum() * instance.weight)
        model.lower.append(floor)
        for o in np.flatnonzero(member[model.opened]):
            own = model.columns_of_worker(int(o))
            for h in range(steps):
                columns = np.append(own, first + h)
                coefficients = np.append(-instance.profile[:, h], 1.0)
                model.rows.append((columns, coefficients, float(instance.load[model.opened[o], h]), np.inf))


def _solved(model: _Model, start: I8 | None, relative_gap: float, seconds: float) -> tuple[I8, float]:
    """Worker of each request, and the solver's lower bound of the objective."""
    import highspy

    solver = highspy.Highs()
    for option, value in (
        ("output_flag", False),
        ("threads", 1),
        ("random_seed", 0),
        ("mip_rel_gap", relative_gap),
        ("mip_abs_gap", 1e-6),
        ("time_limit", seconds),
    ):
        solver.setOptionValue(option, value)
    solver.passModel(_program(model, highspy))
    if start is not None:
        admitted = np.flatnonzero(start != HOLD)
        chosen = np.zeros((model.waiting, model.opened.size))
        chosen[admitted, np.searchsorted(model.opened, start[admitted])] = 1.0
        solver.setSolution(chosen.size, np.arange(chosen.size, dtype=np.int32), chosen.ravel())
    solver.run()
    info = solver.getInfo()
    if info.primal_solution_status != int(highspy.SolutionStatus.kSolutionStatusFeasible):
        status = solver.modelStatusToString(solver.getModelStatus())
        raise PolicyError(f"bf-io: the exact solver found no answer ({status}).")
    columns = model.waiting * model.opened.size
    chosen = np.asarray(solver.getSolution().col_value)[:columns].reshape(model.waiting, -1)
    admitted = np.flatnonzero(chosen.sum(axis=1) > 0.5)
    worker = np.full(model.waiting, HOLD, np.int64)
    worker[admitted] = model.opened[np.argmax(chosen[admitted], axis=1)]
    return worker, float(info.mip_dual_bound)


def _program(model: _Model, highspy: Any) -> Any:
    """The model in the solver's own words."""
    binaries = model.waiting * model.opened.size
    cost, lower = np.concatenate(model.cost), np.concatenate(model.lower)
    program = highspy.HighsLp()
    program.num_col_, program.num_row_ = cost.size, len(model.rows)
    program.col_cost_, program.col_lower_ = cost, lower
    program.col_upper_ = np.where(np.arange(cost.size) < binaries, 1.0, np.inf)
    program.offset_ = model.offset
    program.row_lower_ = np.array([row[2] for row in model.rows])
    program.row_upper_ = np.array([row[3] for row in model.rows])
    matrix = program.a_matrix_
    matrix.format_ = highspy.MatrixFormat.kRowwise
    matrix.start_ = np.concatenate(([0], np.cumsum([row[0].size for row in model.rows])))
    matrix.index_ = np.concatenate([row[0] for row in model.rows])
    matrix.value_ = np.concatenate([row[1] for row in model.rows])
    kinds = highspy.HighsVarType
    program.integrality_ = [kinds.kInteger] * binaries + [kinds.kContinuous] * (cost.size - binaries)
    return program
