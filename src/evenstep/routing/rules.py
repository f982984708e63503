"""The rule of a routing policy: one text, compiled if numba is installed and plain Python otherwise.

The file of a policy holds its frozen dataclass and one function marked with `rule`::

    class Work(NamedTuple):             # optional: `RoutingWork`, and working space by name
        worker: Ints; memory: Ints; bound: Floats; load: WorkerFloats

    @rule
    def route(view, options, work): ...

`view` is a `RuleView`, `options` the policy's fields (`compiled.options_of`), `work` the answer and the working space.
`policy_rules` says how an array of working space declares its length, in `workers`, `waiting`, `horizon` and `options`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from evenstep import compiled
from evenstep.compiled import ROUTE, Floats, Ints, ReadFloats, ReadInts, ReadTable
from evenstep.policy_rules import Door, KernelCall, guarded, rule_of_file, ruled_door
from evenstep.routing.view import HOLD, RoutingDecision, RoutingView, horizon_of

F = TypeVar("F", bound=Callable[..., Any])
#: Working space with a number for each worker, or for each waiting request.
WorkerInts: TypeAlias = Annotated[Ints, "workers"]
WorkerFloats: TypeAlias = Annotated[Floats, "workers"]
RequestInts: TypeAlias = Annotated[Ints, "waiting"]
RequestFloats: TypeAlias = Annotated[Floats, "waiting"]


class RuleView(NamedTuple):
    """The view that a rule gets: the fields of `RoutingView`, all read-only, with two exceptions.

    `memory` is in the rule's `work`. In place of `waited_s` there is `since_s`: float64[W], the time in seconds, on the
    clock of `now_s`, at which each request became visible.
    """

    decision: int
    seed: int
    now_s: float
    mean_wait_s: float
    group: ReadInts
    queued: ReadInts
    free_slots: ReadInts
    running: ReadInts
    load: ReadFloats
    queued_load: ReadFloats
    kv_free: ReadFloats
    seconds_per_token: ReadFloats
    waiting_id: ReadInts
    waiting_class: ReadInts
    waiting_key: ReadInts
    waiting_load: ReadFloats
    since_s: ReadFloats
    waiting_steps: ReadFloats
    projections: ReadTable
    growth: ReadFloats
    cached_tokens: ReadTable


class RoutingWork(NamedTuple):
    """The arrays that a rule writes if it needs no working space: its answer, and the policy's memory.

    Args:
        worker: int64[W], all `HOLD` on entry; write only what is admitted.
        memory: int64[M], that of `RoutingView`; changed in place.
        bound: float64[1], a certified lower bound on the objective; nan on entry, which means no bound.
    """

    worker: Ints
    memory: Ints
    bound: Floats


#: Rows of the arrays by which hosts hand a view over, by their names in `RuleView`.
_WORKERS_I, _WORKERS_F = RuleView._fields[4:8], RuleView._fields[8:12]
_WAITING_I, _WAITING_F = RuleView._fields[12:15], RuleView._fields[15:18]


def _windows(array: str, names: tuple[str, ...], columns: str = "") -> str:
    """Source text that cuts an array into one read-only row for each of `names`, with the index `columns` after the row."""
    return ", ".join(f"sealed({array}[{row}{columns}])" for row in range(len(names)))


_DOOR = Door(
    f"""\
def route_into(
    decision, seed, now_s, mean_wait_s, first, waiting, workers_i, workers_f, waiting_i, waiting_f,
    projections, growth, cached, memory, parameters, scratch_i, scratch_f, worker,
):
    options = read(parameters)
    view = RuleView(
        decision, seed, now_s, mean_wait_s,
        {_windows("workers_i", _WORKERS_I)},
        {_windows("workers_f", _WORKERS_F)},
        {_windows("waiting_i", _WAITING_I, ", first : first + waiting")},
        {_windows("waiting_f", _WAITING_F, ", first : first + waiting")},
        sealed(projections), sealed(growth), sealed(cached),
    )
    {{lengths}}
    bound = scratch_f[0:1]
    bound[0] = nan
    rule(view, options, {{work}})
    return bound[0]
""",
    ROUTE,
    {"RuleView": RuleView, "sealed": compiled.sealed, "nan": math.nan},
    RoutingWork,
    given=("worker[:waiting]", "memory", "bound"),
    taken=(0, 1),
    sizes={"workers": "view.load.size", "waiting": "waiting", "horizon": "growth.size - 1"},
)


def rule(function: F) -> F:
    """Register a function as the rule of policies in its file (`compiled.has_rule`), and return it as a `compiled.part`.

    The function ``(view: RuleView, options, work) -> None`` answers by writing `work`. Policies inherit `route` from
    `Ruled`.
    """
    return rule_of_file(_DOOR, function)


class Ruled:
    """Base of policies with a rule: `route` runs the rule in the policy's file, or in that of the nearest base with one."""

    __slots__ = ()

    def route(self, view: RoutingView) -> RoutingDecision:
        """Run the rule on copies of a view's arrays. The answer's `memory` is never None."""
        return call_of(ruled_door(self), self, view).decision()


def call_of(door: Any, policy: object, view: RoutingView) -> KernelCall:
    """Prepare a call of a policy's compiled rule on a view; the caller then runs the result's `decision` once.

    The call works on copies of the view's arrays, so the view stays unchanged. `door` is the policy's, from
    `compiled.door_of` or `compiled.kernel_of`.
    """
    workers, waiting, horizon = view.load.size, view.waiting_id.size, horizon_of(policy)
    parameters = compiled.parameters(policy)
    ints, floats = door.scratch(workers, waiting, horizon, parameters)
    arrays, windows = guarded(scratch_i=ints, scratch_f=floats, memory=view.memory.size, worker=waiting)
    scratch_i, scratch_f, memory, worker = windows
    memory[:], worker[:] = view.memory, HOLD
    since_s = view.now_s - view.waited_s
    arguments = (
        *(view.decision, view.seed, view.now_s, view.mean_wait_s, 0, waiting),
        np.array([getattr(view, name) for name in _WORKERS_I], np.int64),
        np.array([getattr(view, name) for name in _WORKERS_F], np.float64),
        np.array([getattr(view, name) for name in _WAITING_I], np.int64),
        np.array([view.waiting_load, since_s, view.waiting_steps], np.float64),
        np.array(view.projections) if horizon else np.zeros((workers, 0)),
        *(view.growth.copy(), view.cached_tokens.copy(), memory, parameters, scratch_i, scratch_f, worker),
    )
    return KernelCall(door.route_into, arguments, partial(RoutingDecision, worker, memory), arrays)
