"""Two dispatchers on one fleet: each sees the other's requests in the engines' metrics, and leaves their slots alone."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from evenstep.dispatch import commands as co
from evenstep.dispatch import events as ev
from evenstep.dispatch.core import Dispatcher
from evenstep.dispatch.settings import Settings, WorkerSpec

SLOTS, WORKERS, STEP_S, SCRAPE_STEPS = 8, 3, 0.02, 25


@dataclass
class Shared:
    """Engines that run what two dispatchers send: at most `SLOTS` at a time each, the rest waits there.

    Args:
        load: requests that arrive, in what the fleet can serve.
    """

    load: float
    seed: int
    now_s: float = 0.0
    requests: int = 0
    queued: list[int] = field(default_factory=list)  # requests that wait at an engine, at each step
    told: list[co.Notice] = field(default_factory=list)
    done: list[int] = field(default_factory=lambda: [0, 0])

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.dispatchers = [Dispatcher("jsq", settings=Settings(ttl_s=20.0, gather_ms=0.0)) for _ in range(2)]
        self.engines: list[dict[tuple[int, int], list[int]]] = [{} for _ in range(WORKERS)]
        for who in range(2):
            for g in range(WORKERS):
                self.tell(who, ev.WorkerAdded(now_s=0.0, spec=WorkerSpec(name=f"w{g}", slots=SLOTS)))

    def tell(self, who: int, event: ev.Event) -> None:
        for c in self.dispatchers[who].handle(event):
            if isinstance(c, co.SendDecode):
                stream = [c.row, c.leg, self.random.randint(20, 120)]
                self.engines[int(c.worker[1:])][who, c.request] = stream
            elif isinstance(c, co.Notice):
                self.told.append(c)

    def step(self, number: int) -> None:
        self.now_s += STEP_S
        rate = SLOTS * WORKERS / 70 * self.load / 2
        for who in range(2):
            while self.random.random() < rate / (1 + rate):
                self.requests += 1
                prompt = self.random.randint(10, 500)
                self.tell(who, ev.Arrived(now_s=self.now_s, request=self.requests, prompt_tokens=prompt))
        for engine in self.engines:
            self.queued.append(max(0, len(engine) - SLOTS))
            for (who, request), stream in list(engine.items())[:SLOTS]:
                self.dispatchers[who].now_s = self.now_s
                self.dispatchers[who].produced(stream[0], 1)
                stream[2] -= 1
                if not stream[2]:
                    del engine[who, request]
                    self.done[who] += 1
                    self.tell(who, ev.Finished(now_s=self.now_s, request=request, leg=stream[1]))
        for who in range(2):
            if (number + 7 * who) % SCRAPE_STEPS == 0:
                for g, engine in enumerate(self.engines):
                    running, waiting = min(SLOTS, len(engine)), max(0, len(engine) - SLOTS)
                    self.tell(
                        who,
                        ev.Sampled(now_s=self.now_s, worker=f"w{g}", running=running, waiting=waiting, kv_used=0.0),
                    )
            self.tell(who, ev.Tick(now_s=self.now_s))
            self.dispatchers[who].check()


@pytest.mark.parametrize("load", [0.8, 1.2])
def test_two_dispatchers_do_not_overfill_their_engines_and_say_that_they_see_each_other(load):
    fleet = Shared(load, seed=1)
    for number in range(1, 1500):
        fleet.step(number)
    assert max(fleet.queued) <= 2 and sum(q > 0 for q in fleet.queued) < 0.05 * len(fleet.queued)
    assert {c.kind for c in fleet.told} == {"foreign"}
    assert "not sent from here" in fleet.told[0].text
    assert min(fleet.done) > 0.5 * max(fleet.done)
    seen = [w["foreign_requests"] for d in fleet.dispatchers for w in d.snapshot()["workers"]]
    assert sum(seen) > 0


@pytest.mark.slow
def test_two_dispatchers_with_more_than_they_can_serve_share_the_engines_evenly():
    fleet = Shared(load=3.0, seed=1)
    for number in range(1, 1500):
        fleet.step(number)
    assert max(fleet.queued[6 * SCRAPE_STEPS * WORKERS :]) <= 1  # of those that were sent after they had seen each other
    assert min(fleet.done) > 0.8 * max(fleet.done)
    assert sum(fleet.done) > 430  # 480 to 500 where nobody leaves a slot to another
