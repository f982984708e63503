"""The family of (K_p, K_d)-FCFS policies: a mixed batch of the oldest requests of each phase."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from evenstep.compiled import Ints, part
from evenstep.errors import check_range
from evenstep.scheduling.batch import Batch, admit, admit_first, grows, in_queue_order
from evenstep.scheduling.eviction import run_or_evict
from evenstep.scheduling.rules import Ruled, RuleView, RunningInts, rule
from evenstep.scheduling.view import UNLIMITED


@dataclass(frozen=True, slots=True)
class WorkConserving(Ruled):
    """Fills each batch from the oldest requests with prefill left and the oldest that decode, with a cap on each.

    It is work-conserving while the caps do not bind: it fills the budget if enough tokens, seats and memory are available.
    With a cap K_d below the budget it is not work-conserving at any load, and the paper's theorem does not apply.

    Running requests are older than waiting ones: age goes by admission, then by arrival. If a running request does not fit,
    the one admitted last is evicted. A request is admitted if its whole prefill fits; with `first` set to ``prefill`` it
    must fit next to the tokens that decodes take next.

    Args:
        prefill_cap: K_p, requests with prefill left that a batch may run; 0 = all.
        decode_cap: K_d, decoding requests that a batch may run; 0 = all.
        first: the phase whose requests get tokens first.
        within: order in a phase: the ``oldest`` first, or the one with the ``fewest-left`` tokens, of its prefill or, by the
            midpoint of its bounds, of its output. A cap takes the oldest either way. A prefill that has begun goes before
            those that wait. ``fewest-left`` with `prefill_cap` 0 scans the whole queue in every iteration.

    Raises:
        InputError: a negative cap.

    Source: Throughput-optimal sec. 2.3, which leaves open the requests that a cap takes first.
    """

    prefill_cap: int = 0
    decode_cap: int = 0
    first: Literal["decode", "prefill"] = "decode"
    within: Literal["oldest", "fewest-left"] = "oldest"

    def __post_init__(self) -> None:
        for name in ("prefill_cap", "decode_cap"):
            check_range("work-conserving", "an integer >= 0", "0 is no cap.", low=0, **{name: getattr(self, name)})


class Work(NamedTuple):
    """The batch, and positions of the running requests that it may run: prefills in `chunks`, decodes in `decodes`."""

    batch: Batch
    chunks: RunningInts
    decodes: RunningInts


@rule
def form_batch(view: RuleView, options: Any, work: Work) -> None:
    """Run the phase that has priority, then the other one; the queue follows running prefills unless one was evicted."""
    prefill_cap = options.prefill_cap if options.prefill_cap > 0 else UNLIMITED
    chunks = list_phase(view, 0, prefill_cap, work.chunks)
    decodes = list_phase(view, 1, options.decode_cap if options.decode_cap > 0 else UNLIMITED, work.decodes)
    if options.within_fewest_left:
        sort_by_left(view, work.chunks, chunks)
        sort_by_left(view, work.decodes, decodes)
    reserve = 0
    if options.first_prefill:
        for i in range(decodes):
            position: int = work.decodes[i]
            reserve += grows(view, view.running[position], 1)
    else:
        run_list(view, work.batch, work.decodes, decodes)
    run_list(view, work.batch, work.chunks, chunks)
    if work.batch.gone[0] == 0:
        waits = min(view.waiting.size, prefill_cap - chunks)
        if options.within_fewest_left:
            admit_shortest(view, work.batch, waits, reserve)
        else:
            admit_first(view, work.batch, waits, reserve)
    if options.first_prefill:
        run_list(view, work.batch, work.decodes, decodes)


@part
def list_phase(view: RuleView, decoding: int, cap: int, listed: Ints) -> int:
    """Write positions of the first `cap` running decodes (`decoding` 1) or prefills (0) to `listed`; returns how many."""
    count = 0
    for position in range(view.running.size):
        if view.decoding[view.running[position]] == decoding:
            if count == cap:
                break
            listed[count] = position
            count += 1
    return count


@part
def left_of_phase(view: RuleView, row: int) -> int:
    """Remaining tokens as a sort key: of the prefill, or for a decoding request twice its predicted remaining output.

    The latter is the sum of both bounds minus twice the tokens produced; it can be negative.
    """
    if view.decoding[row] == 1:
        return view.output_low[row] + view.output_high[row] - 2 * view.produced[row]
    return view.left[row]


@part
def sort_by_left(view: RuleView, listed: Ints, count: int) -> None:
    """Sort the first `count` positions of a list in place by `left_of_phase`, smallest first; equal ones stay in order."""
    for i in range(1, count):
        at = i
        position: int = listed[i]
        value = left_of_phase(view, view.running[position])
        while at > 0:
            before: int = listed[at - 1]
            if left_of_phase(view, view.running[before]) <= value:
                break
            listed[at] = before
            at -= 1
        listed[at] = position


@part
def run_list(view: RuleView, batch: Batch, listed: Ints, count: int) -> None:
    """Run the first `count` running requests in a list of positions, in its order; may evict (`run_or_evict`)."""
    for i in range(count):
        run_or_evict(view, batch, listed[i])


@part
def admit_shortest(view: RuleView, batch: Batch, waits: int, reserve: int) -> None:
    """Admit from the first `waits` requests of the queue by fewest tokens left, ties in queue order, until one cannot run.

    Each must leave `reserve` KV tokens free. The entries added to the batch are then sorted by position.
    """
    start, last_left, last = batch.given[0], -1, -1
    while True:
        best, least = -1, 0
        for i in range(waits):
            row: int = view.waiting[i]
            tokens: int = view.left[row]
            is_next = tokens > last_left or (tokens == last_left and i > last)
            if is_next and (best < 0 or tokens < least):
                best, least = i, tokens
        if best < 0 or not admit(view, batch, view.waiting[best], view.running.size + best, reserve):
            break
        last_left, last = least, best
    in_queue_order(batch, start)


policy = WorkConserving
