"""The two phases of a batch, decodes and prefills, each with its cap and order; `work-conserving` uses them.

The running requests of a phase are a list of positions, `count` of them.
"""

from __future__ import annotations

from evenstep.compiled import Ints, part
from evenstep.scheduling.batch import Batch, admit, grows, in_queue_order, is_evicted
from evenstep.scheduling.eviction import run_or_evict
from evenstep.scheduling.view import RuleView


@part
def list_phase(view: RuleView, decoding: int, cap: int, listed: Ints) -> int:
    """Write the positions of running decodes (`decoding` 1) or prefills (0) to `listed`; returns how many.

    They stand in order of admission; the list ends after `cap` of them.
    """
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
    """Remaining tokens as a sort key: of the prefill, or for a decoding request twice its believed remaining output.

    The latter is the sum of both bounds less twice the tokens produced; it can be negative.
    """
    if view.decoding[row] == 1:
        return view.output_low[row] + view.output_high[row] - 2 * view.produced[row]
    return view.left[row]


@part
def sort_by_left(view: RuleView, listed: Ints, count: int) -> None:
    """Sort the first `count` positions of a list in place by `left_of_phase`, smallest first, equal ones as before."""
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
    """Run the first `count` requests of a list of running ones, in its order, each as much as budget and seats allow.

    While one does not fit the memory, the request admitted last is evicted (`run_or_evict`).
    """
    for i in range(count):
        run_or_evict(view, batch, listed[i])


@part
def needed_by(view: RuleView, batch: Batch, listed: Ints, count: int) -> int:
    """KV tokens of memory, beyond what they hold, that the listed requests need to run one token each.

    Requests that this batch has evicted count nothing.
    """
    needed = 0
    for i in range(count):
        position: int = listed[i]
        if not is_evicted(batch, position):
            needed += grows(view, view.running[position], 1)
    return needed


@part
def admit_first(view: RuleView, batch: Batch, waits: int, reserve: int) -> None:
    """Admit the first `waits` requests of the queue in order, up to the first that cannot run.

    A request runs, as much as the budget allows, if its whole prefill fits and leaves `reserve` KV tokens free.
    """
    for i in range(waits):
        if not admit(view, batch, view.waiting[i], view.running.size + i, reserve):
            break


@part
def admit_shortest(view: RuleView, batch: Batch, waits: int, reserve: int) -> None:
    """As `admit_first`, but of these requests the one with the fewest tokens left first, of equals the earlier in the queue.

    The entries that it adds to the batch are then sorted by position.
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
