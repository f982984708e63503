"""BR-0 and BR-H once more, with arrays and sorts in place of scans: slow, and with every option."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tests.oracles.f_score import (
    ENUMERATED,
    FScore,
    best_by_bits,
    best_enumerated,
    best_single,
    fitting,
    largest,
)

from evenstep.request import F8, I8
from evenstep.routing.policies.br_0 import BR0
from evenstep.routing.policies.br_h import BRH
from evenstep.routing.view import HOLD, RoutingDecision, RoutingView


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """What BR-0 and BR-H differ in, and their options.

    Args:
        weights: float64[H+1], discount of each step.
        reward: slope of the score below all margins.
        penalty: what a token over the envelope costs a step; None = size of the worker's group.
        stage_two_below: free slots down to which stage 1 runs; None = number of workers.
        candidates: requests a subset is chosen from.
        fit: candidates around the score's peak; else the largest.
        margin_first: workers ordered by (margin, free slots); else by (free slots, margin).
        bits: subsets by reachable sums; else enumerated.
        age_limit: multiple of the mean wait after which a request is overdue; 0 = never.
        one_by_one: place every request by itself, oldest first (pool bypass).
        ties_by_margin: equal scores of a request placed by itself go to the widest margin; else to the most free slots.
    """

    weights: F8
    reward: float
    penalty: float | None
    stage_two_below: float | None
    candidates: int
    fit: bool
    margin_first: bool
    bits: bool
    age_limit: float
    one_by_one: bool
    ties_by_margin: bool


def rule_of(policy: BR0 | BRH) -> Rule:
    """The rule of a policy."""
    weights, steps, by_margin = discounts(policy.discount, policy.horizon), 1.0, policy.order == "margin"
    if isinstance(policy, BRH) and policy.score == "marginal":
        steps = float(np.cumsum(weights)[-1])
    is_bypass = isinstance(policy, BR0) and policy.bypass
    return Rule(
        weights=weights,
        reward=policy.reward * steps,
        penalty=policy.penalty,
        stage_two_below=policy.stage_two_below,
        candidates=policy.candidates,
        fit=policy.pick == "fit",
        margin_first=by_margin,
        bits=policy.solver == "bitset",
        age_limit=policy.age_limit,
        one_by_one=is_bypass,
        ties_by_margin=policy.ties == "margin" if is_bypass else by_margin,
    )


def discounts(discount: float, horizon: int) -> F8:
    """float64[H+1], powers of the discount by repeated multiplication."""
    weights = np.ones(horizon + 1)
    for h in range(1, horizon + 1):
        weights[h] = weights[h - 1] * discount
    return weights


class Filling:
    """The room left on every worker, and the answer so far, of one decision."""

    def __init__(self, view: RoutingView) -> None:
        self.free_slots: I8 = view.free_slots.copy()
        self.kv_free: F8 = view.kv_free.copy()
        self.worker: I8 = np.full(view.waiting_id.size, HOLD, np.int64)
        self._waiting_load = view.waiting_load

    def open_to(self, request: int) -> I8:
        """int64[n], workers with a slot and the KV memory for a waiting request, in index order."""
        return np.flatnonzero((self.free_slots > 0) & (self.kv_free >= self._waiting_load[request]))

    def send(self, request: int, worker: int) -> None:
        self.worker[request] = worker
        self.free_slots[worker] -= 1
        self.kv_free[worker] -= self._waiting_load[request]

    def decision(self) -> RoutingDecision:
        return RoutingDecision(self.worker)


class _Round:
    """One decision under way: projected loads, their envelopes, and the room left."""

    def __init__(self, view: RoutingView, rule: Rule) -> None:
        self.rule, self.size, self.group = rule, view.waiting_load, view.group
        self.filling = Filling(view)
        H = rule.weights.size - 1
        running = view.projections if H else view.load[:, None]
        self.load: F8 = running + view.queued_load[:, None]
        self.group_size = np.bincount(view.group)
        self.envelope = np.zeros((self.group_size.size, H + 1))
        np.maximum.at(self.envelope, view.group, self.load)
        self.pool: list[int] = list(range(view.waiting_id.size))

    def score(self, g: int) -> FScore:
        penalty = self.rule.penalty
        if penalty is None:
            penalty = float(self.group_size[self.group[g]])
        return FScore(self.margins(g), self.rule.weights, self.rule.reward, penalty)

    def margins(self, g: int) -> F8:
        return self.envelope[self.group[g]] - self.load[g]

    def margin(self, g: int) -> float:
        return float(self.margins(g).min())

    def fits(self, g: int) -> I8:
        """int64[n], rows of the pool whose KV memory worker g still has, oldest first."""
        rows = np.array(self.pool, np.int64)
        return rows[self.size[rows] <= self.filling.kv_free[g]]

    def admit(self, g: int, rows: list[int], tokens: float) -> None:
        for row in rows:
            self.filling.send(row, g)
            self.pool.remove(row)
        self.load[g] += tokens
        group = self.group[g]
        self.envelope[group] = np.maximum(self.envelope[group], self.load[g])


def overdue(view: RoutingView, age_limit: float) -> int:
    """How many of the oldest requests waited more than `age_limit` times the mean wait and go first."""
    if not (age_limit > 0 and view.mean_wait_s > 0):
        return 0
    late = view.waited_s > age_limit * view.mean_wait_s
    count = int(np.argmin(late)) if not late.all() else int(late.size)
    return min(count, max(1, int(view.free_slots.sum()) // 4))


def route(policy: BR0 | BRH, view: RoutingView) -> RoutingDecision:
    """Overdue requests first, each by itself; then stage 1 while slots abound; then stage 2.

    Source: BalanceRoute Algs. 2 and 3, App. D.6 (`one_by_one`).
    """
    rule = rule_of(policy)
    now = _Round(view, rule)
    alone = len(now.pool) if rule.one_by_one else overdue(view, rule.age_limit)
    for row in range(alone):
        _place_by_itself(now, row)
    _stage_one(now)
    _stage_two(now)
    return now.filling.decision()


def _place_by_itself(now: _Round, row: int) -> None:
    """To the worker of largest score; it leaves the pool even when it fits nowhere, and is then held."""
    size = float(now.size[row])

    def rank(g: int) -> tuple[float, ...]:
        ties = (now.margin(g),) if now.rule.ties_by_margin else (float(now.filling.free_slots[g]), now.margin(g))
        return (float(now.score(g).of(size)), *ties, -g)

    workers = now.filling.open_to(row).tolist()
    if workers:
        now.admit(max(workers, key=rank), [row], size)
    else:
        now.pool.remove(row)


def _stage_one(now: _Round) -> None:
    """While slots abound: the worker with most room gets the one request of largest score."""
    free_slots = now.filling.free_slots
    threshold = now.rule.stage_two_below
    if threshold is None:
        threshold = float(free_slots.size)

    def rank(g: int) -> tuple[float, ...]:
        if now.rule.margin_first:
            return (now.margin(g), float(free_slots[g]), -g)
        return (float(free_slots[g]), -float(now.load[g, 0]), -g)

    while now.pool and free_slots.sum() > threshold:
        workers = np.flatnonzero(free_slots > 0).tolist()
        if not workers:
            return
        g = max(workers, key=rank)
        rows = now.fits(g)
        if rows.size:
            row = best_single(now.score(g), now.size, rows)
            now.admit(g, [row], float(now.size[row]))
        else:
            free_slots[g] = 0  # no KV memory for any of the pool: no slot either


def _stage_two(now: _Round) -> None:
    """Scarce slots: a queue of workers; each gets the subset of candidates of largest score, and queues again."""
    free_slots = now.filling.free_slots

    def rank(g: int) -> tuple[float, ...]:
        key = (now.margin(g), float(free_slots[g])) if now.rule.margin_first else (float(free_slots[g]), now.margin(g))
        return (*key, -g)

    queue = {g: rank(g) for g in np.flatnonzero(free_slots > 0).tolist()}
    while now.pool and queue:
        if now.rule.margin_first:  # an envelope that rose since has widened margins
            queue = {g: rank(g) for g in queue}
        g = max(queue, key=lambda worker: queue[worker])
        del queue[g]
        rows = now.fits(g)
        if rows.size:
            now.admit(g, *_subset(now, g, rows))
            if free_slots[g] > 0:
                queue[g] = rank(g)


def _subset(now: _Round, g: int, rows: I8) -> tuple[list[int], float]:
    """The best subset of the candidates; if that is worth nothing, the best single request of the pool."""
    rule, size, score = now.rule, now.size, now.score(g)
    slots, kv_free = int(now.filling.free_slots[g]), float(now.filling.kv_free[g])
    candidates = fitting(score, size, rows, rule.candidates) if rule.fit else largest(size, rows, rule.candidates)
    if slots == 1:
        row = best_single(score, size, np.sort(candidates))
        chosen, tokens, value = [row], float(size[row]), float(score.of(size[row]))
    else:
        slots = min(slots, candidates.size)
        whole = bool(np.all(size[candidates] == np.floor(size[candidates])))
        if rule.bits and whole:
            found, tokens, value = best_by_bits(score, size, candidates, slots, kv_free)
        else:  # reachable sums need whole sizes
            found, tokens, value = best_enumerated(score, size, candidates[:ENUMERATED], slots, kv_free)
        chosen = found.tolist()
    if value > 0:
        return chosen, tokens
    row = best_single(score, size, rows)
    return [row], float(size[row])
