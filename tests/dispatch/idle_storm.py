"""A storm where KV memory binds: after every event the host looks for a request that waits beside an idle worker.

As a command it runs as many events as asked for, over fleets of 1 to 8 workers and several policies, and prints what it saw::

    python -m tests.dispatch.idle_storm 1000000
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
from msgspec import structs
from tests.dispatch.storm import Storm

from evenstep.dispatch import events as ev
from evenstep.dispatch.settings import Settings, WorkerSpec
from evenstep.routing.view import HOLD, RoutingDecision

_SLOTS = (5, 9)
_LATEST_S = 0.06  # after this long a policy that holds was asked again


@dataclass(frozen=True)
class Holds:
    """A policy that never sends anything."""

    def route(self, view: Any) -> RoutingDecision:
        return RoutingDecision(np.full(view.waiting_id.size, HOLD, np.int64))


POLICIES = (
    "best:horizon=4",
    "bf-io:horizon=4",
    "br-0",
    "br-0:bypass=true",
    "br-h:horizon=6",
    "throttled:threshold=2",
    "least-load",
    "prefix-affinity",
    f"{__file__}:Holds",
)


class IdleStorm(Storm):
    """Random events to a dispatcher of workers that hold few requests by their memory, fewer than by their slots.

    Args:
        seed: of everything.
        policy: ``holds`` for one that never sends anything.
        workers: G, at the beginning and at most.

    Attributes:
        bound: times that requests waited though slots were free: memory binds, or the policy holds.
    """

    def __init__(self, seed: int, policy: str, workers: int, log: Any = None) -> None:
        self.bound, self.workers, self.seed = 0, workers, seed
        super().__init__(seed, log=log, policy=f"{__file__}:Holds" if policy == "holds" else policy)
        while len(self.specs) < workers:
            self.add("decode")

    def rules(self) -> Settings:
        """As any storm's, with nothing that keeps requests waiting but memory."""
        return structs.replace(
            super().rules(),
            pool_limit=100,
            gather_ms=0.0,
            tenants={},
            stale_s=self.drawn("stale_s", 1.0, 1e9),
            order=Settings().order,
            gateways=0,
        )

    def add(self, role: str) -> None:
        if len(self.specs) == self.workers:
            return
        self.workers_made += 1
        name, choice = f"{role[0]}{self.workers_made}", self.random.choice
        spec = WorkerSpec(
            name=name,
            group=choice(["", "x", "y"]),
            slots=choice(_SLOTS),
            role=role,  # type: ignore[arg-type]
            kv_tokens=choice([60, 400, 600]),
        )
        self.specs[name], self.most[name] = spec, spec.slots
        self.tell(ev.WorkerAdded(now_s=self.now_s, spec=spec))
        self.sample(name)

    def describe_anew(self, name: str) -> None:
        old = self.specs[name]
        spec = WorkerSpec(name=name, group=old.group, slots=self.random.choice(_SLOTS), kv_tokens=old.kv_tokens)
        self.specs[name], self.most[name] = spec, max(self.most[name], spec.slots)
        self.leaving.discard(name)
        self.tell(ev.WorkerAdded(now_s=self.now_s, spec=spec))

    def sample(self, name: str) -> None:
        running = sum(self.copies[r] for r, (_, at, _) in self.decoding.items() if at == name)
        running += self.random.random() < 0.05
        used = self.random.choice([0.0, 0.0, 0.0, 0.3, 0.95])
        self.tell(ev.Sampled(now_s=self.now_s, worker=name, running=running, waiting=0, kv_used=used))

    def run(self, events: int) -> None:
        """Make so many random events, and look after each."""
        for _ in range(events):
            self.step()
            self.now_s += _LATEST_S
            self.tell(ev.Tick(now_s=self.now_s))
            while self.dispatcher.due:
                self.tell(ev.Tick(now_s=self.now_s))
            self.look()

    def look(self) -> None:
        """See that no request that waits fits a worker that runs nothing."""
        found = self.dispatcher
        busy = {name for _, name, _ in self.decoding.values()}
        requests, at = found.rows.at.request, found.mirror.at
        self.bound += len(found.pool) > 0 and bool(found.mirror.open_groups())
        for g, worker in enumerate(found.mirror.workers):
            name = worker.spec.name
            if name in busy or at.free_at_most[g] <= 0 or at.foreign[g] or at.reserved[g]:
                continue  # reserved: a request of several copies gathers its slots there
            left = at.capacity[g] - at.foreign_load[g]
            for row in found.pool:
                if name in found.parts.exclusions.excluded.get(row, ()) or self.copies[requests[row]] > at.free_at_most[g]:
                    continue
                load = found.rows.load(row)
                assert load > left, (
                    f"seed {self.seed}, {found.parts.deciding.call.text}: {requests[row]} of {load} tokens waits while {name} "
                    f"has {left} free"
                )


def main(events: int) -> None:
    """Run storms, and print what they saw."""
    done = bound = held = seed = 0
    while done < events:
        for policy in POLICIES:
            for workers in range(1, 9):
                storm = IdleStorm(seed, policy, workers)
                storm.run(500)
                storm.calm()
                done, bound, seed = done + 500, bound + storm.bound, seed + 1
                held += storm.dispatcher.snapshot()["fallback_total"].get("held", 0)
        print(
            f"{done:,} events: after {bound:,} a request waited though slots were free, never beside an idle worker that "
            f"could take it; in {held:,} rounds the policy held such a request",
            flush=True,
        )


if __name__ == "__main__":
    main(int(sys.argv[1]))
