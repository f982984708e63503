"""Batches of events about requests whose answers mostly come whole, for tests that hold two ways to handle them equal."""

from __future__ import annotations

import json
import random
from collections import deque
from typing import Any

from evenstep.dispatch import commands as co
from evenstep.dispatch import events as ev
from evenstep.dispatch.core import Dispatcher
from evenstep.dispatch.settings import Settings, WorkerSpec


class Batches:
    """What comes up between two looks of a host, from one seed.

    Args:
        seed: of everything.
        log: of the dispatcher.
    """

    def __init__(self, seed: int, log: Any = None) -> None:
        self.random = random.Random(seed)
        choice = self.random.choice
        settings = Settings(
            ttl_s=choice([0.05, 60.0]),
            pool_limit=choice([5, 4096]),
            round_slots=choice([0, 2, 32]),
            pool_window=choice([0, 3]),
            retries=1,
            prefix_blocks=8,
            breaker_failures=1,
            gather_ms=choice([0.0, 2.0]),
        )
        policy = choice(["br-0", "jsq:ties=lowest", "br-0:bypass=true", "best", "prefix-affinity"])
        self.d = Dispatcher(policy, settings=settings, log=log)
        for number in range(choice([1, 3])):
            group = choice(["", "one"])
            spec = WorkerSpec(name=f"w{number}", group=group, slots=choice([2, 5]), scraped=False)
            self.d.handle(ev.WorkerAdded(now_s=0.0, spec=spec))
        self.now_s, self.requests = 0.0, 0
        self.legs: dict[int, int] = {}

    def batch(self) -> list[ev.Event]:
        """Arrivals, answers, failures, clients that leave; times go on within it."""
        made = [self._event() for _ in range(self.random.choice([1, 2, 5, 9]))]
        if self.random.random() < 0.7:
            made.append(ev.Tick(now_s=self.now_s))
        return made

    def _event(self) -> ev.Event:
        pick, choice = self.random.random(), self.random.choice
        self.now_s += choice([0.0, 0.0, 0.001, 0.02])
        if pick < 0.45 or not self.legs:
            self.requests += 1
            return ev.Arrived(
                now_s=self.now_s,
                request=self.requests,
                prompt_tokens=choice([1, 30, 200]),
                tenant=choice("ab"),
                copies=choice([1, 1, 1, 1, 2]),
                key=choice([0, 9]),
                session=choice([0, 5]),
                expected_tokens=choice([0, 3]),
                can_continue=choice([True, False]),
                blocks=choice([(), (1, 2)]),
            )
        request = choice(sorted(self.legs))
        leg = self.legs[request] + (self.random.random() < 0.05)
        if pick < 0.9:
            output = choice([1, 7, 7, 0])
            return ev.Finished(
                now_s=self.now_s,
                request=request,
                leg=leg,
                prompt_tokens=choice([0, 31]),
                output_tokens=output,
            )
        if pick < 0.95:
            return ev.Failed(now_s=self.now_s, request=request, leg=leg, kind=choice(["connect", "status"]))
        return ev.ClientGone(now_s=self.now_s, request=request)

    def carry_out(self, commands: list[co.Command]) -> list[co.Command]:
        """Note the legs; the commands without those that only say when to look again."""
        for command in commands:
            if isinstance(command, co.SendDecode):
                self.legs[command.request] = command.leg
            elif isinstance(command, co.Reject | co.Fail):
                self.legs.pop(command.request, None)
        return [command for command in commands if not isinstance(command, co.WakeAt)]

    def one_by_one(self, events: list[ev.Event]) -> list[co.Command]:
        return self.carry_out([command for event in events for command in self.d.handle(event)])

    def together(self, events: list[ev.Event], ticks: bool = False) -> list[co.Command]:
        left = deque(events)
        told = self.carry_out(self.d.handle_all(left, ticks))
        assert not left
        return told


def state(d: Dispatcher) -> tuple[Any, ...]:
    """Everything that these events change."""
    d.check()
    d.parts.deadlines.set_newcomers()
    rows, mirror = d.rows, d.mirror
    return (
        json.dumps(d.snapshot(), sort_keys=True, default=str),
        rows.columns.ints.tolist(),
        rows.free,
        {request: rows.columns.floats[:3, row].tolist() for request, row in rows.by_request.items()},
        list(d.pool),
        mirror.columns.ints.tolist(),
        mirror.columns.floats.tolist(),
        list(d.parts.meters.waits.sums),
        list(d.parts.deciding.learned),
        d.parts.fleet.timers.next_s,
        d.parts.turn.legs,
        d.due,
        d.parts.rounds.opened_s,
        d.parts.rounds.ripe,
        {name: circuit.failures for name, circuit in d.fleet.breaker.circuits.items()},
        d.fleet.breaker.failing,
    )
