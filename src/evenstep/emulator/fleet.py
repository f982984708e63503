"""Hosts the emulated ranks: stamps events with engine time, wakes the groups, and passes tokens to answers.

Engine time is wall-clock time since the start, times `speed`. A group that is woken late continues from its planned time,
so that the pace is right on average. If it is late by more than a step and 1 ms, it continues from now, and the step counts
as late (``evenstep:late_steps_total``): the machine is too slow for the load.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress

from evenstep.emulator import group as ev
from evenstep.emulator import tokens
from evenstep.emulator.answer import Answer
from evenstep.emulator.connection import Connection
from evenstep.emulator.emulated_request import EmulatedRequest, RefusedError
from evenstep.emulator.faults import Fault, Faults, fault_of
from evenstep.emulator.group import Group
from evenstep.emulator.rank import Rank
from evenstep.emulator.rank import Sequence as Work
from evenstep.emulator.settings import EmulatorSettings
from evenstep.emulator.transfer import Transfer
from evenstep.emulator.wording import Choice, Wording
from evenstep.errors import InputError

_MOST_DIGITS = 20  # most digits of a rank in a header
_SALT = 0x2545F4914F6CDD1D


class Fleet:
    """All emulated ranks of one process. They are numbered from 0, group by group.

    Args:
        loop: the event loop that runs the fleet and gives it the time.
        ports: port of each rank, where other engines fetch its KV.
    """

    def __init__(self, settings: EmulatorSettings, loop: asyncio.AbstractEventLoop, ports: Sequence[int]) -> None:
        self.settings, self._loop = settings, loop
        self.faults = Faults(settings.seed)
        self.faults.on += [fault_of(text, settings.ranks) for text in settings.faults]
        self.groups: list[Group] = []
        self.home: list[Group] = []  # the barrier group of each rank
        for size in settings.sizes:
            self.groups.append(Group(settings, settings.step_time(), size, len(self.home)))
            self.home += [self.groups[-1]] * size
        self._wishes: dict[Group, asyncio.TimerHandle] = {}  # timers of the groups' last `Wake`
        self.late_steps = Counter[Group]()  # by group
        self.transfer = Transfer(settings, ports, self.pulled)
        self.ranks_changed: Callable[[], None] = lambda: None  # called after a death or a revival; the host sets it
        self._start_s = loop.time()
        self.created = int(time.time())  # Unix time
        self._seed_state = tokens.drawn(settings.seed)
        self._keys = 0
        self._parts: dict[int, tuple[Answer, Choice]] = {}
        self._dirty: list[Answer] = []
        self._fetches: set[asyncio.Task[None]] = set()
        self._strikes: list[asyncio.TimerHandle] = []  # timers of deaths and restarts by faults

    @property
    def now_s(self) -> float:
        """Engine seconds since the start: wall-clock seconds times `speed`."""
        return (self._loop.time() - self._start_s) * self.settings.speed

    def rank(self, number: int) -> Rank:
        """The rank with this number in the fleet."""
        group = self.home[number]
        return group.ranks[number - group.first]

    def lightest(self, ranks: Sequence[int]) -> int:
        """Number of the live rank with the least of vLLM's score, 4 * waiting + running requests; ties go to the first.

        At least one of these ranks must be alive.
        """
        alive = [number for number in ranks if not self.rank(number).dead]
        return min(alive, key=lambda n: 4 * len(self.rank(n).waiting) + len(self.rank(n).running))

    def submit(self, asked: EmulatedRequest, rank: int, request_id: str, out: Connection) -> Answer | None:
        """Start the answer to a request on a rank, and apply the fault that hits it, if any, whose count goes down.

        `request_id` becomes part of the answer's id. Returns None if the fault ended the answer at once. On a dead rank, the
        connection is closed. A decode leg without the location of its KV raises `RefusedError`.
        """
        source = self.transfer.source(asked) if asked.brings_kv and self.settings.role != "prefill" else None
        first = self._keys
        self._keys += len(asked.prompts) * asked.n
        keys = range(first, self._keys)
        name = f"chatcmpl-{request_id}" if asked.chat else f"cmpl-{request_id}"
        wording = Wording(asked, self.settings.dialect, name, int(time.time()), self.settings.model)
        answer = Answer(asked, wording, out, self.stop, self.strike, self.faults.hit(rank), rank, keys)
        if not answer.begin():
            return None
        group = self.home[rank]
        leaves = asked.leaves_kv and self.settings.role != "decode"
        works = [self._work(asked, part, leaves=leaves) for part in answer.parts]
        for part, work in zip(answer.parts, works, strict=True):
            self._parts[part.key] = (answer, part)
            self._tell(group, ev.Arrived(work, rank - group.first, source is not None))
        if source is not None:
            self._fetch(source, works, group)
        if leaves:
            answer.transfer = self.transfer.left(name, works[0], rank, out.reached)
        return answer

    def stop(self, key: int, finish: str) -> None:
        """End the sequence with this key early, and count it under `finish` (stop, abort); ignores an unknown key."""
        if key in self._parts:
            answer, _ = self._parts.pop(key)
            self._tell(self.home[answer.rank], ev.Cancelled(key, finish))

    def strike(self, rank: int, fault: Fault) -> None:
        """Kill a rank, and the rest of its group at once (fault ``kill-group``) or after `Fault.peers_after_s`.

        If `Fault.down_s` is above 0, a timer revives the group after `Fault.peers_after_s` + `Fault.down_s` seconds.
        """
        group = self.home[rank]
        members = range(group.first, group.first + len(group.ranks))
        if fault.fault == "kill-group":
            self.kill(members)
        else:
            self.kill([rank])
            peers = [number for number in members if number != rank]
            self._strikes.append(self._loop.call_later(fault.peers_after_s, self._end_peers, peers))
        if fault.down_s > 0:
            self._strikes.append(self._loop.call_later(fault.down_s + fault.peers_after_s, self.revive, members))

    def heal(self) -> None:
        """Clear all faults, cancel the deaths and restarts that they have planned, and revive dead ranks."""
        self.faults.on.clear()
        for timer in self._strikes:
            timer.cancel()
        self._strikes.clear()
        self.revive(range(self.settings.ranks))

    def kill(self, ranks: Sequence[int]) -> None:
        """Kill ranks by number: their answers break off, and their sequences and memory are lost. Calls `ranks_changed`."""
        for number in ranks:
            group = self.home[number]
            self._tell(group, ev.Killed(number - group.first))
        with suppress(InputError):  # a port to open again is taken: that must not break the step that this is called in
            self.ranks_changed()

    def revive(self, ranks: Sequence[int]) -> None:
        """Revive the dead ranks among these, with empty queue and memory. Calls `ranks_changed`."""
        for number in ranks:
            group = self.home[number]
            self._tell(group, ev.Revived(number - group.first))
        self.ranks_changed()

    def pulled(self, key: int, begun: int) -> bool:
        """Give up the KV of the finished sequence with this key: free its blocks, and return True.

        `begun` is the model's state after its prompt. Returns False if the KV is gone or belongs to another prompt.
        """
        for group in self.groups:
            group.expire(self.now_s)
            one = group.leased(key)
            if one is not None and one.begun == begun:
                self._tell(group, ev.Pulled(key))
                return True
        return False

    def close(self) -> None:
        """Cancel all timers and all fetches of KV; connections of answers under way stay open."""
        for waiting in (*self._wishes.values(), *self._fetches, *self._strikes):
            waiting.cancel()

    def _work(self, asked: EmulatedRequest, part: Choice, *, leaves: bool) -> Work:
        """Make the sequence that a rank runs for a part of an answer; with `leaves`, its KV is kept for another engine."""
        prompt = asked.prompts[part.index // asked.n]
        settings = self.settings
        sample = part.index % asked.n
        salt = 0 if asked.seed is None else tokens.drawn(asked.seed & (2**64 - 1)) or 1  # seed 0 is a seed, too
        return Work(
            key=part.key,
            prompt=int(prompt.size),
            max_tokens=asked.max_tokens[part.index // asked.n],
            min_tokens=asked.min_tokens,
            ends=asked.ends,
            stop_ids=asked.stop_ids,
            state=tokens.state_of(prompt, self._seed_state),
            salt=salt + sample * _SALT,
            chain=tokens.blocks_of(prompt, settings.block_size, self._seed_state) if settings.prefix_caching else [],
            leased=leaves,
        )

    def _fetch(self, source: tuple[str, int, str], works: Sequence[Work], group: Group) -> None:
        """Fetch the KV of a prompt in a task, and then tell the group for each of these sequences whether it came."""

        async def fetch() -> None:
            found = await self.transfer.fetch(source, works[0].begun)
            for work in works:
                self._tell(group, ev.Fetched(work.key, found))

        task = self._loop.create_task(fetch())
        self._fetches.add(task)
        task.add_done_callback(self._fetches.discard)

    def _end_peers(self, peers: Sequence[int]) -> None:
        """Fail the answers of the live ranks among these, and kill these ranks."""
        alive = [number for number in peers if not self.rank(number).dead]
        for answer in {id(a): a for a, _ in self._parts.values() if a.rank in alive}.values():
            answer.fail("the engine core died: a rank of its group is gone")
        self.kill(alive)

    def _due(self, group: Group, at_s: float) -> None:
        """Send a group the `Due` of its `Wake` at `at_s` (engine seconds), count a late step, and send the new tokens."""
        del self._wishes[group]
        now_s = self.now_s
        if now_s - at_s > max(group.step_s, 1e-3 * self.settings.speed):
            self.late_steps[group] += 1
            at_s = now_s
        self._tell(group, ev.Due(), at_s)
        dirty, self._dirty = self._dirty, []
        for answer in dirty:
            answer.flush()

    def _tell(self, group: Group, event: ev.Event, now_s: float | None = None) -> None:
        """Pass an event to a group, at `now_s` engine seconds (None = now), and carry out the actions that it returns."""
        parts, dirty = self._parts, self._dirty
        for action in group.handle(event, self.now_s if now_s is None else now_s):
            if type(action) is ev.Produced:
                found = parts.get(action.key)
                if found is None:
                    continue  # stopped by another answer's fault in this very step
                answer, part = found
                if action.finish is not None:
                    del parts[action.key]
                answer.produced(part, action.token, action.finish)
                dirty.append(answer)
            elif type(action) is ev.Wake:
                if group in self._wishes:
                    self._wishes[group].cancel()
                at = self._start_s + action.at_s / self.settings.speed
                self._wishes[group] = self._loop.call_at(at, self._due, group, action.at_s)
            elif type(action) is ev.Lost and action.key in parts:
                answer, _ = parts.pop(action.key)
                if action.reason == "kv":
                    answer.fail("the KV cache of the prompt could not be fetched")
                else:
                    answer.die()


def rank_of(asked: EmulatedRequest, header: str | None, ranks: Sequence[int]) -> int | None:
    """The number in the fleet of the rank that a request names in its header or body; None if it names no rank.

    `header` is ``X-data-parallel-rank`` (None = absent) and takes precedence over the body. The request names a position in
    `ranks`, the ranks at its port; a position that does not exist raises `RefusedError`.
    """
    named = asked.rank
    if header is not None:
        if not (header.strip().isdecimal() and len(header) <= _MOST_DIGITS):
            shown = repr(header[:_MOST_DIGITS])
            raise RefusedError(400, f"X-data-parallel-rank is {shown}; expected a rank.", "X-data-parallel-rank")
        named = int(header)
    if named is None:
        return None
    if not 0 <= named < len(ranks):
        raise RefusedError(400, f"data parallel rank {named} is not in 0..{len(ranks) - 1}.", "data_parallel_rank")
    return ranks[named]
