"""One decision through a policy's compiled door, from the same view as the plain one.

Hosts keep their arrays in the kernel's layout and call it themselves; this is for checks and tests.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evenstep import compiled
from evenstep.request import I8
from evenstep.scheduling.rules import arguments_of
from evenstep.scheduling.view import (
    EVICTED,
    PICKED,
    RUNNING,
    WAITING,
    BatchDecision,
    EngineView,
    SchedulingPolicy,
)

#: Words behind every array a kernel may write, to see whether it keeps to its own.
_GUARD, _INT, _FLOAT = 8, -77777, -77777.5


@dataclass(frozen=True, slots=True, eq=False)
class KernelCall:
    """A view as the arguments of ``form_batch_into`` (see `scheduling.view`): own copies, written by the call.

    Args:
        function: the kernel, ready to be called with `arguments`.
        arguments: all arguments in order.
        counts: int64[4], how many entries of the answer were written.
        memory: int64[M], changed in place by the call.
        guarded: arrays whose last columns are not the kernel's, by name.
    """

    function: Any
    arguments: tuple[Any, ...]
    counts: I8
    memory: I8
    guarded: dict[str, Any]

    def in_plain(self) -> KernelCall:
        """The same call of the rule's plain text."""
        return replace(self, function=compiled.as_plain(self.function))

    def decision(self) -> BatchDecision:
        """Make the call. Positions out of range, twice or out of order are left to the host to refuse."""
        wake_s = float(self.function(*self.arguments))
        count = int(self.counts[RUNNING] + self.counts[WAITING])
        tokens, evict = np.zeros(count, np.int64), np.zeros(count, np.bool_)
        picked, evicted = self.guarded["picked"], self.guarded["evicted"]
        chosen = int(self.counts[PICKED])
        tokens[picked[0, :chosen]] = picked[1, :chosen]
        evict[evicted[: int(self.counts[EVICTED])]] = True
        return BatchDecision(tokens, evict, self.memory, wake_s)

    def overrun(self) -> str:
        """Which array the kernel wrote beyond its end, as a sentence; empty when none."""
        for name, array in self.guarded.items():
            if np.any(array[..., -_GUARD:] != (_INT if array.dtype == np.int64 else _FLOAT)):
                return f"the kernel writes beyond the end of {name}"
        return ""


def kernel_call(policy: SchedulingPolicy, view: EngineView) -> KernelCall | None:
    """The call that makes this decision through the compiled door; None when the policy has no kernel."""
    module = compiled.kernel_of(policy)
    if module is None:
        return None
    N, R = view.left.size, int(view.running.sum())
    parameters = compiled.parameters(policy)
    ask = getattr(module, "scratch", None)
    ints, floats = ask(R, N - R, parameters) if ask else (0, 0)
    guarded: dict[str, Any] = {
        "scratch_i": np.full(int(ints) + _GUARD, _INT, np.int64),
        "scratch_f": np.full(int(floats) + _GUARD, _FLOAT),
        "memory": np.full(view.memory.size + _GUARD, _INT, np.int64),
        "picked": np.full((2, N + _GUARD), _INT, np.int64),
        "evicted": np.full(R + _GUARD, _INT, np.int64),
    }
    scratch_i, scratch_f, memory = (guarded[n][:-_GUARD] for n in ("scratch_i", "scratch_f", "memory"))
    memory[:] = view.memory
    counts = np.array([R, N - R, 0, 0])
    arguments = (
        *arguments_of(view, counts),
        memory,
        parameters,
        scratch_i,
        scratch_f,
        guarded["picked"],
        guarded["evicted"],
    )
    return KernelCall(module.form_batch_into, arguments, counts, memory, guarded)


def difference(plain: BatchDecision, kernel: BatchDecision) -> str:
    """Where two decisions on one view differ, as a sentence; empty when they are equal in bits."""
    for name in ("tokens", "evict", "memory"):
        one, other = getattr(plain, name), getattr(kernel, name)
        if one.shape != other.shape:
            return f"{name}: plain form_batch answers shape {one.shape}, the kernel {other.shape}"
        if not np.array_equal(one, other):
            k = int(np.argmax(one != other))
            return f"{name} of {k}: plain form_batch answers {one[k]}, the kernel {other[k]}"
    if plain.wake_s != kernel.wake_s:
        return f"wake_s: plain form_batch answers {plain.wake_s!r}, the kernel {kernel.wake_s!r}"
    return ""
