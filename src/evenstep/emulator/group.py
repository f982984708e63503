"""A barrier group of emulated ranks as a plain state machine: events in, actions out; no clock, no sockets.

All ranks of a group step together. Without a batch-time law, a step lasts ``overhead(ranks) + max over ranks of (local
seconds of the rank's KV tokens + seconds of the prompt tokens it computes and of the tokens it decodes)``. Its tokens appear
at its end. The load of a rank is as in `evenstep.sim.cluster.simulation`: a request in its j-th decode step holds its
prompt and j - 1 tokens. An idle group starts a step at the next arrival; requests that arrive during a step join the next.

Times are engine seconds. The host stamps every event with ``now_s`` and sends `Due` at the time of the last `Wake`.
"""

from __future__ import annotations

import math
from typing import NamedTuple, TypeAlias

import numpy as np

from evenstep.cost.batch import FEATURES
from evenstep.cost.lockstep import parts_of
from evenstep.cost.view import StepTime
from evenstep.emulator import tokens
from evenstep.emulator.memory import Memory
from evenstep.emulator.rank import Rank, Sequence
from evenstep.emulator.settings import EmulatorSettings
from evenstep.request import F8


class Arrived(NamedTuple):
    """Event: a sequence has reached a rank (number in the group); with `awaits`, it queues only after `Fetched`."""

    sequence: Sequence
    rank: int
    awaits: bool = False


class Fetched(NamedTuple):
    """Event: the fetch of a sequence's KV has ended; with `found` False it failed, and the sequence is `Lost`."""

    key: int
    found: bool


class Pulled(NamedTuple):
    """Event: another engine has fetched the KV of a finished sequence, whose blocks are to be freed."""

    key: int


class Cancelled(NamedTuple):
    """Event: a sequence must end early (``abort``: the client left; ``stop``: a stop text); an unknown key is ignored."""

    key: int
    finish: str = "abort"


class Killed(NamedTuple):
    """Event: a rank (number in the group) dies, with all its sequences and memory; each sequence is reported as `Lost`."""

    rank: int


class Revived(NamedTuple):
    """Event: a dead rank (number in the group) starts again, with empty queue and memory."""

    rank: int


class Due(NamedTuple):
    """Event: the time of the last `Wake` has come."""


class Produced(NamedTuple):
    """Action: pass on the next token id of a sequence; `finish` is ``stop`` or ``length`` with its last token, else None."""

    key: int
    token: int
    finish: str | None


class Lost(NamedTuple):
    """Action: fail a sequence, because its rank is dead (reason ``dead``) or its KV could not be fetched (``kv``)."""

    key: int
    reason: str


class Wake(NamedTuple):
    """Action: send `Due` at this time, in engine seconds; it replaces the group's earlier `Wake`."""

    at_s: float


Event: TypeAlias = Arrived | Fetched | Pulled | Cancelled | Killed | Revived | Due
Action: TypeAlias = Produced | Lost | Wake


class Group:
    """`size` ranks that share a barrier, numbered from `first` in the fleet; `step_time` counts without a batch-time law."""

    def __init__(self, settings: EmulatorSettings, step_time: StepTime, size: int, first: int = 0) -> None:
        self.first, self._settings, self._step_time = first, settings, step_time
        law = settings.batch_law()
        self._parts = None if law is None else parts_of(law, size)
        if self._parts is not None:  # compiles the law, so that no request waits for it
            self._parts.seconds(np.zeros((size, FEATURES)), 0.0, np.zeros(size))
        blocks, mean = settings.blocks, settings.mean_output_tokens
        self.ranks = [
            Rank(
                settings.slots,
                Memory(blocks, settings.block_size, sharing=settings.prefix_caching),
                settings.token_budget,
                None if law is None else np.zeros(FEATURES),
            )
            for _ in range(size)
        ]
        self._overhead_s = step_time.overhead_seconds(size)
        self._end_bits = int(2**64 / mean) if mean >= 1 else 0
        self._live: dict[int, Sequence] = {}
        self._awaiting: set[int] = set()
        self._leases: dict[int, tuple[Sequence, float]] = {}
        self._wake_s = math.inf
        self._stepping = False
        self.steps, self.stepped_s = 0, 0.0  # completed steps, and their engine seconds
        self.step_s = 0.0  # engine seconds of the running step, or of the last one if the group is idle

    def handle(self, event: Event, now_s: float) -> list[Action]:
        """Handle an event at `now_s`, engine seconds; returns the actions that the host must carry out, in order.

        For `Due`, `now_s` is the last `Wake`'s time or later; an earlier one is ignored. Expired leases are dropped first.
        """
        self.expire(now_s)
        match event:
            case Due():
                return self._boundary(now_s)
            case Arrived():
                return self._arrived(event, now_s)
            case Fetched():
                return self._fetched(event, now_s)
            case Cancelled():
                self._cancelled(event)
            case Pulled():
                self._drop_lease(event.key)
            case Killed():
                return self._killed(event.rank)
            case Revived():
                self.ranks[event.rank].dead = False
        return self._wakes(now_s)

    def expire(self, now_s: float) -> None:
        """Drop the leases that end by `now_s`, engine seconds: free their blocks, and count each as expired."""
        while self._leases:
            key, (one, end_s) = next(iter(self._leases.items()))
            if end_s > now_s:
                return
            self.ranks[one.rank].counts.expired_leases += 1
            self._drop_lease(key)

    def leased(self, key: int) -> Sequence | None:
        """The finished sequence with this key, if its KV still waits to be fetched, else None."""
        return self._leases[key][0] if key in self._leases else None

    def awaiting(self, rank: int) -> int:
        """Number of sequences of a rank (number in the group) whose KV is still being fetched."""
        return sum(self._live[key].rank == rank for key in self._awaiting)

    def check(self) -> None:
        """Check, for tests, that each sequence is in exactly one place and memory adds up; else raise `RuntimeError`."""
        placed = sorted(one.key for rank in self.ranks for one in (*rank.waiting, *rank.running))
        if sorted([*placed, *self._awaiting]) != sorted(self._live):
            raise RuntimeError("a sequence is in two places or in none")
        for number, rank in enumerate(self.ranks):
            rank.check()
            leases = [one for one, _ in self._leases.values() if one.rank == number]
            owners = [*rank.running, *leases]
            held = {block for one in owners for block in one.held}
            if sum(one.private for one in owners) + len(held) != rank.memory.used:
                raise RuntimeError(f"memory of rank {number} does not add up")

    def _arrived(self, event: Arrived, now_s: float) -> list[Action]:
        """Queue a sequence that has reached a rank, or let it await its KV; on a dead rank it is lost."""
        one, rank = event.sequence, self.ranks[event.rank]
        if rank.dead:
            return [Lost(one.key, "dead")]
        one.rank = event.rank
        self._live[one.key] = one
        if event.awaits:
            self._awaiting.add(one.key)
        else:
            rank.waiting.append(one)
        return self._wakes(now_s)

    def _fetched(self, event: Fetched, now_s: float) -> list[Action]:
        """Queue a sequence whose KV has been fetched, or report it as lost."""
        if event.key not in self._awaiting:
            return []  # cancelled meanwhile
        self._awaiting.remove(event.key)
        one = self._live[event.key]
        if not event.found:
            del self._live[event.key]
            self.ranks[one.rank].counts.finished["error"] += 1
            return [Lost(event.key, "kv")]
        one.fetched = one.prompt
        self.ranks[one.rank].waiting.append(one)
        return self._wakes(now_s)

    def _cancelled(self, event: Cancelled) -> None:
        """Remove a sequence and count it as finished; an unknown key is ignored."""
        key = event.key
        one = self._live.pop(key, None)
        if one is None:
            return
        self.ranks[one.rank].counts.finished[event.finish] += 1
        if key in self._awaiting:
            self._awaiting.remove(key)
        else:
            self.ranks[one.rank].remove(one)

    def _killed(self, number: int) -> list[Action]:
        """Mark a rank as dead, empty it, and report its sequences as lost."""
        rank = self.ranks[number]
        rank.dead = True
        lost = [key for key, one in self._live.items() if one.rank == number]
        for key in lost:
            self._live.pop(key).gone = True
            self._awaiting.discard(key)
        self._leases = {k: v for k, v in self._leases.items() if v[0].rank != number}
        rank.waiting.clear()
        rank.running.clear()
        rank.memory.clear()
        return [Lost(key, "dead") for key in lost]

    def _boundary(self, now_s: float) -> list[Action]:
        """Complete the running step and start the next, which ends at the next `Wake`; a stale call is ignored.

        If sequences wait and none fits into memory, the `Wake` is at the end of the oldest lease, if any.
        """
        if now_s < self._wake_s:
            return []  # the `Due` of a replaced `Wake`
        actions = self._complete(now_s) if self._stepping else []
        self._stepping, self._wake_s = False, math.inf
        for rank in self.ranks:
            rank.schedule()
        if any(rank.scheduled for rank in self.ranks):
            self._stepping = True
            self.step_s = self._seconds()
            self._wake_s = now_s + self.step_s
            actions.append(Wake(self._wake_s))
        elif self._leases and any(rank.waiting for rank in self.ranks):
            self._wake_s = next(iter(self._leases.values()))[1]  # the lease's memory is freed then
            actions.append(Wake(self._wake_s))
        return actions

    def _seconds(self) -> float:
        """Engine seconds of the planned step; adds each rank's own part to its `busy_s`."""
        if self._parts is not None:
            batches = np.array([rank.batch for rank in self.ranks])
            step_s, own_s = self._parts.seconds(batches, self._settings.overhead_s, np.zeros(len(self.ranks)))
            for rank, busy_s in zip(self.ranks, own_s.tolist(), strict=True):
                rank.counts.busy_s += busy_s
            return step_s
        ahead = [0] * self.first
        load: F8 = np.array(ahead + [rank.load for rank in self.ranks], np.float64)
        running = np.array(ahead + [len(rank.scheduled) for rank in self.ranks], np.int64)
        longest: F8 = np.array(ahead + [rank.longest for rank in self.ranks], np.float64)
        local = self._step_time.local_seconds(load, running, longest)[self.first :].tolist()
        for number, rank in enumerate(self.ranks):
            local[number] += self._settings.prefill_per_token_s * rank.prefill_tokens
            local[number] += self._settings.decode_per_token_s * rank.decode_tokens
            rank.counts.busy_s += local[number]
        return self._overhead_s + max(local)

    def _complete(self, now_s: float) -> list[Action]:
        """Count the step that ends, and draw the next token of each sequence that it computed; returns these tokens."""
        actions: list[Action] = []
        self.steps += 1
        self.stepped_s += self.step_s
        for rank in self.ranks:
            left = False
            for one in rank.scheduled:
                if one.gone:
                    continue
                if one.resident < one.total:
                    continue  # more of its prompt is to come
                token, finish = self._next_token(one)
                rank.counts.produced_tokens += 1
                actions.append(Produced(one.key, token, finish))
                if finish is not None:
                    left = True
                    self._finished(rank, one, finish, now_s)
            if left:
                rank.running = [one for one in rank.running if not one.gone]
        return actions

    def _next_token(self, one: Sequence) -> tuple[int, str | None]:
        """Append the next token to a sequence; returns its id, and ``stop`` or ``length`` if it is the last, else None."""
        produced = one.total - one.prompt
        bits = tokens.drawn(one.state, one.salt * (produced + 1))
        token = tokens.word(bits)
        if one.ends and bits < self._end_bits and produced >= one.min_tokens:
            token = tokens.END
        one.state = tokens.after(one.state, token)
        one.total += 1
        if self._settings.prefix_caching and not one.total % self._settings.block_size:
            one.chain.append(one.state)
        if token == tokens.END or (token in one.stop_ids and produced >= one.min_tokens):
            return token, "stop"
        return token, "length" if produced + 1 >= one.max_tokens else None

    def _finished(self, rank: Rank, one: Sequence, finish: str, now_s: float) -> None:
        """Mark a sequence as `gone` and count it; free its blocks, or lease them if another engine will fetch its KV."""
        rank.counts.finished[finish] += 1
        del self._live[one.key]
        one.gone = True
        if one.leased:
            self._leases[one.key] = (one, now_s + self._settings.lease_s)
        else:
            rank.release(one)

    def _drop_lease(self, key: int) -> None:
        """End the lease of a finished sequence and free its blocks; an unknown key is ignored."""
        if key in self._leases:
            one, _ = self._leases.pop(key)
            self.ranks[one.rank].release(one)

    def _wakes(self, now_s: float) -> list[Action]:
        """A `Wake` to start a step now, if the group is idle and a sequence waits; else nothing."""
        if self._stepping or self._wake_s <= now_s or not any(rank.waiting for rank in self.ranks):
            return []
        self._wake_s = now_s
        return [Wake(now_s)]
