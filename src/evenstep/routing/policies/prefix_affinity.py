"""Prefix affinity: requests go to the worker that has most of the prompt cached, while the fleet is balanced."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from evenstep.compiled import part
from evenstep.errors import check_range
from evenstep.routing.filling import count_requests, count_serving, list_open, send
from evenstep.routing.policies.consistent_hash import Work, check_ring, nearest, place_nodes
from evenstep.routing.rules import Ruled, RuleView, rule


@dataclass(frozen=True, slots=True)
class PrefixAffinity(Ruled):
    """The oldest request goes to the worker with the best cached prefix, if the fleet is balanced and the worker has room.

    The load of a worker is its number of requests, running and sent.

    * The fleet is unbalanced when the largest load exceeds the smallest by more than `balance_abs` requests and by more than
      the factor `balance_rel`. Then the request goes to the smallest load. A worker with neither a request nor a free slot
      (lost, ejected) does not count.
    * Otherwise it goes to the worker with most of its prompt cached, if that is more than the share `cached_share` of it.
      Equal prefixes, and all other requests, go to the smallest load (then the lowest index).
    * If caches are unknown, `consistent-hash` chooses by the request's key in place of the prefix.

    Args:
        cached_share: share of a prompt that must be cached for a worker to be chosen for it, 0..1.
        balance_abs: requests by which loads may always differ.
        balance_rel: factor by which loads may differ, >= 1.
        bound: where caches are unknown: how much above its share of requests a worker may get, >= 1.
        virtual_nodes: where caches are unknown: places of each worker on the ring of `consistent-hash`, 1..1024.

    Raises:
        InputError: an option out of range.

    Source: the cache-aware policy of SGLang's router (its docs/router/router.md; same defaults). It sends a request with
    little cached to the smallest prefix tree, which no view shows: here, to the smallest load. It binds a request to a
    worker that is full; here a full worker is left out.
    """

    reads_cached: ClassVar[bool] = True

    cached_share: float = 0.5
    balance_abs: int = 32
    balance_rel: float = 1.0001
    bound: float = 1.25
    virtual_nodes: int = 64

    def __post_init__(self) -> None:
        check_range("prefix-affinity", "a share in 0..1", low=0, high=1, cached_share=self.cached_share)
        check_range("prefix-affinity", "an integer >= 0", low=0, balance_abs=self.balance_abs)
        check_range("prefix-affinity", "a finite number >= 1", low=1, finite=True, balance_rel=self.balance_rel)
        check_ring("prefix-affinity", self.bound, self.virtual_nodes)


@rule
def route(view: RuleView, options: PrefixAffinity, work: Work) -> None:
    """Send requests, oldest first, each by cached prefix, fewest requests, or `nearest`; hold those that fit nowhere."""
    count, total = list_open(view, work.fleet), count_requests(view, work.requests)
    is_known, serving = view.cached_tokens.size > 0, count_serving(view, work.requests)
    if not is_known:
        place_nodes(view, count, work)
    for i in range(view.waiting_load.size):
        if count == 0:
            break
        size, least_cached = view.waiting_load[i], -1.0
        is_even = not is_unbalanced(view, options, work)
        if is_even and not is_known:
            best = nearest(i, options.bound * (total + 1) / serving, view, count, work)
        else:
            if is_even:
                least_cached = worth_a_detour(i, options.cached_share * size, view, count, work)
            best = least_requests(i, least_cached, view, count, work)
        if best >= 0:
            total += 1
            work.requests[work.fleet.open[best]] += 1
            count = send(i, best, size, count, work.fleet)


@part
def is_unbalanced(view: RuleView, options: PrefixAffinity, work: Work) -> bool:
    """True if the largest of `work.requests` exceeds the smallest by both `balance_abs` and the factor `balance_rel`.

    Workers without a request and without a free slot do not count.
    """
    low, high = 2**62, 0
    for g in range(work.requests.size):
        if work.requests[g] > 0 or view.free_slots[g] > 0:
            low, high = min(low, work.requests[g]), max(high, work.requests[g])
    return high - low > options.balance_abs and high > options.balance_rel * low


@part
def worth_a_detour(i: int, least: float, view: RuleView, count: int, work: Work) -> float:
    """The most prompt tokens of request i that a worker with room has cached; -1 if that is not above `least` tokens."""
    most = -1.0
    for j in range(count):
        if work.fleet.kv[j] >= view.waiting_load[i]:
            most = max(most, view.cached_tokens[i, work.fleet.open[j]])
    return most if most > least else -1.0


@part
def least_requests(i: int, cached: float, view: RuleView, count: int, work: Work) -> int:
    """The place of the worker with fewest requests (ties: lowest index) among those with room for request i; -1 without one.

    If `cached` is >= 0, only workers count that have exactly `cached` of its prompt tokens cached.
    """
    best = -1
    for j in range(count):
        g = work.fleet.open[j]
        if work.fleet.kv[j] < view.waiting_load[i] or (cached >= 0.0 and view.cached_tokens[i, g] != cached):
            continue
        if best < 0 or work.requests[g] < work.requests[work.fleet.open[best]]:
            best = j
    return best


policy = PrefixAffinity
