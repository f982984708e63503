"""Consistent hashing with bounded loads: requests of one key go to one worker, unless it is too busy or full."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, NamedTuple

from evenstep.compiled import Table, part
from evenstep.draws import head, uniform_from
from evenstep.errors import check_range
from evenstep.request import F8
from evenstep.routing.filling import Open, count_requests, count_serving, list_open, send
from evenstep.routing.rules import Ruled, RuleView, WorkerInts, rule
from evenstep.streams import stream_number

MOST_NODES = 1024
_NODE, _KEY = stream_number("consistent-hash"), stream_number("consistent-hash-key")


@dataclass(frozen=True, slots=True)
class ConsistentHash(Ruled):
    """The oldest request goes to the first worker, clockwise from its key, that is below its bound and has room.

    Every worker stands at `virtual_nodes` places of a ring, a request at the place of its key (its session, else its prompt
    key, else its id). A worker may have `bound` times its share of all requests on workers, the new one included, rounded
    up. Workers with neither a request nor a free slot (lost, ejected) have no share. If no worker below the bound has room,
    the bound is ignored.

    Args:
        bound: how much above its share of requests a worker may get, >= 1; near 1 is balance, large is affinity.
        virtual_nodes: places of each worker, 1..1024; more of them make the shares of the ring more even.

    Raises:
        InputError: a bound below 1 or not finite, or virtual nodes out of range.

    Source: Karger et al. 1997; bounded loads: Mirrokni, Thorup and Zadimoghaddam 2018. Places are keyed by the seed, so that
    routers of one seed agree. Sessions of different weight count alike here.
    """

    bound: float = 1.25
    virtual_nodes: int = 64

    def __post_init__(self) -> None:
        check_ring("consistent-hash", self.bound, self.virtual_nodes)


def check_ring(where: str, bound: float, virtual_nodes: int) -> None:
    """Check the options of a ring; `where` is the policy's name in errors.

    Raises an `InputError` for a bound below 1 or not finite, or virtual nodes out of range.
    """
    check_range(where, "a finite number >= 1", low=1, finite=True, bound=bound)
    check_range(where, f"an integer in 1..{MOST_NODES}", low=1, high=MOST_NODES, virtual_nodes=virtual_nodes)


class Work(NamedTuple):
    """Working space: the open workers (see `filling.Open`); each worker's requests, and its places on the ring in [0, 1)."""

    fleet: Open
    requests: WorkerInts
    nodes: Annotated[Table, "workers, options.virtual_nodes"]


@rule
def route(view: RuleView, options: ConsistentHash, work: Work) -> None:
    """Write each request's worker to `work`, oldest first: the one that `nearest` finds, else `HOLD`."""
    count, total = list_open(view, work.fleet), count_requests(view, work.requests)
    serving = count_serving(view, work.requests)
    place_nodes(view, count, work)
    for i in range(view.waiting_load.size):
        if count == 0:
            break
        best = nearest(i, options.bound * (total + 1) / serving, view, count, work)
        if best >= 0:
            total += 1
            work.requests[work.fleet.open[best]] += 1
            count = send(i, best, view.waiting_load[i], count, work.fleet)


@part
def place_nodes(view: RuleView, count: int, work: Work) -> None:
    """Write the ring places of the `count` open workers to `work.nodes`; they depend on seed and worker index alone."""
    dice = head(view.seed, _NODE)
    for j in range(count):
        g = work.fleet.open[j]
        for v in range(work.nodes.shape[1]):
            work.nodes[g, v] = uniform_from(dice, g, v)


@part
def nearest(i: int, most: float, view: RuleView, count: int, work: Work) -> int:
    """The place in the list of the first worker, clockwise from request i's key, with room for it; -1 without one.

    Workers that would exceed `most` requests, rounded up, this one included, are taken only if no other has room. `count` is
    the length of the list of open workers.
    """
    key = uniform_from(head(view.seed, _KEY), view.waiting_key[i], 0)
    best, is_best_below, least = -1, False, 2.0
    for j in range(count):
        is_below = work.requests[work.fleet.open[j]] < most
        if work.fleet.kv[j] < view.waiting_load[i] or (is_best_below and not is_below):
            continue
        ahead = clockwise(work.nodes[work.fleet.open[j]], key)
        if best < 0 or (is_below and not is_best_below) or ahead < least:
            best, is_best_below, least = j, is_below, ahead
    return best


@part
def clockwise(nodes: F8, place: float) -> float:
    """The clockwise distance, on a ring of length 1, from `place` to the nearest of the nodes; all are in [0, 1)."""
    least = 2.0
    for v in range(nodes.size):
        ahead = nodes[v] - place
        least = min(least, ahead + 1.0 if ahead < 0.0 else ahead)
    return least


policy = ConsistentHash
