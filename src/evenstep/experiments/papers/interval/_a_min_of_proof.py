"""A_min as in the proofs of Lemmas 4.4 and 4.6: a control with three assumptions that Algorithm 2 does not make."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

from evenstep.compiled import part
from evenstep.draws import uniform
from evenstep.scheduling.batch import Batch, offer
from evenstep.scheduling.intervals.eviction import GROWS, grow, leave
from evenstep.scheduling.intervals.feasible import base
from evenstep.scheduling.order import QueueOrder
from evenstep.scheduling.rules import Ruled, RunningFloats, RunningInts, rule
from evenstep.scheduling.view import Belief, RuleView
from evenstep.streams import stream_number

_VICTIMS = stream_number("victims-of-proof")


@dataclass(frozen=True, slots=True)
class AMinOfProof(Ruled):
    """Keeps memory full at every age: freed memory goes to the queue, and growth beyond bounds is paid by evictions.

    A request claims memory for its prompt and its bound, or for its produced tokens if they are more. The queue takes all
    unclaimed memory. Only then do running requests grow: some (`victim`) are evicted until all claims fit. The bound of a
    request evicted at or beyond it becomes the token it was about to produce. So of the requests that reach their bound i,
    the share (s + i) / (s + j) also reaches j. The mix of outputs does not change that share.

    Args:
        victim: ``grown``, first those at or beyond their bounds, each about as likely as 1 / (its KV tokens); ``any``, as in
            Algorithm 2: the lowest bound first, ties by a chance that is drawn anew in each iteration.
        longest: the longest output, to count requests by bound and output; a request's class must be its output. 0 = no
            counts. No decision depends on it.

    Source: Interval scheduling, proofs of Lemma 4.4, Proposition 4.5 and Lemma 4.6; our reading.
    """

    victim: Literal["grown", "any"] = "grown"
    longest: int = 0
    # A request evicted beyond its bound has a key of at least 2 l; the others have at most l plus a chance.
    order: ClassVar[QueueOrder] = QueueOrder(raised=1.0, reached=1.0, chance=1.0)
    believes: ClassVar[Belief] = "bounds"

    @property
    def memory_size(self) -> int:
        """The number of counters: by bound i and output j, the requests given bound i, less those evicted under it."""
        return len(self.counts)

    @property
    def counts(self) -> tuple[str, ...]:
        """Names of all counters, ``i of j``, for i and then j from 0 to `longest`; empty if `longest` is 0."""
        places = range(self.longest + 1 if self.longest else 0)
        return tuple(f"{i} of {j}" for i in places for j in places)


class Work(NamedTuple):
    """Arrays that the rule writes: the batch, and for each running request a mark (`GROWS` until it leaves) and `key_of`."""

    batch: Batch
    mark: RunningInts
    key: RunningFloats


@rule
def form_batch(view: RuleView, options: Any, work: Work) -> None:
    """Admit from the head of the queue while KV claims fit memory; evict until they fit one token later; run the rest."""
    claimed, grown = 0, 0
    for position in range(view.running.size):
        row: int = view.running[position]
        work.mark[position] = GROWS
        claimed += claim(view, row, 0)
        grown += claim(view, row, 1)
    joins = 0
    while joins < view.waiting.size:
        more = claim(view, view.waiting[joins], 1)
        if claimed + more > view.kv_capacity:
            break
        claimed += more
        grown += more
        joins += 1
    if grown > view.kv_capacity:
        evict_grown(view, options, work, grown)
    grow(view, work.batch, work.mark)
    for i in range(joins):
        offer(view, work.batch, view.waiting[i], view.running.size + i, 0)


@part
def evict_grown(view: RuleView, options: Any, work: Work, claimed: int) -> None:
    """Evict running requests, smallest key first (ties: the older), until all claims fit memory.

    `claimed` is in KV tokens: newcomers, and running requests one token further. Each eviction is counted (`count`).
    """
    for position in range(view.running.size):
        work.key[position] = key_of(view, options, view.running[position])
    while claimed > view.kv_capacity:
        victim = 0
        for position in range(view.running.size):
            if work.mark[position] == GROWS and (work.mark[victim] != GROWS or work.key[position] < work.key[victim]):
                victim = position
        row: int = view.running[victim]
        claimed -= claim(view, row, 1)
        count(view, options, work.batch, row)
        leave(view, work.batch, work.mark, victim)


@part
def bound(view: RuleView, row: int) -> int:
    """The lower bound of a request in tokens; after an eviction, at least one more than it had produced."""
    return max(view.output_low[row], view.reached[row] + 1)


@part
def claim(view: RuleView, row: int, tokens: int) -> int:
    """KV tokens that a request claims: those it holds at its bound, or after `tokens` more tokens if these are more."""
    return base(view, row) + max(bound(view, row) - view.produced[row], tokens)


@part
def key_of(view: RuleView, options: Any, row: int) -> float:
    """The key of a running request; the smallest is evicted first. A chance is a random number in [0, 1).

    With `victim` ``any`` it is the request's `bound` plus a chance. With ``grown`` it is 1e18 while the output is shorter
    than the bound, else a chance times the KV tokens that it holds after one more token (`claim`).
    """
    chance = uniform(view.seed, _VICTIMS, view.request_id[row], view.iteration)
    if options.victim_any:
        return bound(view, row) + chance
    if view.produced[row] < bound(view, row):
        return 1e18
    return chance * claim(view, row, 1)


@part
def count(view: RuleView, options: Any, batch: Batch, row: int) -> None:
    """Count an eviction in `batch.memory`: -1 at the request's present bound, +1 at its next. Nothing if `longest` is 0."""
    if options.longest > 0:
        words, output = int(options.longest) + 1, view.request_class[row]
        batch.memory[bound(view, row) * words + output] -= 1
        batch.memory[max(bound(view, row), view.produced[row] + 1) * words + output] += 1


policy = AMinOfProof
