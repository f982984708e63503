"""Short words for stories about a dispatcher."""

from __future__ import annotations

from typing import Any

from evenstep.dispatch import commands as co
from evenstep.dispatch import events as ev
from evenstep.dispatch.core import Dispatcher
from evenstep.dispatch.settings import Settings, WorkerSpec


class Story:
    """A dispatcher, told things at times that go on by themselves; every answer without its `WakeAt`."""

    def __init__(self, policy: str = "jsq:ties=lowest", **options: Any) -> None:
        names = {"predictor", "log", "stopwatch", "processor"}
        own = {name: options.pop(name) for name in names & options.keys()}
        self.d = Dispatcher(policy, settings=Settings(**{"gather_ms": 0.0, **options}), **own)
        self.now_s = 0.0
        self.wake_s = float("inf")

    def tell(self, kind: type, /, at: float | None = None, **fields: Any) -> list[co.Command]:
        self.now_s = self.now_s if at is None else at
        told = self.d.handle(kind(now_s=self.now_s, **fields))
        self.d.check()
        self.wake_s = next((c.at_s for c in told if isinstance(c, co.WakeAt)), self.wake_s)
        return [c for c in told if not isinstance(c, co.WakeAt)]

    def worker(self, name: str, *, heard: bool = True, **fields: Any) -> list[co.Command]:
        told = self.tell(ev.WorkerAdded, spec=WorkerSpec(name=name, **{"slots": 2, **fields}))
        return told + (self.sampled(name, kv_used=0.0) if heard else [])

    def sampled(self, name: str, running: int = 0, kv_used: float = 0.0, **fields: Any) -> list[co.Command]:
        return self.tell(ev.Sampled, worker=name, running=running, waiting=0, kv_used=kv_used, **fields)

    def arrives(self, request: int, prompt_tokens: int = 10, **fields: Any) -> list[co.Command]:
        return self.tell(ev.Arrived, request=request, prompt_tokens=prompt_tokens, **fields)

    def tick(self, at: float | None = None) -> list[co.Command]:
        return self.tell(ev.Tick, at=at)

    def sent(self, request: int, **fields: Any) -> co.SendDecode:
        """A request that arrives and is sent at once."""
        self.arrives(request, **fields)
        (command,) = [c for c in self.tick() if isinstance(c, co.SendDecode)]
        return command

    def chunk(self, row: int, tokens: int = 1) -> None:
        self.d.now_s = self.now_s
        self.d.produced(row, tokens)
        self.d.check()

    def fails(self, leg: Any, kind: str, **fields: Any) -> list[co.Command]:
        return self.tell(ev.Failed, request=leg.request, leg=leg.leg, kind=kind, **fields)

    def finishes(self, leg: Any) -> list[co.Command]:
        return self.tell(ev.Finished, request=leg.request, leg=leg.leg)
