"""Our own policy: admits whole requests with room to grow, the shortest first until one waits too long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from evenstep.compiled import Ints, part
from evenstep.errors import check_range
from evenstep.scheduling.adaptive import iteration_time, prefill_pacing, queue_head
from evenstep.scheduling.adaptive.iteration_time import quantised
from evenstep.scheduling.adaptive.queue_head import Gap, fits_gap, found, has_joined, leave, look_over, recall
from evenstep.scheduling.adaptive.queue_head import Joining as Work
from evenstep.scheduling.batch import evict, give, give_decodes, grows, in_queue_order, is_evicted, keep, kept, most
from evenstep.scheduling.policies.work_conserving import list_phase, sort_by_left
from evenstep.scheduling.rules import Ruled, rule
from evenstep.scheduling.view import UNLIMITED, RuleView

#: Words of memory: fading float64 sums over admitted requests, of size times seconds waited, and of size.
WAITED, SIZES = range(queue_head.MEMORY, queue_head.MEMORY + 2)
#: Requests that have to be finished before their mean length counts.
KNOWN = 8
#: Newcomers shorter than every running prefill go first, and get 1 / `AHEAD` of the budget.
AHEAD = 2
#: No request passes one that has waited this many times as long as it takes to be overdue.
PASSED = 4
#: Factor by which each admission fades the sums over earlier ones, so that about the last twenty count.
FADES = 0.95


@dataclass(frozen=True, slots=True)
class Best(Ruled):
    """Runs decodes, running prefills and the queue; a request is admitted only if it fits whole, with room to grow.

    Each function of this file is one part of the rule. `room_for`: how much memory an admission leaves free. `next_of`: the
    next to join. `who_passes`: the requests that may go ahead of one that does not fit. `run_one`: the one to evict.
    `adaptive.prefill_pacing` and `adaptive.iteration_time` say how many prefill tokens run together with decodes.

    Args:
        room: KV memory that an admission leaves free while anything runs, in mean output lengths, learned from finished
            requests; less where evictions are cheap.
        watermark: share of the memory, 0 <= watermark < 1, that it leaves instead while fewer than 8 have finished.
        patience: multiple of the recent mean wait after which only requests that fit where it does not may overtake a
            request. After four times as long, none may. 0 = first come, first served.
        window: number of oldest waiting requests among which the shortest is looked for.
        paced: spread prefills over iterations, or without `target_s` run them apart from decodes, where that takes less
            time. If false, each iteration runs all prefill tokens that the engine and `target_s` allow, with its decodes.
        target_s: seconds an iteration should last at most, the time between two tokens; 0 = the engine's token budget alone.

    Raises:
        InputError: a value out of range.

    Source: ours; the parts are compared in ``docs/explanation/our-scheduling.md``.
    """

    room: float = 1.0
    watermark: float = 0.05
    patience: float = 1.2
    window: int = 512
    target_s: float = 0.0
    paced: bool = True

    memory_size: ClassVar[int] = queue_head.MEMORY + 2

    def __post_init__(self) -> None:
        expected = "a share of the memory, 0 <= watermark < 1"
        check_range("best", expected, low=0, below=1, watermark=self.watermark)
        check_range("best", "an integer >= 1", low=1, window=self.window)
        for name in ("room", "patience", "target_s"):
            check_range("best", "a finite number >= 0", low=0, finite=True, **{name: getattr(self, name)})


@rule
def form_batch(view: RuleView, options: Best, work: Work) -> None:
    """Form a batch: decodes, newcomers shorter than all running prefills, these prefills, then further waiting requests.

    If prefills run apart (`prefill_pacing.apart`; never with `target_s`), decodes run only in batches without prefills. The
    policy's memory first learns from the last iteration, and in the end stores facts about this batch.
    """
    batch, memory = work.batch, work.batch.memory
    prefill_pacing.learned(memory, view.now_s, view.running.size)
    iteration_time.learned(memory, view.now_s, view.running.size)
    if options.target_s > 0.0:
        decodes = 0
        for position in range(view.running.size):
            row: int = view.running[position]
            decodes += view.decoding[row]
        batch.budget[0] = iteration_time.budget(memory, options.target_s, decodes, view.token_budget)
    apart = options.paced and options.target_s == 0.0 and prefill_pacing.apart(memory)
    whole_budget, chunks = batch.budget[0], list_phase(view, 0, UNLIMITED, work.chunk)
    sort_by_left(view, work.chunk, chunks)
    if not apart:
        run_decodes(view, work)
    work.start[0], work.newcomers[0] = batch.given[0], 0
    if options.paced:
        whole_budget = hold_back(view, work, chunks, whole_budget)
    prefill(view, options, work, chunks)
    if apart and batch.budget[0] == whole_budget:
        run_decodes(view, work)
        work.start[0] = batch.given[0]
    in_queue_order(batch, work.start[0])
    tokens, decoded = whole_budget - batch.budget[0], 0
    for p in range(work.start[0]):  # decodes stand first, and have one token if they were not evicted
        decoded += batch.tokens[p]
    prefill_pacing.note(memory, tokens - decoded, decoded)
    iteration_time.note(memory, view.now_s, tokens)


@part
def run_decodes(view: RuleView, work: Work) -> None:
    """Run one token of each running request that decodes, by admission; if memory is short, evict as `run_one` says."""
    first = give_decodes(view, work.batch, True) if work.batch.gone[0] == 0 else 0
    for position in range(first, view.running.size):
        if view.decoding[view.running[position]] == 1:
            run_one(view, work, position)


@part
def run_one(view: RuleView, work: Work, position: int) -> None:
    """Run as many tokens of a running request as budget and seats allow; while memory is short, evict running requests.

    The one with the fewest computed tokens is evicted first, of equals the one admitted last. This may be the request at
    `position` itself, which then does not run. If it was evicted before, nothing happens.
    """
    batch = work.batch
    if is_evicted(batch, position):
        return
    row: int = view.running[position]
    tokens: int = most(view, batch, row)
    while tokens > 0 and grows(view, row, tokens) > batch.free[0]:
        victim, least = -1, 0
        for k in range(view.running.size):
            computed = view.prefilled[view.running[k]]
            if (victim < 0 or computed <= least) and not is_evicted(batch, k):
                victim, least = k, computed
        evict(view, batch, victim)
        tokens = 0 if victim == position else most(view, batch, row)
    if tokens > 0:
        give(view, batch, row, position, tokens)


@part
def hold_back(view: RuleView, work: Work, chunks: int, whole: int) -> int:
    """Lower the batch's budget for prefills to what delays requests least (`prefill_pacing.budget`).

    At least `LEAST` prefill tokens stay, if there were so many. `chunks` is the number of running prefills. `whole` is the
    batch's budget before its decodes. Returns `whole` minus the tokens that were held back.
    """
    batch, ran = work.batch, whole - work.batch.budget[0]
    others = behind(view, work, chunks)
    tokens = prefill_pacing.budget(batch.memory, ran, others, whole)
    held_back = max(batch.budget[0] - max(tokens - ran, prefill_pacing.LEAST), 0)
    batch.budget[0] -= held_back
    return whole - held_back


@part
def behind(view: RuleView, work: Work, chunks: int) -> int:
    """The number of requests that could prefill after the first one: running prefills, and waiting ones that might fit.

    Waiting ones are as many as free memory holds if all are as large as the queue's first; 0 after an eviction. `chunks` is
    the number of running prefills.
    """
    others = max(chunks - 1, 0)
    if view.waiting.size == 0 or work.batch.gone[0] > 0:
        return others
    first: int = view.waiting[0]
    free = work.batch.free[0] - promised(view, work, chunks)
    return others + min(view.waiting.size, max(free, 0) // view.left[first])


@part
def promised(view: RuleView, work: Work, chunks: int) -> int:
    """KV tokens that prefills still need after this batch: those of the `chunks` running ones and of newcomers."""
    batch, total = work.batch, 0
    for c in range(chunks):
        position: int = work.chunk[c]
        row: int = view.running[position]
        total += grows(view, row, view.left[row])
    for p in range(work.start[0], batch.given[0]):
        position = batch.picked[p]
        if position >= view.running.size:
            row = view.waiting[position - view.running.size]
            total += grows(view, row, view.left[row]) - grows(view, row, batch.tokens[p])
        else:
            row = view.running[position]
            total -= grows(view, row, batch.tokens[p])
    return total


@part
def prefill(view: RuleView, options: Best, work: Work, chunks: int) -> None:
    """Run newcomers shorter than all running prefills, in 1 / `AHEAD` of the budget; then these prefills; then the queue.

    After an eviction in this batch no request is admitted.
    """
    batch = work.batch
    for is_last in range(2):
        longest, spend = UNLIMITED, UNLIMITED
        if is_last == 0 and chunks > 0:
            chunk: int = work.chunk[0]
            shortest: int = view.running[chunk]
            longest, spend = view.left[shortest] - 1, batch.budget[0] // AHEAD
        if batch.gone[0] == 0 and (is_last == 1 or chunks > 0):
            admit(view, options, work, chunks, longest, spend)
        if is_last == 0:
            for c in range(chunks):
                run_one(view, work, work.chunk[c])


@part
def admit(view: RuleView, options: Best, work: Work, chunks: int, longest: int, spend: int) -> None:
    """Admit waiting requests one by one, while the next one, or one that may pass it, fits whole.

    Each may have at most `longest` tokens left, all together at most `spend`; a longer next one ends admissions. `chunks` is
    the number of running prefills.
    """
    batch, memory, runs = work.batch, work.batch.memory, view.running.size
    if view.waiting.size == 0 or batch.seats[0] <= 0 or batch.budget[0] <= 0:
        return
    promise = promised(view, work, chunks)
    if batch.free[0] <= promise:
        return
    places = min(view.waiting.size, options.window)
    recall(view, work, places, view.arrived.sum())
    reserve = -1  # not computed yet: it takes a loop over all running requests, and mostly memory is full anyway
    while batch.seats[0] > 0 and batch.budget[0] > 0:
        free = batch.free[0] - promise
        if memory[queue_head.FEWEST] > min(longest, spend, free):
            break
        i = next_of(view, options, work, places)
        if i < 0:
            break
        row: int = view.waiting[i]
        if most(view, batch, row) < 1 or view.left[row] > min(longest, spend):
            break
        whole = grows(view, row, view.left[row])
        leaves_free = 0
        if runs + work.newcomers[0] > 0 and whole <= free:
            reserve = room_for(view, options, memory) if reserve < 0 else reserve
            leaves_free = reserve
        if whole > free - leaves_free:
            i = who_passes(view, options, work, i, places, free, min(longest, spend))
            if i < 0:
                break
            row = view.waiting[i]
            whole = grows(view, row, view.left[row])
        tokens: int = most(view, batch, row)
        promise += whole - grows(view, row, tokens)
        spend -= view.left[row]
        join(view, work, i, tokens)


@part
def join(view: RuleView, work: Work, i: int, tokens: int) -> None:
    """Add the request at index `i` of the queue to the batch with `tokens`, and drop it from the stored requests.

    `newcomers` rises by 1. The mean wait is updated if the request was never evicted.
    """
    memory = work.batch.memory
    row: int = view.waiting[i]
    leave(view, work, i)
    give(view, work.batch, row, view.running.size + i, tokens)
    work.newcomers[0] += 1
    if view.evictions[row] == 0:
        size = float(view.prompt_tokens[row]) + 0.5 * float(view.output_low[row] + view.output_high[row])
        waited = FADES * kept(memory, WAITED) + size * quantised(view.now_s - view.arrival_s[row])
        keep(memory, WAITED, waited)
        keep(memory, SIZES, FADES * kept(memory, SIZES) + size)


@part
def mean_wait(memory: Ints) -> float:
    """Mean wait at recent first admissions of requests, seconds, weighted by their size in tokens; 0 before any."""
    sizes = kept(memory, SIZES)
    return kept(memory, WAITED) / sizes if sizes > 0.0 else 0.0


@part
def next_of(view: RuleView, options: Best, work: Work, places: int) -> int:
    """The queue index of the request to admit next: the oldest if overdue, else the first ever evicted, else the shortest.

    Only the first `places` of the queue are looked at; -1 if all of them have joined. The oldest is overdue once it has
    waited longer than `patience` times the recent mean wait; with `patience` 0 it always is, before a mean is known never.
    """
    oldest = 0
    if work.newcomers[0] > 0:
        while oldest < places and has_joined(work, view.running.size + oldest):
            oldest += 1
    if oldest == places:
        return -1
    patience_s = options.patience * mean_wait(work.batch.memory)
    row: int = view.waiting[oldest]
    waited_s = quantised(view.now_s - view.arrival_s[row])
    if options.patience == 0.0 or 0.0 < patience_s < waited_s:
        return oldest
    i = found(view, work)
    if i < 0:
        i, _ = look_over(view, work, places, Gap(0, 0, 0, 0, 1))
    return i


@part
def who_passes(view: RuleView, options: Best, work: Work, blocked: int, places: int, free: int, longest: int) -> int:
    """The queue index of the shortest request that may pass one that does not fit; -1 if no request may.

    Running requests must be able to grow during its prefill, and the blocked one must still fit after the next completion.
    That completion is assumed to be of the largest decoding request if prefills are held at the knee and cost no time,
    otherwise of one of mean size. No request passes one that has waited `PASSED` times as long as it takes to be overdue,
    or before a mean wait is known. Call it after `queue_head.recall`.

    Args:
        blocked: queue index of the one that does not fit.
        places: how many requests at the front of the queue are looked at.
        free: KV tokens that are free, minus those promised to running prefills and newcomers.
        longest: most tokens that the passing request may have left.
    """
    batch, memory, runs = work.batch, work.batch.memory, view.running.size
    row: int = view.waiting[blocked]
    waited_s = quantised(view.now_s - view.arrival_s[row])
    if waited_s >= PASSED * options.patience * mean_wait(memory):
        return -1
    fewest: int = memory[queue_head.FEWEST]
    if fewest > longest or fewest + runs * fewest // batch.budget[0] > free:
        return -1
    is_held = 0.0 < kept(memory, prefill_pacing.PRICE) <= prefill_pacing.FREE
    spare = leaving(view, is_held) - (grows(view, row, view.left[row]) - free)
    if fewest > spare:
        return -1
    reserve = room_for(view, options, memory) if runs + work.newcomers[0] > 0 else 0
    if fewest > 0 and fewest + reserve > free:
        return -1
    gap = Gap(free, spare, reserve, longest, batch.budget[0])
    i = found(view, work)
    if i >= 0 and view.evictions[view.waiting[i]] == 0 and fits_gap(view, gap, view.waiting[i]):
        return i
    _, i = look_over(view, work, places, gap)
    return i


@part
def leaving(view: RuleView, largest: bool) -> int:
    """KV tokens freed if a decoding request ended now: the maximum if `largest`, else the mean; 0 if no request decodes."""
    total, many, most_held = 0, 0, 0
    for position in range(view.running.size):
        row: int = view.running[position]
        if view.decoding[row] == 1:
            total += view.resident[row]
            many += 1
            most_held = max(most_held, view.resident[row])
    if many == 0:
        return 0
    return most_held if largest else total // many


@part
def room_for(view: RuleView, options: Best, memory: Ints) -> int:
    """KV tokens an admission leaves free while anything runs: `room` mean outputs, or less where evictions are cheap.

    Until `KNOWN` requests have finished it is `watermark` of the memory. As long as n requests decode, one completes every
    n-th part of a mean output; in that time all together grow by about one mean output, however large the memory is. An
    eviction is cheap, compared with empty memory, where prompts are quick to compute again and outputs take long.
    """
    finished, prompts = view.arrived.sum() - view.running.size - view.waiting.size, 0
    if finished < KNOWN:
        return int(options.watermark * view.kv_capacity)
    output, share = memory[prefill_pacing.DECODED] / finished, 1.0
    price_s, _, iteration_s = iteration_time.line(memory, iteration_time.COUNT, iteration_time.FIRST)
    if memory[prefill_pacing.PRICE] != 0:
        price_s = kept(memory, prefill_pacing.PRICE)
        iteration_s = kept(memory, iteration_time.SECONDS) / kept(memory, iteration_time.COUNT)
    if price_s > 0.0 and output > 0.0:
        for position in range(view.running.size):
            prompts += view.prompt_tokens[view.running[position]]
        held = float(view.kv_capacity - view.kv_free)
        dear = held * float(prompts) * price_s / (output * output * iteration_s)
        share = dear / (1.0 + dear)
    return int(options.room * output * share)


policy = Best
