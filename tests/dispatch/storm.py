"""A host that does everything a host may do, at random, and believes nothing: it checks each command against its own books."""

from __future__ import annotations

import random
from typing import Any, get_args

from evenstep.dispatch import commands as co
from evenstep.dispatch import events as ev
from evenstep.dispatch.core import Dispatcher
from evenstep.dispatch.settings import Order, Settings, TenantLimits, WorkerSpec

POLICIES = (
    "br-0",
    "jsq",
    "bf-io:horizon=4",
    "br-h:horizon=6",
    "round-robin",
    "br-0:bypass=true",
    "prefix-affinity",
    "best:horizon=4",
)
MOST_RETRIES = 3


class Storm:
    """Random events to a dispatcher, from one seed.

    Args:
        seed: of everything.
        split: with prefillers.
        log: of the dispatcher.
    """

    kinds = ("connect", "status", "stream", "stall", "client", "recomputed", "unable")

    def __init__(self, seed: int, split: bool = False, log: Any = None, policy: str | None = None) -> None:
        self.random = random.Random(seed)
        self.seed, self.reloads = seed, 0
        self.ttl_s, self.total_s = self.drawn("ttl_s", 0.5, 5.0), self.drawn("total_s", 0.0, 2.0, 3600.0)
        self.settings = self.rules()
        self.policy = policy or self.drawn("policy", *POLICIES)
        self.dispatcher = Dispatcher(self.policy, settings=self.settings, log=log)
        self.now_s, self.requests, self.workers_made = 0.0, 0, 0
        self.specs: dict[str, WorkerSpec] = {}
        self.most: dict[str, int] = {}  # slots a worker ever had: what runs there stays
        self.leaving: set[str] = set()
        self.alive: dict[int, float] = {}  # request -> since when it may be waiting
        self.born: dict[int, float] = {}
        self.asked: dict[int, int] = {}  # decode legs by request, less those handed back with a new token
        self.fruits: set[int] = set()  # requests whose leg has brought a token
        self.copies: dict[int, int] = {}
        self.prefilling: dict[int, tuple[int, str]] = {}
        self.kept: dict[int, str] = {}  # request -> prefiller with its KV
        self.decoding: dict[int, tuple[int, str, int]] = {}  # request -> leg, worker, row
        self.told: dict[int, int] = {}  # tokens by request
        self.ended: dict[int, str] = {}
        self.bypassed = "bypass" in self.policy
        for _ in range(self.random.randint(1, 3)):
            self.add("decode")
        for _ in range(self.random.randint(1, 2) if split else 0):
            self.add("prefill")

    def rules(self) -> Settings:
        """Any settings, but for what the books here count on."""
        self.reloads += 1
        return Settings(
            ttl_s=self.ttl_s,
            pool_limit=self.drawn("pool_limit", 3, 30),
            gather_ms=self.drawn("gather_ms", 0.0, 2.0),
            tenants={"b": TenantLimits(concurrent=4, per_s=50.0)},
            retries=self.drawn("retries", *range(MOST_RETRIES + 1)),
            stale_s=1.0,
            order=self.drawn("order", *get_args(Order)),
            policy_cooldown_s=0.3,
            gateways=self.drawn("gateways", 0, 0, 2),
            bypass_margin=1,
            prefix_blocks=8,
            round_slots=self.drawn("round_slots", 0, 1, 3),
            pool_window=self.drawn("pool_window", 0, 1, 4),
            kv_reserve=self.drawn("kv_reserve", None, 0.0, 30.0),
            breaker_failures=self.drawn("breaker_failures", 1, 3),
            total_s=self.total_s,
        )

    def drawn(self, option: str, *values: Any) -> Any:
        """A value of an option, from a generator of its own: a new option leaves all other draws as they are."""
        return random.Random(f"{self.seed}:{self.reloads}:{option}").choice(values)

    # --- what a host does with commands

    def tell(self, event: Any) -> None:
        for command in self.dispatcher.handle(event):
            getattr(self, f"on_{type(command).__name__.lower()}")(command)
        self.dispatcher.check()
        for name, spec in self.specs.items():
            busy = sum(self.copies[r] for r, (_, at, _) in self.decoding.items() if at == name)
            assert busy <= max(spec.slots, self.most[name]) + self.bypassed, (name, busy)

    def on_sendprefill(self, c: co.SendPrefill) -> None:
        assert c.request in self.alive and c.request not in self.prefilling and c.request not in self.decoding
        assert self.specs[c.worker].role == "prefill"  # it may have been told to leave between a chunk and this answer
        self.prefilling[c.request] = c.leg, c.worker
        self.alive[c.request] = float("inf")

    def on_senddecode(self, c: co.SendDecode) -> None:
        assert c.request in self.alive and c.request not in self.prefilling and c.request not in self.decoding
        assert self.specs[c.worker].role == "decode" and c.worker not in self.leaving
        assert self.told[c.request] == getattr(c, "produced", 0)
        self.decoding[c.request] = c.leg, c.worker, c.row
        self.alive[c.request] = float("inf")
        self.asked[c.request] += 1
        self.fruits.discard(c.request)
        assert self.asked[c.request] <= 1 + MOST_RETRIES

    def on_continue(self, c: co.Continue) -> None:
        assert c.produced > 0
        self.on_senddecode(c)  # type: ignore[arg-type]

    def on_abort(self, c: co.Abort) -> None:
        leg = self.prefilling.pop(c.request, None) or self.decoding.pop(c.request)[:2]
        assert leg == (c.leg, c.worker)
        if c.request in self.alive:
            self.alive[c.request] = self.now_s

    def on_release(self, c: co.Release) -> None:
        assert self.kept.pop(c.request) == c.worker

    def end(self, request: int, how: str) -> None:
        assert request not in self.ended and request not in self.prefilling and request not in self.decoding
        self.ended[request] = how
        self.alive.pop(request, None)

    def on_reject(self, c: co.Reject) -> None:
        assert self.told.get(c.request, 0) == 0
        self.end(c.request, f"rejected {c.reason}")

    def on_fail(self, c: co.Fail) -> None:
        assert self.told[c.request] > 0
        self.end(c.request, f"failed {c.reason}")

    def on_removed(self, c: co.Removed) -> None:
        assert c.worker in self.leaving
        assert all(at != c.worker for _, at, _ in self.decoding.values())
        self.leaving.discard(c.worker)
        del self.specs[c.worker]

    def on_probe(self, c: co.Probe) -> None:
        self.later = getattr(self, "later", [])
        self.later.append(c.worker)

    def on_wakeat(self, c: co.WakeAt) -> None:
        assert c.at_s >= self.now_s

    def on_notice(self, c: co.Notice) -> None:
        assert c.text

    # --- what happens

    def add(self, role: str) -> None:
        self.workers_made += 1
        name = f"{role[0]}{self.workers_made}"
        group = self.random.choice(["", "x", "y"]) if role == "decode" else ""
        spec = WorkerSpec(
            name=name,
            group=group,
            slots=self.random.randint(1, 4),
            role=role,  # type: ignore[arg-type]
            kv_tokens=self.random.choice([0, 400]),
        )
        self.specs[name], self.most[name] = spec, spec.slots
        self.tell(ev.WorkerAdded(now_s=self.now_s, spec=spec))
        self.sample(name)

    def describe_anew(self, name: str) -> None:
        """The operator changes a worker, or keeps one that was to leave."""
        old = self.specs[name]
        group = self.random.choice(["", "x", "y"]) if old.role == "decode" else ""
        spec = WorkerSpec(
            name=name,
            group=group,
            slots=self.random.randint(1, 4),
            role=old.role,
            speed=self.random.choice([1.0, 2.0]),
            kv_tokens=old.kv_tokens,
        )
        self.specs[name], self.most[name] = spec, max(self.most[name], spec.slots)
        self.leaving.discard(name)
        self.tell(ev.WorkerAdded(now_s=self.now_s, spec=spec))

    def sample(self, name: str) -> None:
        running = sum(self.copies[r] for r, (_, at, _) in self.decoding.items() if at == name)
        running += self.random.choice([0, 0, 0, 1]) - self.random.choice([0, 0, 0, 1]) * (running > 0)
        used = self.random.choice([0.1, 0.3, 0.95])
        if self.random.random() < 0.5:
            self.tell(ev.Sampling(now_s=self.now_s, worker=name))
        self.tell(
            ev.Sampled(
                now_s=self.now_s,
                worker=name,
                running=running,
                waiting=0,
                kv_used=used,
                kv_tokens=1000,
                prefix_queried=30 * self.requests,
                prefix_hit=self.requests,
            )
        )

    def arrive(self) -> None:
        self.requests += 1
        r = self.requests
        self.alive[r], self.told[r], self.copies[r] = self.now_s, 0, self.random.choice([1, 1, 1, 1, 2, 3])
        self.born[r], self.asked[r] = self.now_s, 0
        self.tell(
            ev.Arrived(
                now_s=self.now_s,
                request=r,
                prompt_tokens=self.random.choice([1, 7, 40, 500]),
                tenant=self.random.choice("ab"),
                key=self.random.randint(0, 3),
                copies=self.copies[r],
                session=self.random.randint(0, 3),
                task=r % 5,
                priority=float(r % 3),
                max_tokens=self.random.choice([0, 5]),
                expected_tokens=self.random.randint(0, 9),
                can_continue=self.random.random() < 0.7,
                blocks=self.blocks(),
            )
        )

    def blocks(self) -> tuple[int, ...]:
        """A path down a tree of prompts: each id stands for all before it."""
        path = [0]
        for _ in range(self.random.randint(0, 4)):
            path.append(3 * path[-1] + self.random.randint(1, 3))
        return tuple(path[1:])

    def chunk(self, request: int) -> None:
        tokens = self.random.choice([1, 1, 1, 2, 5])
        self.told[request] += tokens
        self.fruits.add(request)
        self.kept.pop(request, None)
        self.dispatcher.now_s = self.now_s
        self.dispatcher.produced(self.decoding[request][2], tokens)

    def finish(self, request: int) -> None:
        leg, _, _ = self.decoding.pop(request)
        self.kept.pop(request, None)
        del self.alive[request]
        self.tell(ev.Finished(now_s=self.now_s, request=request, leg=leg))
        self.end(request, "finished")

    def fail(self, request: int) -> None:
        is_decoding = request in self.decoding
        leg = (self.decoding if is_decoding else self.prefilling).pop(request)[0]
        self.alive[request] = self.now_s
        kind = self.random.choice(self.kinds)
        if is_decoding and (kind == "unable" or (kind == "recomputed" and request in self.fruits)):
            self.asked[request] -= 1  # it was not asked at all, or brought the answer on
        self.tell(ev.Failed(now_s=self.now_s, request=request, leg=leg, kind=kind))  # type: ignore[arg-type]

    def prefilled(self, request: int) -> None:
        leg, name = self.prefilling.pop(request)
        self.kept[request] = name
        self.alive[request] = self.now_s
        self.tell(ev.PrefillDone(now_s=self.now_s, request=request, leg=leg, prompt_tokens=self.random.choice([0, 11])))

    def leave(self, request: int) -> None:
        if request in self.ended:
            return
        self.tell(ev.ClientGone(now_s=self.now_s, request=request))
        assert request not in self.prefilling and request not in self.decoding
        self.end(request, "gone")

    def tick(self, seconds: float) -> None:
        self.now_s += seconds
        self.tell(ev.Tick(now_s=self.now_s))
        for request, since in self.alive.items():
            age_s = self.now_s - self.born[request]
            assert not self.total_s or age_s < self.total_s, f"request {request} is {age_s} s old"
            if request not in self.decoding and request not in self.prefilling:
                assert since + self.ttl_s + 1.1 >= self.now_s, f"request {request} waits since {since}, it is {self.now_s}"

    def step(self) -> None:
        """One random thing."""
        pick, choice = self.random.random(), self.random.choice
        if pick < 0.25:
            self.arrive()
        elif pick < 0.55 and self.decoding:
            for request in self.random.sample(sorted(self.decoding), self.random.randint(1, len(self.decoding))):
                self.chunk(request)
            self.dispatcher.check()
        elif pick < 0.65 and self.decoding:
            self.finish(choice(sorted(self.decoding)))
        elif pick < 0.72 and self.prefilling:
            self.prefilled(choice(sorted(self.prefilling)))
        elif pick < 0.77 and self.decoding | self.prefilling:
            self.fail(choice(sorted(self.decoding | self.prefilling)))
        elif pick < 0.81 and self.alive:
            self.leave(choice(sorted(self.alive)))
        elif pick < 0.86 and self.specs:
            self.sample(choice(sorted(self.specs)))
        elif pick < 0.87 and self.specs:
            self.tell(ev.ScrapeFailed(now_s=self.now_s, worker=choice(sorted(self.specs))))
        elif pick < 0.88 and len(self.specs) < 6:
            self.add(choice(["decode", "prefill"] if self.dispatcher.fleet.is_split else ["decode"]))
        elif pick < 0.89 and self.specs:
            self.remove(choice(sorted(self.specs)))
        elif pick < 0.90 and self.specs:
            self.tell(ev.Probed(now_s=self.now_s, worker=choice(sorted(self.specs)), ok=self.random.random() < 0.7))
        elif pick < 0.91:
            policy = choice(POLICIES)
            self.bypassed |= "bypass" in policy
            self.tell(ev.Reloaded(now_s=self.now_s, policy=policy, predictor=choice(["", "survival"])))
        elif pick < 0.915:
            self.tell(ev.Reloaded(now_s=self.now_s, settings=self.rules()))
        elif pick < 0.92 and self.specs:
            self.describe_anew(choice(sorted(self.specs)))
        elif pick < 0.93 and self.alive:
            self.tell(ev.PromptCounted(now_s=self.now_s, request=choice(sorted(self.alive)), prompt_tokens=choice([3, 50])))
        else:
            self.tick(choice([0.0, 0.001, 0.01, 0.3, 1.0]))

    def remove(self, name: str) -> None:
        others = [n for n, s in self.specs.items() if s.role == "decode" and n != name and n not in self.leaving]
        if self.specs[name].role == "decode" and not others:
            return
        self.leaving.add(name)
        drain = self.random.random() < 0.5
        self.tell(ev.WorkerRemoved(now_s=self.now_s, worker=name, drain=drain))
        assert drain or name not in self.kept.values()

    def calm(self) -> None:
        """Let everything end: longer than an engine may ask several retries in a row to wait."""
        for _ in range(400):
            if not self.alive and not self.leaving:
                break
            for name in sorted(self.specs):
                self.tell(ev.Probed(now_s=self.now_s, worker=name, ok=True))
                self.tell(ev.Sampled(now_s=self.now_s, worker=name, running=0, waiting=0, kv_used=0.0))
            for request in sorted(self.prefilling):
                self.prefilled(request)
            for request in sorted(self.decoding):
                self.finish(request)
            self.tick(0.1)
        assert not self.alive, self.alive
        assert set(self.ended) == set(range(1, self.requests + 1))
        assert not self.kept and not self.leaving
        shown = self.dispatcher.snapshot()
        assert shown["pool_depth"] == shown["requests_present"] == 0
        assert all(w["worker_kv_tokens"] == 0 and w["worker_active_requests"] == 0 for w in shown["workers"])
        assert not self.dispatcher.fleet.breaker._doubted and not self.dispatcher.parts.exclusions.excluded


class HandingBack(Storm):
    """Engines that mostly hand requests back, with or without a token."""

    kinds = ("recomputed", "recomputed", "recomputed", "unable", "status")

    def step(self) -> None:
        if self.decoding and self.random.random() < 0.3:
            self.fail(self.random.choice(sorted(self.decoding)))
        else:
            super().step()
