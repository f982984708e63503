# pyright: basic
"""The policy `best`, compiled; twin of `best.Best.form_batch`. Arguments as in `scheduling.view`."""

from __future__ import annotations

import numpy as np

from evenstep.compiled import batch_kernel, borrowing, borrowing_inlined
from evenstep.scheduling import knee_kernel
from evenstep.scheduling.best import AHEAD, FADES, KNOWN, PASSED, SIZES, WAITED
from evenstep.scheduling.filling_kernel import (
    BUDGET_LEFT,
    FREE,
    PLACES,
    ROOM,
    SEATS,
    give,
    grows,
    most,
    open_batch,
)
from evenstep.scheduling.foremost import FEWEST
from evenstep.scheduling.foremost_kernel import found, has_joined, leave, look_over, recall
from evenstep.scheduling.knee import DECODED, LEAST, PRICE
from evenstep.scheduling.knee import FREE as FREE_S
from evenstep.scheduling.pace import COUNT, SECONDS
from evenstep.scheduling.pace_kernel import budget, kept, learn, line, note, quantised
from evenstep.scheduling.view import (
    DECODING,
    EVICTED,
    EVICTIONS,
    HIGH,
    KV_CAPACITY,
    KV_FREE,
    LEFT,
    LOW,
    PICKED,
    PREFILLED,
    PROMPT,
    RESIDENT,
    RUNNING,
    TOKEN_BUDGET,
    UNLIMITED,
    WAITING,
)

ROOM_LEFT, WATERMARK, PATIENCE, WINDOW, TARGET_S, PACED = range(6)


def scratch(running, waiting, parameters):
    """Working space: (int64, float64) words for R running and W waiting requests.

    For each that runs a flag whether it has been evicted, and room for the positions of those in their prefill.
    """
    return ROOM + 2 * running, 0


@borrowing
def evict_least(limits, left, rows, running, R, picked, given):
    """Whoever has computed least gives up its memory, and what it was given; its position."""
    victim, least = -1, 0
    for k in range(R):
        computed = rows[PREFILLED, running[k]]
        if left[ROOM + k] == 0 and (victim < 0 or computed <= least):
            victim, least = k, computed
    row = running[victim]
    for p in range(given):
        if picked[0, p] == victim and picked[1, p] > 0:
            tokens = picked[1, p]
            left[FREE] += grows(limits, rows, row, tokens)
            left[BUDGET_LEFT] += tokens
            left[SEATS] += 1
            picked[1, p] = 0
    left[FREE] += rows[RESIDENT, row]
    left[PLACES] += 1
    left[ROOM + victim] = 1
    return victim


@borrowing
def evict_for(limits, left, rows, running, R, position, picked, given, gone):
    """Evict until a running request fits or is itself evicted; how many have gone in this batch."""
    if gone == 0:
        for k in range(R):
            left[ROOM + k] = 0
    row = running[position]
    tokens = most(left, rows, row)
    while tokens > 0 and grows(limits, rows, row, tokens) > left[FREE]:
        gone += 1
        if evict_least(limits, left, rows, running, R, picked, given) == position:
            return gone
        tokens = most(left, rows, row)
    return gone


@borrowing_inlined
def run_one(limits, left, rows, running, R, position, picked, given, gone):
    """Run a running request, or evict for it: (given, gone)."""
    row = running[position]
    tokens = most(left, rows, row)
    if tokens > 0 and grows(limits, rows, row, tokens) > left[FREE]:
        gone = evict_for(limits, left, rows, running, R, position, picked, given, gone)
        if left[ROOM + position] == 1:
            return given, gone
        tokens = most(left, rows, row)
    if tokens > 0:
        given = give(limits, left, rows, row, tokens, position, picked, given)
    return given, gone


@borrowing
def run_decodes(limits, left, rows, running, R, runs, picked, gone):
    """Run the running requests that decode if it `runs` them, and note who is in its prefill: (given, gone, chunks)."""
    given, chunks = 0, 0
    for position in range(R):
        if rows[DECODING, running[position]] == 0:
            left[ROOM + R + chunks] = position
            chunks += 1
        elif runs and not (gone > 0 and left[ROOM + position] == 1):
            given, gone = run_one(limits, left, rows, running, R, position, picked, given, gone)
    return given, gone, chunks


@borrowing
def shortest_first(left, rows, running, R, chunks):
    """Sort the running prefills by tokens left, the earlier admitted of equals first."""
    for c in range(1, chunks):
        position, at = left[ROOM + R + c], c
        tokens = rows[LEFT, running[position]]
        while at > 0 and rows[LEFT, running[left[ROOM + R + at - 1]]] > tokens:
            left[ROOM + R + at] = left[ROOM + R + at - 1]
            at -= 1
        left[ROOM + R + at] = position


@borrowing
def run_chunks(limits, left, rows, running, R, chunks, picked, given, gone):
    """Run the running prefills in their order: (given, gone)."""
    for c in range(chunks):
        position = left[ROOM + R + c]
        if not (gone > 0 and left[ROOM + position] == 1):
            given, gone = run_one(limits, left, rows, running, R, position, picked, given, gone)
    return given, gone


@borrowing
def promise(limits, left, rows, running, waiting, first, R, chunks, picked, start, given):
    """KV tokens that prefills will need beyond what this batch gives them, those of running requests and newcomers."""
    total = 0
    for c in range(chunks):
        row = running[left[ROOM + R + c]]
        total += grows(limits, rows, row, rows[LEFT, row])
    for p in range(start, given):
        position = picked[0, p]
        if position >= R:
            row = waiting[first + position - R]
            total += grows(limits, rows, row, rows[LEFT, row]) - grows(limits, rows, row, picked[1, p])
        else:
            total -= grows(limits, rows, running[position], picked[1, p])
    return total


@borrowing
def room_for(limits, rows, running, R, W, arrived, memory, parameters):
    """KV tokens an admission leaves free: mean outputs, as far as evictions cost more than empty memory."""
    finished, prompts = -R - W, 0
    for k in range(arrived.size):
        finished += arrived[k]
    if finished < KNOWN:
        return np.int64(parameters[WATERMARK] * limits[KV_CAPACITY])
    output, share = memory[DECODED] / finished, 1.0
    price_s, _, iteration_s = line(memory)
    if memory[PRICE] != 0:
        price_s, iteration_s = kept(memory, PRICE), kept(memory, SECONDS) / kept(memory, COUNT)
    if price_s > 0.0 and output > 0.0:
        for position in range(R):
            prompts += rows[PROMPT, running[position]]
        dear = (
            float(limits[KV_CAPACITY] - limits[KV_FREE])
            * float(prompts)
            * price_s
            / (output * output * iteration_s)
        )
        share = dear / (1.0 + dear)
    return np.int64(parameters[ROOM_LEFT] * output * share)


@borrowing
def next_of(
    now_s, limits, rows, arrival_s, waiting, first, count, R, W, memory, patience, picked, start, given, newcomers
):  # fmt: skip
    """Who joins next: the oldest if it is overdue, else the first that was evicted, else the shortest."""
    oldest, sizes = 0, kept(memory, SIZES)
    if newcomers > 0:
        while oldest < count and has_joined(picked, start, given, R + oldest):
            oldest += 1
    if oldest == count:
        return -1
    patience_s = patience * (kept(memory, WAITED) / sizes if sizes > 0.0 else 0.0)
    if patience == 0.0 or 0.0 < patience_s < quantised(now_s - arrival_s[waiting[first + oldest]]):
        return oldest
    i = found(memory, rows, waiting, first, R, W, picked, start, given, newcomers)
    if i < 0:
        i, _ = look_over(
            memory, limits, rows, waiting, first, count, R, picked, start, given, newcomers, 0, 0, 0, 0, 1
        )  # fmt: skip
    return i


@borrowing
def leaving(rows, running, R, largest):
    """KV tokens that one of those that decode gives back when it leaves: the largest, or one of mean size."""
    total, many, most_held = 0, 0, 0
    for k in range(R):
        row = running[k]
        if rows[DECODING, row] == 1:
            held = rows[RESIDENT, row]
            total += held
            many += 1
            most_held = max(most_held, held)
    if many == 0:
        return 0
    return most_held if largest else total // many


@borrowing
def who_passes(
    now_s, limits, left, rows, arrival_s, arrived, running, waiting, first, count, R, W, memory, parameters, picked, start,
    given, blocked, free, short, longest, newcomers,
):  # fmt: skip
    """The shortest that may go ahead of one that does not fit; -1 where nobody may. See `best.Best.who_passes`."""
    sizes = kept(memory, SIZES)
    mean_s = kept(memory, WAITED) / sizes if sizes > 0.0 else 0.0
    if quantised(now_s - arrival_s[blocked]) >= PASSED * parameters[PATIENCE] * mean_s:
        return -1
    fewest = memory[FEWEST]
    if fewest > longest or fewest + R * fewest // left[BUDGET_LEFT] > free:
        return -1
    spare = leaving(rows, running, R, 0.0 < kept(memory, PRICE) <= FREE_S) - short
    if fewest > spare:
        return -1
    reserve = room_for(limits, rows, running, R, W, arrived, memory, parameters) if R + newcomers > 0 else 0
    if fewest > 0 and fewest + reserve > free:
        return -1
    i = found(memory, rows, waiting, first, R, W, picked, start, given, newcomers)
    if i >= 0 and rows[EVICTIONS, waiting[first + i]] == 0:
        row = waiting[first + i]
        tokens, whole = rows[LEFT, row], grows(limits, rows, row, rows[LEFT, row])
        others = max(reserve, R * tokens // left[BUDGET_LEFT])
        if tokens <= longest and whole <= spare and whole + others <= free:
            return i
    _, i = look_over(
        memory, limits, rows, waiting, first, count, R, picked, start, given, newcomers, free, spare, reserve, longest,
        left[BUDGET_LEFT],
    )  # fmt: skip
    return i


@borrowing
def admit(
    now_s, limits, left, rows, arrival_s, arrived, running, waiting, first, R, W, chunks, memory, parameters, longest,
    spend, picked, start, given,
):  # fmt: skip
    """Waiting requests join one by one, as long as the next fits whole; how many are given now."""
    if W == 0 or left[SEATS] <= 0 or left[BUDGET_LEFT] <= 0:
        return given
    promised, runs = promise(limits, left, rows, running, waiting, first, R, chunks, picked, start, given), R
    for p in range(start, given):
        runs += 1 if picked[0, p] >= R else 0
    if left[FREE] <= promised:
        return given
    # the reserve is not known yet: it takes a walk over all who run, and most of the time memory is full without it
    reserve = -1
    count, patience = min(W, int(parameters[WINDOW])), parameters[PATIENCE]
    seen = 0
    for k in range(arrived.size):
        seen += arrived[k]
    recall(memory, rows, waiting, first, R, W, count, seen, picked, start, given, runs - R)
    while left[SEATS] > 0 and left[BUDGET_LEFT] > 0:
        free = left[FREE] - promised
        if memory[FEWEST] > min(longest, spend, free):
            break
        i = next_of(
            now_s, limits, rows, arrival_s, waiting, first, count, R, W, memory, patience, picked, start, given, runs - R
        )  # fmt: skip
        if i < 0:
            break
        row = waiting[first + i]
        tokens, tokens_left = most(left, rows, row), rows[LEFT, row]
        whole = grows(limits, rows, row, tokens_left)
        if tokens < 1 or tokens_left > min(longest, spend):
            break
        if runs > 0 and whole <= free and reserve < 0:
            reserve = room_for(limits, rows, running, R, W, arrived, memory, parameters)
        if whole > free - (reserve if runs > 0 and whole <= free else 0):
            i = who_passes(
                now_s, limits, left, rows, arrival_s, arrived, running, waiting, first, count, R, W, memory, parameters,
                picked, start, given, row, free, whole - free, min(longest, spend), runs - R,
            )  # fmt: skip
            if i < 0:
                break
            row = waiting[first + i]
            tokens, tokens_left = most(left, rows, row), rows[LEFT, row]
            whole = grows(limits, rows, row, tokens_left)
        promised += whole - grows(limits, rows, row, tokens)
        leave(memory, i, R, picked, start, given)
        given = give(limits, left, rows, row, tokens, R + i, picked, given)
        spend -= tokens_left
        runs += 1
        if rows[EVICTIONS, row] == 0:
            size = float(rows[PROMPT, row]) + 0.5 * float(rows[LOW, row] + rows[HIGH, row])
            waited = FADES * kept(memory, WAITED) + size * quantised(now_s - arrival_s[row])
            memory[WAITED] = np.float64(waited).view(np.int64)
            memory[SIZES] = np.float64(FADES * kept(memory, SIZES) + size).view(np.int64)
    return given


@borrowing
def behind(limits, left, rows, running, waiting, first, R, W, chunks, picked, given, gone):
    """Requests that could prefill as well as the first: running ones, and as many that wait as might fit."""
    others = max(chunks - 1, 0)
    if W == 0 or gone > 0:
        return others
    free = left[FREE] - promise(limits, left, rows, running, waiting, first, R, chunks, picked, given, given)
    return others + min(W, max(free, 0) // rows[LEFT, waiting[first]])


@borrowing
def in_order(picked, start, given):
    """What is picked, sorted by position from `start` on."""
    for p in range(start + 1, given):
        q, position, tokens = p, picked[0, p], picked[1, p]
        while q > start and picked[0, q - 1] > position:
            picked[0, q], picked[1, q] = picked[0, q - 1], picked[1, q - 1]
            q -= 1
        picked[0, q], picked[1, q] = position, tokens


@borrowing
def answer(counts, left, R, picked, evicted, given, gone):
    """Write down who is picked and who evicted; what was taken back is left out."""
    written, out = given, 0
    if gone > 0:
        written = 0
        for p in range(given):
            if picked[1, p] > 0:
                picked[0, written], picked[1, written] = picked[0, p], picked[1, p]
                written += 1
        for position in range(R):
            if left[ROOM + position] == 1:
                evicted[out] = position
                out += 1
    counts[PICKED], counts[EVICTED] = written, out


@batch_kernel
def form_batch_into(
    iteration, seed, now_s, limits, running, waiting, first, counts,
    rows, arrival_s, arrived, memory, parameters, scratch_i, scratch_f, picked, evicted,
):  # fmt: skip
    left, R, W = scratch_i, counts[RUNNING], counts[WAITING]
    open_batch(limits, left, R)
    knee_kernel.learn(memory, now_s, R)
    learn(memory, now_s)
    if parameters[TARGET_S] > 0.0:
        decodes = 0
        for position in range(R):
            decodes += rows[DECODING, running[position]]
        left[BUDGET_LEFT] = budget(memory, parameters[TARGET_S], decodes, limits[TOKEN_BUDGET])
    whole_budget = left[BUDGET_LEFT]
    apart = parameters[PACED] > 0.0 and parameters[TARGET_S] == 0.0 and knee_kernel.apart(memory)
    given, gone, chunks = run_decodes(limits, left, rows, running, R, not apart, picked, 0)
    start, decoded, ran = given, 0, 0
    if parameters[PACED] > 0.0:
        for p in range(given):
            ran += picked[1, p]
        others = behind(limits, left, rows, running, waiting, first, R, W, chunks, picked, given, gone)
        tokens = knee_kernel.budget(memory, ran, others, whole_budget)
        held_back = max(left[BUDGET_LEFT] - max(tokens - ran, LEAST), 0)
        left[BUDGET_LEFT] -= held_back
        whole_budget -= held_back
    if chunks > 0:
        shortest_first(left, rows, running, R, chunks)
        if gone == 0:
            shortest = rows[LEFT, running[left[ROOM + R]]]
            given = admit(
                now_s, limits, left, rows, arrival_s, arrived, running, waiting, first, R, W, chunks, memory, parameters,
                shortest - 1, left[BUDGET_LEFT] // AHEAD, picked, start, given,
            )  # fmt: skip
        given, gone = run_chunks(limits, left, rows, running, R, chunks, picked, given, gone)
    if gone == 0:
        given = admit(
            now_s, limits, left, rows, arrival_s, arrived, running, waiting, first, R, W, chunks, memory, parameters,
            UNLIMITED, UNLIMITED, picked, start, given,
        )  # fmt: skip
    if apart and left[BUDGET_LEFT] == whole_budget:
        given, gone, chunks = run_decodes(limits, left, rows, running, R, True, picked, gone)
        start = given
    in_order(picked, start, given)
    tokens = whole_budget - left[BUDGET_LEFT]
    for p in range(start):  # decodes stand first, and have one token if they were not evicted
        decoded += picked[1, p]
    knee_kernel.note(memory, tokens - decoded, decoded)
    note(memory, now_s, tokens)
    answer(counts, left, R, picked, evicted, given, gone)
    return np.inf
