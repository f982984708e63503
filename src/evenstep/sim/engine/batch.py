"""Batches of the engine simulator: allocate memory for a batch, and run its tokens."""

from __future__ import annotations

import numpy as np

from evenstep.compiled import part
from evenstep.cost import batch as content
from evenstep.measure.quantiles import BINS, FIRST_BIN, SHIFT
from evenstep.scheduling.view import EVICTED, PICKED
from evenstep.sim.engine import model
from evenstep.sim.engine.kept import leave, overwrite, returns
from evenstep.sim.engine.model import Run


@part
def pick(run: Run, row: int, tokens: int) -> int:
    """Mark a request as picked for this batch; `Now.detail` becomes its row.

    Returns `RUNNING`, `BAD_TOKENS` if `tokens` is not from 1 to the request's `left`, or `PICKED_TWICE`.
    """
    request, hidden, this = run.requests.shown[row], run.requests.hidden[row], run.now.iteration + 1
    run.now.detail = row
    if tokens < 1 or tokens > request.left:
        return model.BAD_TOKENS
    if hidden.picked_at == this:
        return model.PICKED_TWICE
    hidden.picked_at = this
    return model.RUNNING


@part
def held_after(run: Run, row: int, tokens: int) -> int:
    """KV tokens of memory that a request holds after it has run `tokens` more, rounded up to whole blocks.

    With `hold_produced`, a token counts too that it then produces because `tokens` is all of its `left`.
    """
    fixed, request = run.fixed, run.requests.shown[row]
    held = request.prefilled + tokens
    if fixed.hold_produced == 1 and tokens == request.left:
        held += 1
    block = fixed.block_tokens
    if block > 1:
        if held <= request.resident:  # within the block that it holds already: no division
            return request.resident
        held = (held + block - 1) // block * block
    return held


@part
def over(run: Run, tokens: int, residents: int) -> int:
    """Check a batch of `tokens` tokens against the engine's limits; returns `RUNNING` or the code of the first exceeded.

    `residents` requests would hold memory, whose free part `Now.kv_free` the caller has already reduced; below 0 it is
    exceeded. `Now.detail` becomes the total that exceeds a limit.
    """
    fixed, now, requests = run.fixed, run.now, run.policy.counts[PICKED]
    if tokens > fixed.token_budget:
        now.detail = tokens
        return model.OVER_BUDGET
    if requests > fixed.batch_limit:
        now.detail = requests
        return model.OVER_LIMIT
    if residents > fixed.resident_limit:
        now.detail = residents
        return model.OVER_RESIDENTS
    if now.kv_free < 0:
        now.detail = fixed.kv_capacity - now.kv_free
        return model.OVER_MEMORY
    return model.RUNNING


@part
def take(run: Run) -> int:
    """Check the picked requests, allocate their memory, and sum up the batch in `Run.batch` for the batch-time law.

    With `keeps_evicted`, requests take back their readable blocks, and new blocks overwrite others. Seconds of swapping KV
    back in are added to `Now.beside_s`. Returns `RUNNING`, or the code of the policy's mistake: a wrong pick or an exceeded
    limit. After a mistake the state is partly changed. The caller admits the requests of the queue (`admit`).
    """
    fixed, now, requests, picked, batch = run.fixed, run.now, run.requests, run.policy.picked, run.batch
    count, free, residents = run.policy.counts[PICKED], now.kv_free, now.running
    moved, returned, back = 0, 0, 0
    used, kv, decodes, decoded, longest = 0, 0, 0, 0, 0
    prefill, squares, crossed = 0, 0, 0
    for p in range(count):
        row, tokens = picked[0, p], picked[1, p]
        if row < 0:
            row = -1 - row
            residents += 1
        code = pick(run, row, tokens)
        if code != model.RUNNING:
            return code
        request = requests.shown[row]
        before, held = request.prefilled, held_after(run, row, tokens)
        if request.resident == 0:
            if fixed.overflow == model.SWAP and before > 0:
                moved += before
                returned += 1
            elif fixed.keeps_evicted == 1:
                back += returns(run, row)
        now.kv_free -= held - request.resident
        request.resident = held
        kv += before + tokens
        used += tokens
        if request.decoding == 1:
            decodes += 1
            decoded += before
            longest = max(longest, before)
        else:
            prefill += tokens
            squares += tokens * tokens
            crossed += tokens * before
    code = over(run, used, residents)
    if code != model.RUNNING:
        return code
    if fixed.keeps_evicted == 1:
        overwrite(run, (free - now.kv_free) // fixed.block_tokens - back)
    batch[content.TOKENS], batch[content.REQUESTS] = used, count
    batch[content.DECODES], batch[content.PREFILL_TOKENS] = decodes, prefill
    batch[content.KV], batch[content.CHUNK_SQUARES], batch[content.CROSSED] = kv, squares, crossed
    batch[content.DECODE_CONTEXT], batch[content.LONGEST] = decoded, longest
    now.moved_tokens += moved
    now.beside_s += fixed.swap_per_token_s * moved + fixed.swap_s * returned
    return model.RUNNING


@part
def count_gap(run: Run, gap_s: float, times: int) -> None:
    """Add `times` gaps of `gap_s` seconds between consecutive tokens of a request to the histogram, sum and maximum."""
    now = run.now
    at = (np.float64(gap_s).view(np.int64) >> SHIFT) - FIRST_BIN
    run.gaps[min(max(at, 0), BINS - 1)] += times
    now.gaps += times
    now.gap_sum_s += gap_s * times
    now.gap_max_s = max(now.gap_max_s, gap_s)


@part
def finish(run: Run, row: int) -> None:
    """Free the memory of a request that produced its last token, and note the end. The caller calls `remove_finished`."""
    fixed, now = run.fixed, run.now
    request, noted = run.requests.shown[row], run.requests.noted[row]
    noted.finished_s = now.now_s
    noted.last_iteration = now.iteration
    now.kv_free += request.resident
    if fixed.keeps_evicted == 1:
        leave(run, row, request.resident // fixed.block_tokens)
    request.resident = 0


@part
def produce(run: Run, row: int, started_s: float) -> bool:
    """Record that a request produces an output token now, at the end of the batch that started at `started_s`.

    The first token sets `first_token_s` and has no gap. The gap to an earlier token is counted here, unless that token came
    exactly at `started_s`: then the result is True, and the caller counts the gap.
    """
    now, hidden = run.now, run.requests.hidden[row]
    last_s = hidden.last_token_s
    if last_s >= 0.0:
        if last_s != started_s:
            count_gap(run, now.now_s - last_s, 1)
    else:
        run.requests.noted[row].first_token_s = now.now_s
    hidden.last_token_s = now.now_s
    run.requests.shown[row].produced += 1
    return last_s == started_s


@part
def run_tokens(run: Run, started_s: float) -> int:
    """Run the batch's tokens from `started_s` to now, and finish requests; returns how many output tokens it produced."""
    now, picked, first_decoded = run.now, run.policy.picked, run.fixed.first_decoded
    produced, over, usual = 0, 0, 0
    for p in range(run.policy.counts[PICKED]):
        row, tokens = picked[0, p], picked[1, p]
        if row < 0:
            row = -1 - row
        request, hidden = run.requests.shown[row], run.requests.hidden[row]
        if hidden.attained == 0:
            noted = run.requests.noted[row]
            noted.first_iteration, noted.scheduled_s, hidden.last_token_s = now.iteration, started_s, np.nan
        completes = tokens == request.left
        request.prefilled += tokens
        hidden.attained += tokens
        if completes and (first_decoded == 0 or request.decoding == 1):
            produced += 1
            usual += produce(run, row, started_s)
            if request.produced == hidden.output_tokens:
                finish(run, row)
                over += 1
        if completes:
            request.left, request.decoding = 1, 1
        else:
            request.left -= tokens
            if first_decoded == 0 and request.left == 1 and request.produced > 0:
                request.decoding = 1
    if usual > 0:
        count_gap(run, now.now_s - started_s, usual)
    if over > 0:
        remove_finished(run, over)
    return produced


@part
def remove_finished(run: Run, over: int) -> None:
    """Move the `over` requests that have produced their last token from the running list to the finished list."""
    now, lists, requests, stay, last = run.now, run.lists, run.requests, 0, run.now.finished + over
    for i in range(now.running):
        row = lists.running[i]
        if now.finished == last or requests.shown[row].produced < requests.hidden[row].output_tokens:
            lists.running[stay] = row
            stay += 1
        else:
            lists.finished[now.finished] = row
            now.finished += 1
    now.running = stay


@part
def run_batch(run: Run, seconds: float) -> None:
    """Run the batch that `take` summed up, for `seconds`: advance the clock, run its tokens, add to totals and the table."""
    now, batch, started_s = run.now, run.batch, run.now.now_s
    held, ran, waits = run.fixed.kv_capacity - now.kv_free, now.running, now.waiting
    now.seen_s = started_s
    now.now_s = started_s + seconds
    now.busy_s += seconds
    produced = run_tokens(run, started_s)
    now.prefill_tokens += int(batch[content.PREFILL_TOKENS])
    now.decode_tokens += int(batch[content.DECODES])
    now.iteration += 1
    table, at, counts = run.table, now.rows, run.policy.counts
    if table.start_s.size > 0:
        table.start_s[at], table.seconds[at] = started_s, seconds
        table.tokens[at], table.prefill_tokens[at] = int(batch[content.TOKENS]), int(batch[content.PREFILL_TOKENS])
        table.requests[at], table.decodes[at] = counts[PICKED], int(batch[content.DECODES])
        table.kv_batch[at], table.kv_held[at] = int(batch[content.KV]), held
        table.running[at], table.waiting[at] = ran, waits
        table.evicted[at], table.produced[at] = counts[EVICTED], produced
        now.rows = at + 1
