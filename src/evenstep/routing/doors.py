"""One decision through a policy's compiled door, from the same view as the plain one.

Hosts keep their arrays in the kernel's layout and call it themselves; this is for checks, tests and benchmarks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evenstep import compiled
from evenstep.request import F8, I8
from evenstep.routing.view import HOLD, RoutingDecision, RoutingPolicy, RoutingView, horizon_of

#: Guard words after every array a kernel may write, to detect writes past its end.
_GUARD, _INT, _FLOAT = 8, -77777, -77777.5


@dataclass(frozen=True, slots=True, eq=False)
class KernelCall:
    """A view as the arguments of ``route_into`` (see `routing.view`): own copies, written by the call.

    Args:
        function: the kernel, ready to be called with `arguments`.
        arguments: all arguments in order.
        memory: int64[M], changed in place by the call.
        worker: int64[W], the answer; `HOLD` until the call.
        guarded: arrays of which memory, scratch and worker are the front, by name.
    """

    function: Any
    arguments: tuple[Any, ...]
    memory: I8
    worker: I8
    guarded: dict[str, Any]

    def in_plain(self) -> KernelCall:
        """The same call of the rule's plain text."""
        return replace(self, function=compiled.as_plain(self.function))

    def decision(self) -> RoutingDecision:
        """Make the call."""
        return RoutingDecision(self.worker, self.memory, float(self.function(*self.arguments)))

    def overrun(self) -> str:
        """Which array the kernel wrote beyond its end, as a sentence; empty when none."""
        for name, array in self.guarded.items():
            if np.any(array[-_GUARD:] != (_INT if array.dtype == np.int64 else _FLOAT)):
                return f"the kernel writes beyond the end of {name}"
        return ""


def kernel_call(policy: RoutingPolicy, view: RoutingView) -> KernelCall | None:
    """The call that makes this decision through the compiled door; None when the policy has no kernel."""
    module = compiled.kernel_of(policy)
    if module is None:
        return None
    G, W = view.load.size, view.waiting_id.size
    parameters = compiled.parameters(policy)
    horizon = horizon_of(policy)
    ask = getattr(module, "scratch", None)
    ints, floats = ask(G, W, horizon, parameters) if ask else (0, 0)
    guarded: dict[str, Any] = {
        "scratch_i": np.full(ints + _GUARD, _INT, np.int64),
        "scratch_f": np.full(floats + _GUARD, _FLOAT),
        "memory": np.full(view.memory.size + _GUARD, _INT, np.int64),
        "worker": np.full(W + _GUARD, _INT, np.int64),
    }
    scratch_i, scratch_f, memory, worker = (array[:-_GUARD] for array in guarded.values())
    memory[:], worker[:] = view.memory, HOLD
    arguments = (
        view.decision,
        view.seed,
        view.now_s,
        view.mean_wait_s,
        0,
        W,
        _stack(np.int64, view.group, view.queued, view.free_slots, view.running),
        _stack(np.float64, view.load, view.queued_load, view.kv_free, view.seconds_per_token),
        _stack(np.int64, view.waiting_id, view.waiting_class, view.waiting_key),
        _stack(np.float64, view.waiting_load, view.now_s - view.waited_s, view.waiting_steps),
        np.array(view.projections) if horizon else np.zeros((G, 0)),
        view.growth.copy(),
        view.cached_tokens.copy(),
        memory,
        parameters,
        scratch_i,
        scratch_f,
        worker,
    )
    return KernelCall(module.route_into, arguments, memory, worker, guarded)


def through_kernel(policy: RoutingPolicy, view: RoutingView) -> RoutingDecision | None:
    """The decision of the compiled door; None when the policy has no kernel."""
    call = kernel_call(policy, view)
    return None if call is None else call.decision()


def difference(plain: RoutingDecision, kernel: RoutingDecision, memory: I8) -> str:
    """The difference of two decisions on one view, as a sentence; empty when they are equal in bits.

    Args:
        memory: int64[M], the view's memory: used for a decision without its own.
    """
    if not np.array_equal(plain.worker, kernel.worker):
        if plain.worker.shape != kernel.worker.shape:
            return f"plain route answers shape {plain.worker.shape}, the kernel {kernel.worker.shape}"
        i = int(np.argmax(plain.worker != kernel.worker))
        return f"waiting request {i}: plain route answers {plain.worker[i]}, the kernel {kernel.worker[i]}"
    kept, other = (memory if d.memory is None else d.memory for d in (plain, kernel))
    if not np.array_equal(kept, other):
        return f"memory: plain route keeps {kept.tolist()}, the kernel {other.tolist()}"
    if not _same(plain.bound, kernel.bound):
        return f"bound: plain route answers {plain.bound!r}, the kernel {kernel.bound!r}"
    return ""


def _same(a: float, b: float) -> bool:
    return a == b or (math.isnan(a) and math.isnan(b))


def _stack(kind: type[Any], *rows: F8 | I8) -> Any:
    return np.ascontiguousarray(np.stack([np.asarray(row, kind) for row in rows]))
