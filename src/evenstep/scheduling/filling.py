"""Filling one batch, for policies that are written as ``form_batch(view)`` in plain Python.

A policy walks over requests in its own order and gives each its tokens. `Filling` runs the functions of `scheduling.batch`,
of which rules are made, as plain Python: they count budget, seats, memory, places and evictions.
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
_admit, _take_back, _drop_empty = map(as_plain, (batch.admit, batch.take_back, batch.drop_empty))
_evict, _is_evicted, _give_grown = map(as_plain, (batch.evict, batch.is_evicted, batch.give_grown))
_known = [name for name in RuleView._fields if name not in ("running", "waiting")]
_facts, _columns = attrgetter(*_known[:11]), attrgetter(*_known[11:])


def rule_view(view: EngineView) -> RuleView:
    """A view as a rule sees it: rows are positions."""
    rows, running = np.arange(view.left.size), int(np.count_nonzero(view.running))
    return RuleView._make([*_facts(view), rows[:running], rows[running:], *_columns(view)])


def batch_of(view: RuleView) -> batch.Batch:
    """Make an empty batch with the view's limits. Its counts are lists, which plain Python reads faster than arrays."""
    many, counts = view.left.size, cast("list[Any]", [[0] for _ in range(7)])
    zeros = np.zeros((3, many), np.int64)
    found = batch.Batch(zeros[0], zeros[1], zeros[2, : view.running.size], np.zeros(0, np.int64), *counts)
    _opened(view, found)
    return found


def _left(name: str) -> Any:
    """What is left of a limit, as an attribute."""
    return property(lambda filling: int(getattr(filling.batch, name)[0]))


class Filling:
    """One batch being filled. Positions are the view's.

    Attributes:
        running: number of requests that hold memory; they have the positions 0 .. running - 1.
        budget, seats: tokens and requests that the batch may still run.
        free: KV tokens of memory that are still free.
        places: requests that may still join those that hold memory.
    """

    budget, seats, free, places = (_left(name) for name in ("budget", "seats", "free", "places"))

    def __init__(self, view: EngineView) -> None:
        self.view, self.rows = view, rule_view(view)
        self.batch = batch_of(self.rows)
        self.running = self.rows.running.size

    @property
    def tokens(self) -> I8:
        """int64[N], the tokens that each request has been given."""
        found, given = np.zeros(self.view.left.size, np.int64), int(self.batch.given[0])
        found[self.batch.picked[:given]] = self.batch.tokens[:given]
        return found

    @property
    def evicted(self) -> NDArray[np.bool_]:
        """bool[N], the requests that lose their memory."""
        found = np.zeros(self.view.left.size, np.bool_)
        found[self.batch.evicted[: int(self.batch.gone[0])]] = True
        return found

    def grows(self, request: int, tokens: int) -> int:
        """KV tokens of memory that running `tokens` more of a request takes."""
        return int(_grows(self.rows, request, tokens))

    def most(self, request: int) -> int:
        """Tokens of a request that budget, seats and places in memory allow."""
        return int(_most(self.rows, self.batch, request))

    def give(self, request: int, tokens: int) -> None:
        """Add `tokens` of a request to the batch. The caller has checked that they fit."""
        _give(self.rows, self.batch, request, request, tokens)

    def offer(self, request: int, reserve: int = 0) -> bool:
        """Run as much of a request as the budget allows, if `reserve` KV tokens of memory remain free.

        Returns:
            Whether it runs.
        """
        return _offer(self.rows, self.batch, request, request, reserve)

    def admit(self, request: int, reserve: int = 0) -> bool:
        """`offer`, if memory holds the request's whole prefill and `reserve` more, not only the chunk that runs now."""
        return _admit(self.rows, self.batch, request, request, reserve)

    def take_back(self, request: int) -> None:
        """Take back the tokens that the batch has given to a request."""
        _take_back(self.rows, self.batch, request, request)
        _drop_empty(self.batch)

    def evict(self, request: int) -> None:
        """Evict a running request, and take back its tokens."""
        _evict(self.rows, self.batch, request)

    def decision(self, memory: I8 | None = None, wake_s: float = math.inf) -> BatchDecision:
        """The answer with this batch; without `memory` the view's is kept."""
        return BatchDecision(self.tokens, self.evicted, self.view.memory if memory is None else memory, wake_s)


def run_or_evict(filling: Filling, request: int, most: int = UNLIMITED) -> None:
    """Run up to `most` tokens of a running request; while they do not fit, evict the one admitted last.

    Unlike the function of `scheduling.eviction` it also works after the policy itself has evicted other requests.
    """
    rows, filled = filling.rows, filling.batch
    if _is_evicted(filled, request):
        return
    tokens = min(_most(rows, filled, request), most)
    while tokens > 0:
        taken = _grows(rows, request, tokens)
        if taken <= filled.free[0]:
            _give_grown(rows, filled, request, request, tokens, taken)
            return
        victim = int(np.flatnonzero(~filling.evicted[: filling.running])[-1])
        filling.evict(victim)
        tokens = min(_most(rows, filled, request), most) if victim != request else 0
