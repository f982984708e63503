"""Filling one batch, for policies that are written as ``form_batch(view)`` in plain Python.

A policy walks over requests in its own order and gives each its tokens. `Filling` keeps count of budget, batch limit and
memory, of places for requests that hold memory, and of evicted requests. Rules use `scheduling.batch` in its place.
"""

from __future__ import annotations

import math

import numpy as np

from evenstep.request import I8
from evenstep.scheduling.view import UNLIMITED, BatchDecision, EngineView


class Filling:
    """One batch being filled. Positions are the view's."""

    def __init__(self, view: EngineView) -> None:
        self.view = view
        self.tokens: I8 = np.zeros(view.left.size, np.int64)
        self.evicted = np.zeros(view.left.size, np.bool_)
        self.budget = view.token_budget
        self.seats = view.batch_limit
        self.free = view.kv_free
        self.running = int(view.running.sum())
        self.places = view.resident_limit - self.running

    def grows(self, request: int, tokens: int) -> int:
        """KV tokens of memory that running `tokens` more of a request takes."""
        return self.view.held_after(request, tokens) - int(self.view.resident[request])

    def most(self, request: int) -> int:
        """Tokens of a request that budget, seats and places in memory allow."""
        if self.seats <= 0 or (self.joins(request) and self.places <= 0):
            return 0
        return min(int(self.view.left[request]), self.budget)

    def joins(self, request: int) -> bool:
        """Whether a request holds no memory yet, so that it needs a place among those that do."""
        return bool(self.view.resident[request] == 0)

    def give(self, request: int, tokens: int) -> None:
        """Add `tokens` of a request to the batch. The caller has checked that they fit."""
        self.tokens[request] = tokens
        self.budget -= tokens
        self.seats -= 1
        self.places -= self.joins(request)
        self.free -= self.grows(request, tokens)

    def offer(self, request: int, reserve: int = 0) -> bool:
        """Run as much of a request as the budget allows, if `reserve` KV tokens of memory remain free.

        Returns:
            Whether it runs.
        """
        tokens = self.most(request)
        if tokens < 1 or self.grows(request, tokens) > self.free - reserve:
            return False
        self.give(request, tokens)
        return True

    def admit(self, request: int, reserve: int = 0) -> bool:
        """`offer`, if memory holds the request's whole prefill and `reserve` more, not only the chunk that runs now."""
        if self.grows(request, int(self.view.left[request])) > self.free - reserve:
            return False
        return self.offer(request)

    def take_back(self, request: int) -> None:
        """Take back the tokens that the batch has given to a request."""
        given = int(self.tokens[request])
        self.free += self.grows(request, given)
        self.budget += given
        self.seats += 1
        self.places += self.joins(request)
        self.tokens[request] = 0

    def evict(self, request: int) -> None:
        """Evict a running request, and take back its tokens."""
        if self.tokens[request]:
            self.take_back(request)
        self.evicted[request] = True
        self.places += 1
        self.free += int(self.view.resident[request])

    def decision(self, memory: I8 | None = None, wake_s: float = math.inf) -> BatchDecision:
        return BatchDecision(self.tokens, self.evicted, self.view.memory if memory is None else memory, wake_s)


def run_or_evict(filling: Filling, request: int, most: int = UNLIMITED) -> None:
    """Run up to `most` tokens of a running request; while they do not fit, evict the one admitted last."""
    if filling.evicted[request]:
        return
    tokens = min(filling.most(request), most)
    while tokens > 0 and filling.grows(request, tokens) > filling.free:
        victim = max(k for k in range(filling.running) if not filling.evicted[k])
        filling.evict(victim)
        if victim == request:
            return
        tokens = min(filling.most(request), most)
    if tokens > 0:
        filling.give(request, tokens)
