"""Fills one batch in plain Python, for policies that are written as ``form_batch(view)``.

A policy goes through requests in its own order and gives each its tokens. `Filling` runs the functions of
`scheduling.batch`, of which rules are made, as plain Python: they count budget, seats, memory, places and evictions.
"""

from __future__ import annotations

import math
from operator import attrgetter
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from evenstep.compiled import as_plain
from evenstep.request import I8
from evenstep.scheduling import batch
from evenstep.scheduling.view import UNLIMITED, BatchDecision, EngineView, RuleView

_opened, _grows, _most, _give, _offer = map(as_plain, (batch.opened, batch.grows, batch.most, batch.give, batch.offer))
_admit, _take_back, _drop_empty, _evict = map(as_plain, (batch.admit, batch.take_back, batch.drop_empty, batch.evict))
_known = [name for name in RuleView._fields if name not in ("running", "waiting")]
_facts, _columns = attrgetter(*_known[:11]), attrgetter(*_known[11:])


def rule_view(view: EngineView) -> RuleView:
    """Convert a view to a `RuleView`, in which a request's row is its position. Arrays are shared, not copied."""
    rows, running = np.arange(view.left.size), int(np.count_nonzero(view.running))
    return RuleView._make([*_facts(view), rows[:running], rows[running:], *_columns(view)])


def batch_of(view: RuleView) -> batch.Batch:
    """Make an empty batch with the view's limits and no policy memory. Its counts are lists, faster in plain Python."""
    many, counts = view.left.size, cast("list[Any]", [[0] for _ in range(7)])
    zeros = np.zeros((3, many), np.int64)
    found = batch.Batch(zeros[0], zeros[1], zeros[2, : view.running.size], np.zeros(0, np.int64), *counts)
    _opened(view, found)
    return found


def _left(name: str) -> Any:
    """Make a read-only property of `Filling` that shows a limit left in its batch, by name, as an int."""
    return property(lambda filling: int(getattr(filling.batch, name)[0]))


class Filling:
    """One batch to be filled for one view, empty at first. A request is named by its position in the view.

    Attributes:
        running: number of requests that hold memory; they have the positions 0 .. running - 1.
        budget, seats: tokens and requests that the batch may still run.
        free: KV tokens of memory that are still free, after the batch so far.
        places: requests without memory that may still get some (`resident_limit`).
    """

    budget, seats, free, places = (_left(name) for name in ("budget", "seats", "free", "places"))

    def __init__(self, view: EngineView) -> None:
        self.view, self.rows = view, rule_view(view)
        self.batch = batch_of(self.rows)
        self.running = self.rows.running.size

    @property
    def tokens(self) -> I8:
        """int64[N], the tokens that the batch runs of each request so far, mostly 0; a new array."""
        found, given = np.zeros(self.view.left.size, np.int64), int(self.batch.given[0])
        found[self.batch.picked[:given]] = self.batch.tokens[:given]
        return found

    @property
    def evicted(self) -> NDArray[np.bool_]:
        """bool[N], true for requests evicted so far; a new array."""
        found = np.zeros(self.view.left.size, np.bool_)
        found[self.batch.evicted[: int(self.batch.gone[0])]] = True
        return found

    def grows(self, request: int, tokens: int) -> int:
        """KV tokens of memory, in whole blocks, that a request needs beyond what it holds to run `tokens` more."""
        return int(_grows(self.rows, request, tokens))

    def most(self, request: int) -> int:
        """The tokens a request has left, at most `budget`; 0 without a seat or a place. Free memory is not checked."""
        return int(_most(self.rows, self.batch, request))

    def give(self, request: int, tokens: int) -> None:
        """Add `tokens` of a request to the batch, and lower the limits. The caller has checked that they fit."""
        _give(self.rows, self.batch, request, request, tokens)

    def offer(self, request: int, reserve: int = 0) -> bool:
        """Run all that `most` allows if `reserve` KV tokens stay free, else nothing; returns whether the request runs."""
        return _offer(self.rows, self.batch, request, request, reserve)

    def admit(self, request: int, reserve: int = 0) -> bool:
        """Run what `most` allows if the whole prefill leaves `reserve` KV tokens free; returns whether the request runs."""
        return _admit(self.rows, self.batch, request, request, reserve)

    def take_back(self, request: int) -> None:
        """Take a request's tokens out of the batch, and raise the limits by what they took."""
        _take_back(self.rows, self.batch, request, request)
        _drop_empty(self.batch)

    def evict(self, request: int) -> None:
        """Evict a running request, and take its tokens out of the batch; its memory and place are free at once."""
        _evict(self.rows, self.batch, request)

    def decision(self, memory: I8 | None = None, wake_s: float = math.inf) -> BatchDecision:
        """The answer with this batch, words of `memory` to keep (None = those of the view), and `BatchDecision.wake_s`."""
        return BatchDecision(self.tokens, self.evicted, self.view.memory if memory is None else memory, wake_s)


def run_or_evict(filling: Filling, request: int, most: int = UNLIMITED) -> None:
    """Run up to `most` tokens of a running request; while they do not fit the memory, evict the request admitted last.

    In the end that may be `request` itself. Nothing happens if it is evicted already. Unlike the function in
    `scheduling.eviction`, this one also works after the policy has evicted other requests than the last ones.
    """
    while not filling.evicted[request]:
        tokens = min(filling.most(request), most)
        if tokens <= 0:
            return
        if filling.grows(request, tokens) <= filling.free:
            filling.give(request, tokens)
            return
        filling.evict(int(np.flatnonzero(~filling.evicted[: filling.running])[-1]))
