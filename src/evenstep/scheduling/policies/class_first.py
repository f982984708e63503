"""Class first: the lowest class number has priority, and later classes get what is left of the budget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from evenstep.compiled import part
from evenstep.scheduling.batch import Batch, admit
from evenstep.scheduling.eviction import run_or_evict
from evenstep.scheduling.order import QueueOrder
from evenstep.scheduling.rules import Ruled, RuleView, rule


@dataclass(frozen=True, slots=True)
class ClassFirst(Ruled):
    """Work-conserving: runs class 0 first; within a class decodes, then prefills under way, then the queue.

    A batch mixes classes only if the first cannot fill it. A running request keeps its memory while requests of a lower
    class number take its place in the batch, so the priority is non-preemptive. If a running request does not fit the
    memory, the one admitted last is evicted, and no further request is admitted in this iteration. A request is admitted if
    its whole prefill fits.

    Source: Throughput-optimal sec. 4.3, the scheduling of its Rybko-Stolyar network.
    """

    # a difference of one class outweighs any difference of arrival times
    order: ClassVar[QueueOrder] = QueueOrder(arrival=1.0, request_class=float(1 << 32))


@rule
def form_batch(view: RuleView, options: ClassFirst, batch: Batch) -> None:
    """Run one class after the other, the lowest number first: decodes, running prefills, then the queue, sorted by class."""
    at, is_open = 0, True
    found = next_class(view, view.waiting.size, at, -1)
    while found >= 0 and batch.budget[0] > 0 and batch.seats[0] > 0:
        for decoding in range(1, -1, -1):
            for position in range(view.running.size):
                row: int = view.running[position]
                if view.request_class[row] == found and view.decoding[row] == decoding:
                    run_or_evict(view, batch, position)
        while is_open and at < view.waiting.size and view.request_class[view.waiting[at]] == found:
            is_open = batch.gone[0] == 0 and admit(view, batch, view.waiting[at], view.running.size + at, 0)
            at += is_open
        found = next_class(view, view.waiting.size if is_open else 0, at, found)


@part
def next_class(view: RuleView, waits: int, at: int, last: int) -> int:
    """The lowest class above `last` of the running requests and, if `at` < `waits`, of the waiting request at index `at`.

    -1 if there is none.
    """
    found: int = -1
    if at < waits:
        head: int = view.waiting[at]
        if view.request_class[head] > last:  # an unsorted queue, which only checks show, waits for the next batch
            found = view.request_class[head]
    for position in range(view.running.size):
        row: int = view.running[position]
        one = view.request_class[row]
        if one > last and (found < 0 or one < found):
            found = one
    return found


policy = ClassFirst
