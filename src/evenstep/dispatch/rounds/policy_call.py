"""Calls a routing policy in a live host: the same objects as in the simulator, through their kernel if they have one."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenstep import compiled, names
from evenstep.compiled import sealed
from evenstep.dispatch.fleet.mirror import Mirror
from evenstep.dispatch.requests.pool import Pool
from evenstep.dispatch.requests.rows import Rows
from evenstep.dispatch.rounds import showing
from evenstep.errors import InputError, PolicyError
from evenstep.request import F8, I8
from evenstep.routing import view as at
from evenstep.routing.view import HOLD, RoutingDecision, RoutingView, broken_rule, horizon_of, memory_size_of, reads_cached

_NO_PROJECTIONS = 0
_STAMP = struct.Struct("=qqdd")
_NOBODY: I8 = np.zeros(0, np.int64)
_show, _holds, _list_seen = map(compiled.entry, (showing.show, showing.holds, showing.list_seen))


class PolicyCall:
    """One policy, and its memory between decisions.

    Args:
        text: ``NAME[:key=value,...]``.
        policy: the policy of that text, if it is built already; None = it is built here.

    Attributes:
        horizon: steps that the policy looks ahead; 0 = it does not.
        reads_cached, binds_at_once: whether the policy reads `cached_tokens`; whether it bypasses the pool.
        memory: int64[M], what the policy asked to keep at its last valid answer; zeros at first.

    Raises:
        InputError: an unknown policy, an invalid option, or an object without ``route``.
    """

    def __init__(self, text: str, policy: Any = None) -> None:
        self.text = text
        self.policy: Any = names.build("routing", names.parse(text)) if policy is None else policy
        if not callable(getattr(self.policy, "route", None)):
            raise InputError(text, "policy", type(self.policy).__name__, "an object with a method route(view)")
        self.horizon = horizon_of(self.policy)
        self.reads_cached = reads_cached(self.policy)
        self.binds_at_once = bool(getattr(self.policy, "bypass", False))
        self.memory: I8 = np.zeros(memory_size_of(self.policy), np.int64)
        self._module = compiled.kernel_of(self.policy)
        self._kernel = None if self._module is None else compiled.entry(self._module.route_into)
        self._parameters: F8 = np.zeros(0) if self._module is None else compiled.parameters(self.policy)
        self._scratch: tuple[I8, F8] = np.zeros(0, np.int64), np.zeros(0)
        self._asked_for = (-1, -1)

    def __getstate__(self) -> dict[str, Any]:
        return {"text": self.text, "memory": self.memory}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["text"])
        self.memory = state["memory"]

    @property
    def has_kernel(self) -> bool:
        return self._kernel is not None

    def forget(self) -> None:
        """Set the policy's memory to zeros, because worker numbers in it may be invalid after a fleet change."""
        self.memory[:] = 0

    def answer(self, shown: Shown) -> I8:
        """int64[W], place of each waiting request's worker, or `HOLD`, as the policy decides.

        The answer is checked against the contract; the policy's memory is kept only if it passes. The result is a view of
        `Packed.worker`, which the next round overwrites.

        Raises:
            PolicyError: the answer breaks the contract.
            Exception: any error of the policy.
        """
        memory = self.memory.copy() if self.memory.size else self.memory
        packed, waiting = shown.packed, shown.waiting
        if self._kernel is None:
            view = shown.view(memory)
            decision = self.policy.route(view)
            broken = broken_rule(view, decision)
            if not broken:
                packed.worker[:waiting] = decision.worker
            found = decision.memory
        else:
            if self._asked_for[0] != packed.workers or self._asked_for[1] < waiting:
                self._make_scratch(packed.workers, waiting)
            self._kernel(
                shown.decision,
                shown.seed,
                shown.now_s,
                shown.mean_wait_s,
                0,
                waiting,
                packed.workers_i,
                packed.workers_f,
                packed.waiting_i,
                packed.waiting_f,
                packed.projections if self.horizon else packed.no_projections,
                packed.growth,
                packed.cached,
                memory,
                self._parameters,
                *self._scratch,
                packed.worker,
            )
            found, broken = memory, ""
            if not packed.keeps(packed.worker, waiting):
                broken = broken_rule(shown.view(memory), RoutingDecision(packed.worker[:waiting].copy(), memory))
        if broken:
            raise PolicyError(f"policy {self.text} broke its contract at decision {shown.decision}: {broken}")
        if found is not None and found.size:
            self.memory = found if found is memory else np.array(found, np.int64)
        return packed.worker[:waiting]

    def _make_scratch(self, workers: int, waiting: int) -> None:
        """Make working space for more workers and requests than these, so that few decisions have to make it again."""
        room = max(64, 1 << waiting.bit_length())
        ask = getattr(self._module, "scratch", None)
        ints, floats = (0, 0)
        for some in (waiting, room):
            more = ask(workers, some, self.horizon, self._parameters) if ask else (0, 0)
            ints, floats = max(ints, int(more[0])), max(floats, int(more[1]))
        self._scratch = np.zeros(ints, np.int64), np.zeros(floats)
        self._asked_for = workers, room


class Packed:
    """The arrays of one decision in the layout of kernels (`routing.view`), reused for the next decision.

    Args:
        workers: G.
        horizon: H, 0 for a policy that does not look ahead.

    Attributes:
        gathers: int64[G], indexed by barrier group: 1 = it is offered nothing. The code that sets a flag clears it.
        free: int64[G], slots offered of each worker.
        waiting: int64[>= W], rows of the waiting requests that are shown.
        worker: int64[>= W], the answer: a place for each of `waiting`, or `HOLD`.
    """

    def __init__(self, workers: int, horizon: int) -> None:
        self.workers = workers
        self.workers_i: I8 = np.zeros((4, workers), np.int64)
        self.workers_f: F8 = np.zeros((4, workers))
        self.nothing_ahead: F8 = np.zeros((workers, horizon + 1))
        self.projections: F8 = self.nothing_ahead
        self.no_projections: F8 = np.zeros((workers, _NO_PROJECTIONS))
        self.growth: F8 = np.arange(horizon + 1, dtype=np.float64)
        self.cached: F8 = np.zeros((0, 0))
        self.free: I8 = np.zeros(workers, np.int64)
        self.gathers: I8 = np.zeros(workers, np.int64)
        self._slots: I8 = np.zeros(workers, np.int64)
        self._tokens: F8 = np.zeros(workers)
        self._words: I8 = np.zeros(0, np.int64)
        self._make_room(0)

    def room_for(self, waiting: int) -> None:
        """Make room for at least `waiting` waiting requests; if it grows, the answer and the rows are new arrays."""
        if self.worker.size < waiting:
            self._make_room(max(64, 1 << waiting.bit_length()))

    def _make_room(self, room: int) -> None:
        self.waiting_i: I8 = np.zeros((3, room), np.int64)
        self.waiting_f: F8 = np.zeros((3, room))
        self.waiting: I8 = np.zeros(room, np.int64)
        self.worker: I8 = np.full(room, HOLD, np.int64)
        self._written: showing.Shown | None = None

    def show(self, rows: Rows, mirror: Mirror, pool: Pool, most: int, margin: int, offered: int, reserve: float) -> int:
        """Write what the policy sees of a round. Call `room_for` first, and always pass the same pool.

        Args:
            rows: the table of requests.
            mirror: the workers' counts.
            pool, most, margin, offered, reserve: as in `showing.show`.

        Returns:
            Number of free slots in all groups that do not gather, offered or not. If it is 0, only `free` is written.
        """
        if self._written is None:
            self._written = showing.Shown(
                self.gathers,
                pool.shares,
                self._slots,
                self.free,
                self.waiting,
                self.workers_i,
                self.workers_f,
                self.waiting_i,
                self.waiting_f,
                self.worker,
            )
        here = np.frombuffer(pool.here, np.int64) if pool.here else _NOBODY
        requests, workers = rows.columns.given, mirror.columns.given
        return int(_show(requests, workers, here, most, margin, offered, reserve, self._written))

    def words(self, waiting: int) -> I8:
        """Working space for `list_seen` with `waiting` requests: int64[n], at least one for each number a policy sees."""
        size = 8 * self.workers + 6 * waiting + self.projections.size + self.cached.size
        if self._words.size < size:
            self._words = np.zeros(2 * size, np.int64)
        return self._words

    def keeps(self, worker: I8, waiting: int) -> bool:
        """Whether an answer to the first `waiting` requests names known workers, or `HOLD`, and fits slots and KV memory."""
        return bool(_holds(worker, waiting, self.workers_i, self.workers_f, self.waiting_f, self._slots, self._tokens))


@dataclass(slots=True, eq=False)
class Shown:
    """The view of one decision; the `RoutingView` is built only on request.

    Args:
        decision, seed, now_s, mean_wait_s: as in `RoutingView`.
        waiting: W, number of requests shown.
        packed: the arrays of the round.
    """

    decision: int
    seed: int
    now_s: float
    mean_wait_s: float
    waiting: int
    packed: Packed

    def checksum(self) -> int:
        """CRC-32 of all numbers that a policy may decide by, except its memory and `growth`; equal views have equal ones."""
        packed = self.packed
        stamp = _STAMP.pack(self.decision, self.seed, self.now_s, self.mean_wait_s)
        words = packed.words(self.waiting)
        seen = showing.Seen(
            packed.workers_i, packed.workers_f, packed.waiting_i, packed.waiting_f, packed.projections, packed.cached
        )
        size = _list_seen(seen, self.waiting, self.now_s, words)
        return zlib.crc32(words[:size].data, zlib.crc32(stamp))

    def view(self, memory: I8) -> RoutingView:
        """The policy's view of the decision, with this memory; read-only windows on arrays that the next round changes."""
        packed = self.packed
        wi, wf = sealed(packed.workers_i), sealed(packed.workers_f)
        qi, qf = sealed(packed.waiting_i[:, : self.waiting]), sealed(packed.waiting_f[:, : self.waiting])
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
            projections=sealed(packed.projections),
            growth=sealed(packed.growth),
            cached_tokens=sealed(packed.cached),
            memory=sealed(memory),
        )
