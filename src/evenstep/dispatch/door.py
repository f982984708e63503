"""A routing policy as a live host calls it: the very objects the simulator runs, through their kernel where they have
one."""

from __future__ import annotations

from typing import Any

import numpy as np

from evenstep import compiled, names
from evenstep.errors import InputError, PolicyError
from evenstep.request import F8, I8
from evenstep.routing.view import (
    HOLD,
    RoutingDecision,
    RoutingView,
    broken_rule,
    horizon_of,
    memory_size_of,
    reads_cached,
)

_NO_PROJECTIONS = 0


class PolicyDoor:
    """One policy with what it keeps between decisions.

    Args:
        text: ``NAME[:key=value,...]``.
        policy: the policy that the text stands for, where it is there already.

    Raises:
        InputError: no such policy, an option that does not fit, or an object without ``route``.
    """

    def __init__(self, text: str, policy: Any = None) -> None:
        self.text = text
        self.policy: Any = names.build("routing", names.parse(text)) if policy is None else policy
        if not callable(getattr(self.policy, "route", None)):
            raise InputError(
                text, "policy", type(self.policy).__name__, "an object with a method route(view)"
            )
        self.horizon = horizon_of(self.policy)
        self.reads_cached = reads_cached(self.policy)
        self.binds_at_once = bool(getattr(self.policy, "bypass", False))
        self.memory: I8 = np.zeros(memory_size_of(self.policy), np.int64)
        self._module = compiled.kernel_of(self.policy)
        self._kernel = None if self._module is None else compiled.entry(self._module.route_into)
        self._parameters: F8 = np.zeros(0) if self._module is None else compiled.parameters(self.policy)
        self._worker: I8 = np.zeros(0, np.int64)
        self._scratch: tuple[I8, F8] = np.zeros(0, np.int64), np.zeros(0)
        self._asked_for = (-1, -1)

    @property
    def has_kernel(self) -> bool:
        return self._kernel is not None

    def forget(self) -> None:
        """The fleet changed: what the policy kept may name other workers now."""
        self.memory[:] = 0

    def answer(self, view: RoutingView, packed: Packed) -> RoutingDecision:
        """The policy's decision, checked against its contract; its memory is kept only if it holds.

        Args:
            view: read-only windows on `packed`.
            packed: the same in the layout of kernels.

        Raises:
            PolicyError: the answer breaks the contract.
            Exception: whatever the policy raises.
        """
        memory = self.memory.copy()
        if self._kernel is None:
            decision = self.policy.route(view)
        else:
            decision = self._through_kernel(view, packed, memory)
        broken = broken_rule(view, decision)
        if broken:
            raise PolicyError(f"policy {self.text} broke its contract at decision {view.decision}: {broken}")
        if decision.memory is not None and decision.memory.size:
            self.memory = np.array(decision.memory, np.int64)
        return decision

    def _through_kernel(self, view: RoutingView, packed: Packed, memory: I8) -> RoutingDecision:
        workers, waiting = view.load.size, view.waiting_id.size
        if self._worker.size < waiting:
            self._worker = np.zeros(max(256, 2 * waiting), np.int64)
        self._make_scratch(workers, waiting)
        worker = self._worker[:waiting]
        worker[:] = HOLD
        assert self._kernel is not None
        bound = self._kernel(
            view.decision, view.seed, view.now_s, view.mean_wait_s, 0, waiting,
            packed.workers_i, packed.workers_f, packed.waiting_i, packed.waiting_f,
            packed.projections if self.horizon else packed.no_projections, packed.growth, packed.cached, memory,
            self._parameters, *self._scratch, self._worker,
        )  # fmt: skip
        return RoutingDecision(worker.copy(), memory, float(bound))

    def _make_scratch(self, workers: int, waiting: int) -> None:
        """Working space for so many; more than asked for, so that it is not asked for at every decision."""
        if self._asked_for[0] == workers and self._asked_for[1] >= waiting:
            return
        room = max(64, 1 << waiting.bit_length())
        ask = getattr(self._module, "scratch", None)
        ints, floats = (0, 0)
        for some in (waiting, room):
            more = ask(workers, some, self.horizon, self._parameters) if ask else (0, 0)
            ints, floats = max(ints, int(more[0])), max(floats, int(more[1]))
        self._scratch = np.zeros(ints, np.int64), np.zeros(floats)
        self._asked_for = workers, room


class Packed:
    """The arrays of one decision in the layout of kernels (`routing.view`), used again for the next.

    Args:
        workers: G.
        horizon: H, 0 for a policy that does not look ahead.
    """

    def __init__(self, workers: int, horizon: int) -> None:
        self.workers_i: I8 = np.zeros((4, workers), np.int64)
        self.workers_f: F8 = np.zeros((4, workers))
        self.waiting_i: I8 = np.zeros((3, 0), np.int64)
        self.waiting_f: F8 = np.zeros((3, 0))
        self.projections: F8 = np.zeros((workers, horizon + 1))
        self.no_projections: F8 = np.zeros((workers, _NO_PROJECTIONS))
        self.growth: F8 = np.arange(horizon + 1, dtype=np.float64)
        self.cached: F8 = np.zeros((0, 0))

    def room_for(self, waiting: int) -> None:
        """Have at least so many columns for waiting requests."""
        if self.waiting_i.shape[1] < waiting:
            room = max(64, 1 << waiting.bit_length())
            self.waiting_i, self.waiting_f = np.zeros((3, room), np.int64), np.zeros((3, room))


def sealed(array: F8 | I8) -> Any:
    """A window nobody can write through."""
    window = array.view()
    window.flags.writeable = False
    return window
