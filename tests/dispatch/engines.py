"""Engines in memory for tests of the dispatcher: slots, steps under a linear law, no sockets, no clock."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from evenstep.dispatch import commands as co
from evenstep.dispatch import events as ev
from evenstep.dispatch.core import Dispatcher
from evenstep.dispatch.settings import WorkerSpec


@dataclass
class Stream:
    """A decode leg at an engine."""

    request: int
    leg: int
    row: int
    load: int
    left: int
    ran: int = 0


@dataclass
class Barrier:
    """One barrier group that answers a dispatcher: a step lasts ``overhead + per_token * heaviest load``.

    Args:
        dispatcher: decides; workers are added to it.
        workers, slots: of the group.
        prompts, outputs: tokens by request number.
    """

    dispatcher: Dispatcher
    workers: int
    slots: int
    prompts: Any
    outputs: Any
    overhead_s: float = 0.0049
    per_token_s: float = 1.1e-7
    now_s: float = 0.0
    step: int = 0
    at: list[list[Stream]] = field(default_factory=list)
    finished: dict[int, tuple[int, int, int]] = field(default_factory=dict)  # request -> worker, first and last step
    loads: list[list[int]] = field(default_factory=list)
    admitted: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.at = [[] for _ in range(self.workers)]
        for g in range(self.workers):
            spec = WorkerSpec(name=f"w{g}", group="one", slots=self.slots, scraped=False)
            self.tell(ev.WorkerAdded(now_s=0.0, spec=spec))

    def tell(self, event: Any) -> list[co.Command]:
        told = self.dispatcher.handle(event)
        for command in told:
            if isinstance(command, co.SendDecode | co.Continue):
                request = command.request
                done = command.produced if isinstance(command, co.Continue) else 0
                stream = Stream(
                    request,
                    command.leg,
                    command.row,
                    int(self.prompts[request]) + done,
                    int(self.outputs[request]) - done,
                )
                self.at[int(command.worker[1:])].append(stream)
                self.admitted[request] = self.step
            elif isinstance(command, co.Abort):
                place = self.at[int(command.worker[1:])]
                place[:] = [s for s in place if s.leg != command.leg]
        return told

    def advance(self) -> None:
        """One decode step: time passes, every stream delivers a token, those that are done finish."""
        self.loads.append([sum(s.load for s in place) for place in self.at])
        self.now_s += self.overhead_s + self.per_token_s * max(self.loads[-1])
        self.step += 1
        self.dispatcher.now_s = self.now_s
        done: list[tuple[int, Stream]] = []
        for g, place in enumerate(self.at):
            for stream in place:
                self.dispatcher.produced(stream.row, 1)
                stream.load, stream.left = stream.load + 1, stream.left - 1
                if not stream.left:
                    done.append((g, stream))
        for g, stream in done:
            self.at[g].remove(stream)
            self.finished[stream.request] = g, self.admitted[stream.request], self.step - 1
            self.tell(ev.Finished(now_s=self.now_s, request=stream.request, leg=stream.leg))

    @property
    def running(self) -> int:
        return sum(map(len, self.at))


def saturated(barrier: Barrier, requests: int, pool: int, check: bool = False) -> None:
    """Run so many requests to their end, with the pool kept topped up as in the simulator's saturated arrivals."""
    revealed = 0
    while len(barrier.finished) < requests:
        while revealed < requests and len(barrier.dispatcher.pool) < pool:
            barrier.tell(ev.Arrived(now_s=barrier.now_s, request=revealed, prompt_tokens=int(barrier.prompts[revealed])))
            revealed += 1
        barrier.tell(ev.Tick(now_s=barrier.now_s))
        if check:
            barrier.dispatcher.check()
        barrier.advance()
