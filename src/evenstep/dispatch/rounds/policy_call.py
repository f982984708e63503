"""Calls a routing policy in a live host: the same objects as in the simulator, through their kernel if they have one."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np

from evenstep import compiled, names
from evenstep.compiled import sealed
from evenstep.dispatch.fleet.mirror import Mirror
from evenstep.dispatch.requests.pool import Pool
from evenstep.dispatch.requests.rows import Rows
from evenstep.dispatch.rounds import showing
from evenstep.errors import PolicyError
from evenstep.request import F8, I8
from evenstep.routing import view as at
from evenstep.routing.view import HOLD, RoutingDecision, RoutingView, broken_rule, horizon_of, memory_size_of, reads_cached

_STAMP = struct.Struct("=qqdd")
_NOBODY: I8 = np.zeros(0, np.int64)
_show, _holds = map(compiled.entry, (showing.show, showing.holds))


class PolicyCall:
    """One policy, and its memory between decisions.

    Args:
        text: ``NAME[:key=value,...]``.

    Attributes:
        horizon: steps that the policy looks ahead; 0 = it does not.
        reads_cached, binds_at_once: whether the policy reads `cached_tokens`; whether it bypasses the pool.
        has_kernel: whether the policy has a compiled rule; otherwise its method ``route`` is called.
        memory: int64[M], what the policy asked to keep at its last valid answer; zeros at first.

    Raises:
        InputError: an unknown policy, an invalid option, or an object without ``route``.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.policy: Any = names.build("routing", names.parse(text))
        self.horizon = horizon_of(self.policy)
        self.reads_cached = reads_cached(self.policy)
        self.binds_at_once = bool(getattr(self.policy, "bypass", False))
        self.memory: I8 = np.zeros(memory_size_of(self.policy), np.int64)
        self._module: Any = compiled.kernel_of(self.policy)
        self.has_kernel = self._module is not None
        self._kernel = None if self._module is None else compiled.entry(self._module.route_into)
        self._parameters: F8 = np.zeros(0) if self._module is None else compiled.parameters(self.policy)
        self._scratch: tuple[I8, F8] = np.zeros(0, np.int64), np.zeros(0)
        self._asked_for = (-1, -1)

    def __getstate__(self) -> dict[str, Any]:
        return {"text": self.text, "memory": self.memory}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["text"])
        self.memory = state["memory"]

    def forget(self) -> None:
        """Set the policy's memory to zeros, because worker numbers in it may be invalid after a fleet change."""
        self.memory[:] = 0

    def answer(self, packed: Packed) -> I8:
        """int64[W], place of each waiting request's worker, or `HOLD`, as the policy decides.

        The answer is checked against the contract; the policy's memory is kept only if it passes. The result is a view of
        `Packed.worker`, which the next round overwrites. After an error the caller resets `Packed.worker` to `HOLD`.

        Raises:
            PolicyError: the answer breaks the contract.
            Exception: any error of the policy.
        """
        memory = self.memory.copy() if self.memory.size else self.memory
        waiting = packed.shown
        if self._kernel is None:
            view = packed.view(memory)
            decision = self.policy.route(view)
            found, broken = None, broken_rule(view, decision)
            if not broken:
                packed.worker[:waiting] = decision.worker
                found = decision.memory
        else:
            if self._asked_for[0] != packed.workers or self._asked_for[1] < waiting:
                self._make_scratch(packed.workers, waiting)
            moment = packed.decision, packed.seed, packed.now_s, packed.mean_wait_s, 0, waiting
            tables = packed.workers_i, packed.workers_f, packed.waiting_i, packed.waiting_f
            ahead = packed.projections if self.horizon else packed.no_projections, packed.growth
            own = memory, self._parameters, *self._scratch
            self._kernel(*moment, *tables, *ahead, packed.cached, *own, packed.worker)
            found, broken = memory, ""
            if not packed.keeps_contract():
                broken = broken_rule(packed.view(memory), RoutingDecision(packed.worker[:waiting].copy(), memory))
        if broken:
            raise PolicyError(f"policy {self.text} broke its contract at decision {packed.decision}: {broken}")
        if found is not None and found.size:
            self.memory = found if found is memory else np.array(found, np.int64)
        return packed.worker[:waiting]

    def _make_scratch(self, workers: int, waiting: int) -> None:
        """Make the kernel's working space for so many workers and waiting requests, with room for more requests."""
        room = max(64, 1 << waiting.bit_length())
        sizes = [self._module.scratch(workers, some, self.horizon, self._parameters) for some in (waiting, room)]
        ints, floats = map(max, zip(*sizes, strict=True))
        self._scratch = np.zeros(int(ints), np.int64), np.zeros(int(floats))
        self._asked_for = workers, room


class Packed:
    """What a policy sees of one decision, in the layout of kernels (`routing.view`). The next decision reuses the arrays.

    The host sets `decision`, `seed`, `now_s` and `mean_wait_s`, as in `RoutingView`. A view is built only on request.

    Args:
        workers: G.
        horizon: H, 0 for a policy that does not look ahead.

    Attributes:
        gathers: int64[G], indexed by barrier group: 1 = it is offered nothing. The code that sets a flag clears it.
        free: int64[G], slots offered of each worker.
        shown: W, number of requests shown.
        waiting: int64[>= W], rows of the waiting requests that are shown.
        worker: int64[>= W], the answer: a place for each of `waiting`, or `HOLD`.
        idle: int64[1], number of workers that run nothing, not even for others, and may be sent requests.
    """

    def __init__(self, workers: int, horizon: int) -> None:
        self.workers, self.decision, self.seed, self.shown = workers, 0, 0, 0
        self.now_s, self.mean_wait_s = 0.0, 0.0
        self.workers_i: I8 = np.zeros((4, workers), np.int64)
        self.workers_f: F8 = np.zeros((4, workers))
        self.nothing_ahead: F8 = np.zeros((workers, horizon + 1))
        self.projections: F8 = self.nothing_ahead
        self.no_projections: F8 = np.zeros((workers, 0))
        self.growth: F8 = np.arange(horizon + 1, dtype=np.float64)
        self.cached: F8 = np.zeros((0, 0))
        self.free: I8 = np.zeros(workers, np.int64)
        self.gathers: I8 = np.zeros(workers, np.int64)
        self.idle: I8 = np.zeros(1, np.int64)
        self._slots: I8 = np.zeros(workers, np.int64)
        self._tokens: F8 = np.zeros(workers)
        self._make_room(0)

    def room_for(self, waiting: int) -> None:
        """Make room for at least `waiting` waiting requests; if it grows, the answer and the rows are new arrays."""
        if self.worker.size < waiting:
            self._make_room(max(64, 1 << waiting.bit_length()))

    def _make_room(self, room: int) -> None:
        """Replace the arrays of waiting requests and of the answer by empty ones for `room` requests."""
        self.waiting_i: I8 = np.zeros((3, room), np.int64)
        self.waiting_f: F8 = np.zeros((3, room))
        self.waiting: I8 = np.zeros(room, np.int64)
        self.worker: I8 = np.full(room, HOLD, np.int64)
        self._written: showing.Shown | None = None
        tables = self.workers_i, self.workers_f, self.waiting_i, self.waiting_f
        self._rows = [list(map(memoryview, table)) for table in tables]  # joined to bytes faster than arrays are

    def show(self, rows: Rows, mirror: Mirror, pool: Pool, most: int, margin: int, offered: int, reserve: float) -> int:
        """Write what the policy sees of a round to the arrays (`showing.show`); returns the number of free slots.

        If that is 0, only `free` and `idle` are written. Call `room_for` first, and always pass the same pool.
        """
        if self._written is None:
            tables = self.workers_i, self.workers_f, self.waiting_i, self.waiting_f
            self._written = showing.Shown(
                self.gathers, pool.shares, self._slots, self.free, self.waiting, *tables, self.worker, self.idle
            )
        self.shown = most
        here = np.frombuffer(pool.here, np.int64) if pool.here else _NOBODY
        requests, workers = rows.columns.given, mirror.columns.given
        return int(_show(requests, workers, here, most, margin, offered, reserve, self._written))

    def keeps_contract(self) -> bool:
        """Whether the answer names known workers, or `HOLD`, and fits slots and KV memory."""
        tables = self.workers_i, self.workers_f, self.waiting_f
        return bool(_holds(self.worker, self.shown, *tables, self._slots, self._tokens))

    def checksum(self) -> int:
        """CRC-32 of all numbers that a policy may decide by, except its memory and `growth`; equal views have equal ones.

        Their order is part of the format of decision logs.
        """
        (wi, wf, qi, qf), most = self._rows, self.shown
        stamp = _STAMP.pack(self.decision, self.seed, self.now_s, self.mean_wait_s)
        loads = wi[at.GROUP], wi[at.QUEUED], wf[at.QUEUED_LOAD], wf[at.LOAD]
        room = wi[at.FREE_SLOTS], wi[at.RUNNING], wf[at.KV_FREE], wf[at.SECONDS_PER_TOKEN]
        waited_s: Any = self.now_s - self.waiting_f[at.SINCE_S, :most]
        waiting = qi[at.ID][:most], qf[at.WAITING_LOAD][:most], waited_s, qi[at.CLASS][:most], qi[at.KEY][:most]
        ahead: tuple[Any, ...] = qf[at.STEPS][:most], self.projections, self.cached
        return zlib.crc32(b"".join((stamp, *loads, *room, *waiting, *ahead)))

    def view(self, memory: I8) -> RoutingView:
        """The policy's view of the decision, with this memory; read-only windows on arrays that the next round changes."""
        wi, wf = sealed(self.workers_i), sealed(self.workers_f)
        qi, qf = sealed(self.waiting_i[:, : self.shown]), sealed(self.waiting_f[:, : self.shown])
        return RoutingView(
            decision=self.decision,
            seed=self.seed,
            now_s=self.now_s,
            mean_wait_s=self.mean_wait_s,
            group=wi[at.GROUP],
            queued=wi[at.QUEUED],
            queued_load=wf[at.QUEUED_LOAD],
            load=wf[at.LOAD],
            free_slots=wi[at.FREE_SLOTS],
            running=wi[at.RUNNING],
            kv_free=wf[at.KV_FREE],
            seconds_per_token=wf[at.SECONDS_PER_TOKEN],
            waiting_id=qi[at.ID],
            waiting_load=qf[at.WAITING_LOAD],
            waited_s=sealed(self.now_s - qf[at.SINCE_S]),
            waiting_class=qi[at.CLASS],
            waiting_key=qi[at.KEY],
            waiting_steps=qf[at.STEPS],
            projections=sealed(self.projections),
            growth=sealed(self.growth),
            cached_tokens=sealed(self.cached),
            memory=sealed(memory),
        )
