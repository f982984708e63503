"""The rule of an engine policy: one function, compiled with numba, and plain Python without it.

The file of a policy holds its frozen dataclass and one function marked with `rule`::

    class Work(NamedTuple):             # optional: the batch, then working space by name
        batch: Batch
        key: RunningFloats

    @rule
    def form_batch(view, options, work): ...

`view` is a `RuleView`, `options` the policy's fields (`compiled.options_of`), `work` a `Work`, or a `Batch` without one.
`policy_rules` says how an array of working space declares its length, in `running`, `waiting` and `options`.
`scheduling.batch` has the functions that most rules are made of: `offer`, `admit`, `evict`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, TypeAlias, TypeVar

import numpy as np

from evenstep import compiled
from evenstep.compiled import BATCH, Floats, Ints
from evenstep.errors import PolicyError
from evenstep.policy_rules import Door, KernelCall, guarded, rule_of_file, ruled_door
from evenstep.request import I8
from evenstep.scheduling.batch import Batch, closed, opened
from evenstep.scheduling.view import EVICTED, PICKED, ROWS, BatchDecision, EngineView, RuleView

F = TypeVar("F", bound=Callable[..., Any])
#: Working space with a number for each running request.
RunningInts: TypeAlias = Annotated[Ints, "running"]
RunningFloats: TypeAlias = Annotated[Floats, "running"]
#: Names in `RuleView` of the entries of ``form_batch_into``'s argument `limits`.
_LIMITS = RuleView._fields[3:11]

_DOOR = Door(
    f"""\
def form_batch_into(
    iteration, seed, now_s, limits, running, waiting, first, counts, rows, arrival_s, arrived, memory, parameters,
    scratch_i, scratch_f, picked, evicted,
):
    options = read(parameters)
    runs, waits = counts[0], counts[1]
    view = RuleView(
        iteration, seed, now_s,
        {", ".join(f"limits[{k}]" for k in range(len(_LIMITS)))},
        sealed(running[:runs]), sealed(waiting[first : first + waits]),
        {", ".join(f"sealed(rows[{row}])" for row in range(len(ROWS)))},
        sealed(arrival_s), sealed(arrived),
    )
    {{lengths}}
    batch = Batch(
        picked[0], picked[1], evicted, memory, counts[2:3], counts[3:4], scratch_i[0:1], scratch_i[1:2], scratch_i[2:3],
        scratch_i[3:4], scratch_f[0:1],
    )
    opened(view, batch)
    rule(view, options, {{work}})
    closed(batch)
    return batch.wake_s[0]
""",
    BATCH,
    {"RuleView": RuleView, "sealed": compiled.sealed, "Batch": Batch, "opened": opened, "closed": closed},
    Batch,
    made={Batch: "batch"},
    taken=(4, 1),
    sizes={"running": "runs", "waiting": "waits"},
)


def rule(function: F) -> F:
    """Register a function as the rule of policies in its file (`compiled.has_rule`), and return it as a `compiled.part`."""
    return rule_of_file(_DOOR, function)


class Ruled:
    """Base class of policies whose batch is formed by the function marked with `rule` in their file."""

    __slots__ = ()

    def form_batch(self, view: EngineView) -> BatchDecision:
        """Run the rule of the policy's file on a view, through the function that compiled loops call.

        Raises: PolicyError if a position in its answer repeats, is outside the view, or is not in queue order.
        """
        return call_of(ruled_door(self), self, view).decision()


def call_of(door: Any, policy: object, view: EngineView) -> KernelCall:
    """Prepare a call of the policy's compiled function for one view; `KernelCall.decision` makes it and returns the answer.

    The call works on copies, so the view and its `memory` stay unchanged. `door` is `compiled.door_of` the policy.

    Raises: PolicyError, from `KernelCall.decision`, if a position in the answer repeats, is outside the view, or is not in
        queue order.
    """
    count, running = view.left.size, int(view.running.sum())
    parameters, counts = compiled.parameters(policy), np.array([running, count - running, 0, 0])
    ints, floats = door.scratch(running, count - running, parameters)
    arrays, windows = guarded(scratch_i=ints, scratch_f=floats, memory=view.memory.size, picked=(2, count), evicted=running)
    scratch_i, scratch_f, memory, *_ = windows
    memory[:] = view.memory
    picked, evicted = arrays["picked"], arrays["evicted"]
    rows = np.zeros((len(ROWS), max(count, 2)), np.int64, order="F")  # with one column, numba could not tell Fortran order
    rows[:, :count] = [getattr(view, name) for name in ROWS]
    arguments = (
        *(view.iteration, view.seed, view.now_s, np.array([getattr(view, name) for name in _LIMITS])),
        *(np.arange(running), np.arange(running, count), 0, counts, rows),
        *(np.array(view.arrival_s), np.array(view.arrived)),
        *(memory, parameters, scratch_i, scratch_f, picked, evicted),
    )

    def answer(wake_s: float) -> BatchDecision:
        tokens, evict = np.zeros(count, np.int64), np.zeros(count, np.bool_)
        chosen, gone = picked[:, : int(counts[PICKED])], evicted[: int(counts[EVICTED])]
        fault = _misplaced(chosen[0], gone, running, count)
        if fault:
            raise PolicyError(f"the rule of {type(policy).__name__} {fault}")
        tokens[chosen[0]] = chosen[1]
        evict[gone] = True
        return BatchDecision(tokens, evict, memory, wake_s)

    return KernelCall(door.form_batch_into, arguments, answer, arrays)


def _misplaced(picked: I8, evicted: I8, running: int, count: int) -> str:
    """The first fault in an answer's positions, in words, or an empty text. The first `running` of `count` requests run."""
    for position in picked[(picked < 0) | (picked >= count)]:
        return f"picks position {position}; expected 0 to {count - 1}"
    positions, times = np.unique(picked, return_counts=True)
    for position in positions[times > 1]:
        return f"picks position {position} twice"
    queue = picked[picked >= running]
    for position in queue[1:][np.diff(queue) < 0]:
        return f"picks position {position} of the queue after a later one"
    for position in evicted[(evicted < 0) | (evicted >= running)]:
        return f"evicts position {position}; expected a running request, 0 to {running - 1}"
    for position in evicted[1:][np.diff(evicted) == 0]:
        return f"evicts position {position} twice"
    return ""
