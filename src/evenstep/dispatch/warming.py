"""Loads compiled parts before the first request; the first call of each takes up to seconds."""

from __future__ import annotations

from typing import Any

from evenstep.dispatch import events as ev
from evenstep.dispatch.commands import SendDecode
from evenstep.dispatch.core import Dispatcher
from evenstep.dispatch.settings import Settings, WorkerSpec

_REQUESTS = 1500  # enough for the predictors' first buckets and first growth, and more than a window shows
_TOKENS = 30
_LONG = 2100  # tokens of one answer: more than a predictor first has room for


def warm(policy: str, predictor: str = "") -> None:
    """Run made-up requests through a dispatcher of its own, so that every compiled part for these two is loaded.

    It takes seconds at first; nothing is kept but the compiled code. `policy` and `predictor` are as for a `Dispatcher`.

    Raises:
        InputError: an unknown or invalid policy, predictor or option.
    """
    found = Settings(ttl_s=1e9, pool_window=64, round_slots=16)
    fleet = _Fleet(Dispatcher(policy, predictor=predictor, settings=found, stopwatch=lambda: 0.0))
    for name, group in (("a", "one"), ("b", "one"), ("c", "")):
        spec = WorkerSpec(name=name, group=group, slots=400, kv_tokens=10**7)
        fleet.tell(ev.WorkerAdded(now_s=0.0, spec=spec))
        fleet.tell(ev.Sampled(now_s=0.0, worker=name, running=0, waiting=0, kv_used=0.0))
    for request in range(_REQUESTS):
        key, blocks = request % 2 * (1 + request % 5), (1, 2 + request % 5)
        facts: dict[str, Any] = {"key": key, "blocks": blocks, "request_class": request % 2, "expected_tokens": request % 3}
        fleet.tell(ev.Arrived(now_s=0.0, request=request, prompt_tokens=1 + request, **facts))
    if (ahead := fleet.dispatcher.parts.deciding.ahead) is not None:
        ahead.ended(_REQUESTS, 1, _LONG, 0)
    has_left = False
    for step in range(1, 20 * _REQUESTS):
        if not fleet.dispatcher.rows.by_request:
            return
        fleet.step(0.01 * step)
        has_left = has_left or fleet.leave(0.01 * step)


class _Fleet:
    """Simulated engines that answer every request with a few tokens."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self.dispatcher = dispatcher
        self.running: dict[int, tuple[SendDecode, int]] = {}  # request -> command, tokens so far

    def tell(self, event: ev.Event) -> None:
        """Give an event to the dispatcher; the requests that it sends begin to run."""
        for command in self.dispatcher.handle(event):
            if isinstance(command, SendDecode):
                self.running[command.request] = command, 0

    def leave(self, now_s: float) -> bool:
        """Let the client of one request with a token or more leave; returns whether there was such a request."""
        for request, (_, tokens) in self.running.items():
            if tokens:
                del self.running[request]
                self.tell(ev.ClientGone(now_s=now_s, request=request))
                return True
        return False

    def step(self, now_s: float) -> None:
        """Deliver a chunk of every running request, end those with all tokens, and send ticks until no decision is due."""
        self.dispatcher.now_s = now_s
        for request, (command, tokens) in list(self.running.items()):
            self.dispatcher.produced(command.row, 1)
            self.running[request] = command, tokens + 1
            if tokens + 1 == 3 + request % _TOKENS:
                del self.running[request]
                self.tell(ev.Finished(now_s=now_s, request=request, leg=command.leg))
        self.tell(ev.Tick(now_s=now_s))
        while self.dispatcher.due:
            self.tell(ev.Tick(now_s=now_s))
