# pyright: basic
"""Running what runs and evicting the one admitted last, compiled: the twin of `preempting`.

Who is evicted is a tail of those that run, so how many are `kept` says it all.
"""

from __future__ import annotations

from evenstep.compiled import borrowing, borrowing_inlined
from evenstep.scheduling.filling_kernel import BUDGET_LEFT, FREE, PLACES, SEATS, give, grows, most
from evenstep.scheduling.view import EVICTED, PICKED, RESIDENT, RUNNING, UNLIMITED


@borrowing
def evict_last(limits, left, rows, running, kept, picked, given):
    """The running request admitted last gives up its memory, and what it was given; how many are kept now."""
    kept -= 1
    row = running[kept]
    for p in range(given):
        if picked[0, p] == kept and picked[1, p] > 0:
            tokens = picked[1, p]
            left[FREE] += grows(limits, rows, row, tokens)
            left[BUDGET_LEFT] += tokens
            left[SEATS] += 1
            picked[1, p] = 0
    left[FREE] += rows[RESIDENT, row]
    left[PLACES] += 1
    return kept


@borrowing
def evict_for(limits, left, rows, running, kept, position, picked, given, cap):
    """Evict until `cap` tokens of a running request fit or it is itself evicted; how many are kept now."""
    row = running[position]
    tokens = min(most(left, rows, row), cap)
    while tokens > 0 and grows(limits, rows, row, tokens) > left[FREE]:
        kept = evict_last(limits, left, rows, running, kept, picked, given)
        if kept == position:
            return kept
        tokens = min(most(left, rows, row), cap)
    return kept


@borrowing_inlined
def run_or_evict(limits, left, rows, running, kept, position, picked, given, cap=UNLIMITED):
    """Run `cap` tokens of a running request; while they do not fit, the one admitted last is evicted: (given, kept)."""
    if position >= kept:
        return given, kept
    row = running[position]
    tokens = min(most(left, rows, row), cap)
    if tokens > 0 and grows(limits, rows, row, tokens) > left[FREE]:
        kept = evict_for(limits, left, rows, running, kept, position, picked, given, cap)
        if position >= kept:
            return given, kept
        tokens = min(most(left, rows, row), cap)
    if tokens > 0:
        given = give(limits, left, rows, row, tokens, position, picked, given)
    return given, kept


@borrowing
def answer(counts, kept, picked, evicted, given):
    """Write down who is picked and who evicted; what was taken back is left out."""
    R, written = counts[RUNNING], given
    if kept < R:
        written = 0
        for p in range(given):
            if picked[1, p] > 0:
                picked[0, written], picked[1, written] = picked[0, p], picked[1, p]
                written += 1
        for position in range(kept, R):
            evicted[position - kept] = position
    counts[PICKED], counts[EVICTED] = written, R - kept
