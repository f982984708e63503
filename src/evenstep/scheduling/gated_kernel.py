# pyright: basic
"""Gates, compiled: the twin of `gated`.

Working space, in words: what is left, five numbers a gate, thresholds that are being solved, then a table of (stage, how
many are taken); in floats, the oldest of each gate, then what the solver is told.
"""

from __future__ import annotations

import numpy as np

from evenstep.compiled import borrowing, borrowing_inlined
from evenstep.scheduling.filling_kernel import ROOM, offer, open_batch
from evenstep.scheduling.observed import ARRIVED, BEGUN, BREAKS, FORCE, SEEN, SINCE, START
from evenstep.scheduling.observed import RAN as BATCHED
from evenstep.scheduling.observed_kernel import (
    add,
    begin,
    count_iteration,
    forget_members,
    is_time,
    keep,
    kept_float,
    members_at,
    note_one,
    settle,
    solve_anew,
    turn,
    window_at,
)
from evenstep.scheduling.preempting_kernel import answer, run_or_evict
from evenstep.scheduling.view import (
    CLASS,
    DECODING,
    EVICTIONS,
    FIRST_DECODED,
    KV_CAPACITY,
    PREFILLED,
    PRODUCED,
    PROMPT,
    RUNNING,
    WAITING,
)

#: Numbers of a gate: its threshold, who stands at its head, who is in it, whether it is open, whether somebody ran.
THRESHOLD, HEADS, MEMBERS, OPEN, RAN = range(5)
NUMBERS = 5
# What describes the gates: groups, segments, where the ends and the edges of groups stand among the parameters, how many
# edges (negative: groups are classes), where the table begins, its size, whether thresholds are solved.
GROUPS, SEGMENTS, ENDS_AT, EDGES_AT, EDGES, TABLE, SIZE, SOLVES = range(ROOM, ROOM + 8)
FIRST_GATE = ROOM + 8


def words(running, gates):
    """Working space for so many requests that run and so many gates."""
    return FIRST_GATE + (NUMBERS + 1) * gates + 8 * (running + gates + 1)


def floats(gates):
    """Working space in float64 for so many gates: the oldest of each, then what the solver is told."""
    return 4 * gates


@borrowing
def group_of(space, parameters, rows, row):
    """The group of a request: its class, or how many edges its prompt has reached."""
    if space[EDGES] < 0:
        return min(rows[CLASS, row], space[GROUPS] - 1)
    group = 0
    for e in range(space[EDGES]):
        if rows[PROMPT, row] >= parameters[space[EDGES_AT] + e]:
            group += 1
    return group


@borrowing
def gate_of(space, parameters, rows, row):
    """The gate a request stands behind."""
    segment = 0
    while segment < space[SEGMENTS] - 1 and rows[PRODUCED, row] >= parameters[space[ENDS_AT] + segment]:
        segment += 1
    return group_of(space, parameters, rows, row) * space[SEGMENTS] + segment


@borrowing
def is_head(space, parameters, rows, row):
    """Whether a request stands at the head of its segment and has to wait for others there."""
    if rows[EVICTIONS, row] > 0:
        return False
    if rows[DECODING, row] == 0:
        return rows[PRODUCED, row] == 0
    found = False
    for s in range(space[SEGMENTS] - 1):
        found = found or rows[PRODUCED, row] == parameters[space[ENDS_AT] + s]
    return found


@borrowing
def look(space, oldest, parameters, rows, arrival_s, row):
    """A request is counted behind its gate; whether it stands at a head."""
    gate = gate_of(space, parameters, rows, row)
    at = FIRST_GATE + NUMBERS * gate
    head = is_head(space, parameters, rows, row)
    space[at + MEMBERS] += 1
    space[at + HEADS] += 1 if head else 0
    oldest[gate] = min(oldest[gate], arrival_s[row])
    return head


@borrowing
def look_at_queue(space, oldest, parameters, rows, arrival_s, waiting, first, W):
    """Count those that wait, until every group has its first threshold of fresh ones; how many it looked at."""
    G, S = space[GROUPS], space[SEGMENTS]
    for g in range(G):  # what is still missing is counted where RAN will stand
        space[FIRST_GATE + NUMBERS * g * S + RAN] = space[FIRST_GATE + NUMBERS * g * S + THRESHOLD]
    missing = G
    seen = 0
    while seen < W and missing > 0:
        row = waiting[first + seen]
        if look(space, oldest, parameters, rows, arrival_s, row):
            at = FIRST_GATE + NUMBERS * S * group_of(space, parameters, rows, row) + RAN
            space[at] -= 1
            if space[at] == 0:
                missing -= 1
        seen += 1
    for g in range(G):
        space[FIRST_GATE + NUMBERS * g * S + RAN] = 0
    return seen


@borrowing_inlined
def opens_s(memory, last, oldest, gate, max_hold_s):
    """When a gate opens whoever stands there; `last` is the word of the time it last let somebody run."""
    return max(kept_float(memory, last + gate), oldest[gate]) + max_hold_s


@borrowing
def open_gates(space, oldest, memory, now_s, max_hold_s):
    """Which gates are open; whether somebody stands behind one of them."""
    by_rule, somebody, last = False, False, FORCE + space[GROUPS] * space[SEGMENTS]
    for gate in range(space[GROUPS] * space[SEGMENTS]):
        at = FIRST_GATE + NUMBERS * gate
        is_first = gate % space[SEGMENTS] == 0
        by_rule = space[at + HEADS] >= space[at + THRESHOLD] and (is_first or by_rule)
        held = space[at + MEMBERS] > 0 and now_s >= opens_s(memory, last, oldest, gate, max_hold_s)
        space[at + OPEN] = 1 if by_rule or held else 0
        somebody = somebody or (space[at + OPEN] == 1 and space[at + MEMBERS] > 0)
    return somebody


@borrowing
def clear_table(space, R):
    """Nobody has taken a place; the table is twice as large as there may be stages, a power of two."""
    size = 4
    while size < 2 * (R + space[GROUPS] * space[SEGMENTS] + 1):
        size *= 2
    space[SIZE] = size
    for i in range(space[TABLE], space[TABLE] + 2 * size):
        space[i] = 0


@borrowing
def passes(space, parameters, rows, row):
    """Whether a request is in the batch; its place in its stage is taken."""
    if rows[EVICTIONS, row] > 0:
        return True
    gate = gate_of(space, parameters, rows, row)
    at = FIRST_GATE + NUMBERS * gate
    if space[at + OPEN] == 0:
        return False
    if space[SOLVES] == 1 and not is_head(space, parameters, rows, row):
        return True
    stage = gate * (1 << 40) + (rows[PRODUCED, row] + 2 if rows[DECODING, row] == 1 else 1)
    place = (stage * 40503 ^ (stage >> 17)) & (space[SIZE] - 1)
    while space[space[TABLE] + 2 * place] != 0 and space[space[TABLE] + 2 * place] != stage:
        place = (place + 1) & (space[SIZE] - 1)
    entry = space[TABLE] + 2 * place
    if space[entry + 1] >= space[at + THRESHOLD]:
        return False
    space[entry] = stage
    space[entry + 1] += 1
    return True


@borrowing
def run(limits, space, parameters, rows, running, kept, position, picked, given):
    """Run a running request, the last admitted giving way; its gate has let somebody run: (given, kept)."""
    before = given
    given, kept = run_or_evict(limits, space, rows, running, kept, position, picked, given)
    if given > before:
        space[FIRST_GATE + NUMBERS * gate_of(space, parameters, rows, running[position]) + RAN] = 1
    return given, kept


@borrowing
def left_given(picked, given):
    """How many of those given tokens still have them."""
    count = 0
    for p in range(given):
        if picked[1, p] > 0:
            count += 1
    return count


@borrowing
def break_open(limits, space, parameters, rows, running, kept, picked, given):
    """The deepest segment runs, or what is left of it: (given, kept)."""
    while kept > 0 and left_given(picked, given) == 0:
        deepest = 0
        for position in range(kept):
            deepest = max(deepest, gate_of(space, parameters, rows, running[position]) % space[SEGMENTS])
        many = kept
        for position in range(many):
            if gate_of(space, parameters, rows, running[position]) % space[SEGMENTS] == deepest:
                given, kept = run(limits, space, parameters, rows, running, kept, position, picked, given)
    return given, kept


@borrowing
def set_thresholds(space, memory):
    """The thresholds in force take the place of those given."""
    for gate in range(space[GROUPS] * space[SEGMENTS]):
        space[FIRST_GATE + NUMBERS * gate + THRESHOLD] = memory[FORCE + gate]


@borrowing
def count_arrivals(space, parameters, rows, arrival_s, waiting, first, W, memory):
    """Who stands at the end of the queue and arrived after the last one seen."""
    gates = space[GROUPS] * space[SEGMENTS]
    seen, counted = FORCE + 2 * gates + SEEN, window_at(gates) + ARRIVED
    before_s = kept_float(memory, seen)
    i = W - 1
    while i >= 0 and arrival_s[waiting[first + i]] > before_s:
        memory[counted + group_of(space, parameters, rows, waiting[first + i])] += 1
        i -= 1
    if W > 0:
        keep(memory, seen, max(before_s, arrival_s[waiting[first + W - 1]]))


@borrowing
def observe(
    now_s, limits, running, waiting, first, R, W, rows, arrival_s, memory, parameters, solve_s, slack, space, told
):  # fmt: skip
    """Learn what has happened since the last batch, and set the thresholds in force; see `observed.Observed.observe`."""
    G, S = space[GROUPS], space[SEGMENTS]
    gates = G * S
    begun = memory[FORCE + 2 * gates + BEGUN] == 1
    if begun:
        count_arrivals(space, parameters, rows, arrival_s, waiting, first, W, memory)
        settle(memory, G, gates, 1)
    else:
        for gate in range(gates):
            memory[FORCE + gate] = space[FIRST_GATE + NUMBERS * gate + THRESHOLD]
        begin(memory, G, gates, now_s, solve_s, arrival_s[waiting[first + W - 1]] if W > 0 else now_s)
    forget_members(memory, G, gates)
    members, ends_at, first_token = members_at(G, gates), space[ENDS_AT], 1 - limits[FIRST_DECODED]
    for position in range(R):
        row = running[position]
        if rows[EVICTIONS, row] == 0:
            add(
                memory, members, gates, group_of(space, parameters, rows, row), S, parameters, ends_at, rows[PROMPT, row],
                rows[PRODUCED, row] if rows[DECODING, row] == 1 else -1, False, first_token, 1,
            )  # fmt: skip
    if begun:
        settle(memory, G, gates, -1)
        count_iteration(memory, gates, now_s, R)
    if now_s - kept_float(memory, window_at(gates) + START) >= solve_s:
        turn(memory, G, gates, now_s)
    set_thresholds(space, memory)
    if is_time(memory, gates, now_s, solve_s):
        solve_anew(
            memory, G, S, now_s, limits[KV_CAPACITY], slack, told, gates, space, FIRST_GATE, NUMBERS, THRESHOLD,
            FIRST_GATE + NUMBERS * gates,
        )  # fmt: skip
        set_thresholds(space, memory)


@borrowing
def note(now_s, limits, running, waiting, first, R, rows, memory, parameters, space, kept, picked, given):
    """Take note of the batch that is formed now; see `observed.Observed.note`."""
    G, S, ends_at, batched = space[GROUPS], space[SEGMENTS], space[ENDS_AT], 0
    for p in range(given):
        position, tokens = picked[0, p], picked[1, p]
        if tokens > 0:
            row = running[position] if position < R else waiting[first + position - R]
            batched += rows[PREFILLED, row] + tokens
            group = group_of(space, parameters, rows, row)
            note_one(memory, G, S, parameters, ends_at, limits, rows, row, group, tokens, position < R, True)
    for position in range(kept, R):
        row = running[position]
        group = group_of(space, parameters, rows, row)
        note_one(memory, G, S, parameters, ends_at, limits, rows, row, group, 0, True, False)
    beside = FORCE + 2 * G * S
    keep(memory, beside + SINCE, now_s)
    memory[beside + BATCHED] = batched


@borrowing
def form_gated(
    now_s, limits, running, waiting, first, counts, rows, arrival_s, memory, parameters, max_hold_s, solve_s, slack,
    space, oldest, picked, evicted,
):  # fmt: skip
    """The batch of `gated.batch_behind_gates`; what describes the gates stands in `space`. Returns when to ask again."""
    R, W, gates = counts[RUNNING], counts[WAITING], space[GROUPS] * space[SEGMENTS]
    open_batch(limits, space, R)
    space[TABLE] = FIRST_GATE + (NUMBERS + 1) * gates
    last = FORCE + gates
    space[SOLVES] = 1 if solve_s > 0.0 else 0
    if solve_s > 0.0:
        observe(
            now_s, limits, running, waiting, first, R, W, rows, arrival_s, memory, parameters, solve_s, slack, space, oldest
        )  # fmt: skip
    for gate in range(gates):
        for k in range(HEADS, NUMBERS):
            space[FIRST_GATE + NUMBERS * gate + k] = 0
        oldest[gate] = np.inf
    for position in range(R):
        look(space, oldest, parameters, rows, arrival_s, running[position])
    seen = look_at_queue(space, oldest, parameters, rows, arrival_s, waiting, first, W)
    somebody = open_gates(space, oldest, memory, now_s, max_hold_s)
    clear_table(space, R)
    given, kept = 0, R
    for decoding in range(1, -1, -1):
        for position in range(R):
            row = running[position]
            if rows[DECODING, row] == decoding and passes(space, parameters, rows, row):
                given, kept = run(limits, space, parameters, rows, running, kept, position, picked, given)
    if kept == R:
        for i in range(seen):
            row = waiting[first + i]
            if passes(space, parameters, rows, row):
                before = given
                given = offer(limits, space, rows, row, R + i, 0, picked, given)
                if given == before:
                    break
                space[FIRST_GATE + NUMBERS * gate_of(space, parameters, rows, row) + RAN] = 1
    wake_s = np.inf
    if left_given(picked, given) == 0:
        if kept < R or somebody:
            memory[BREAKS] += 1
            given, kept = break_open(limits, space, parameters, rows, running, kept, picked, given)
        else:
            for gate in range(gates):
                if space[FIRST_GATE + NUMBERS * gate + MEMBERS] > 0:
                    wake_s = min(wake_s, opens_s(memory, last, oldest, gate, max_hold_s))
    for gate in range(gates):
        at = FIRST_GATE + NUMBERS * gate
        if space[at + RAN] == 1 or space[at + MEMBERS] == 0:
            keep(memory, last + gate, now_s)
    if solve_s > 0.0:
        note(now_s, limits, running, waiting, first, R, rows, memory, parameters, space, kept, picked, given)
    answer(counts, kept, picked, evicted, given)
    return wake_s
