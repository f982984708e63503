"""Running what runs, and evicting the one admitted last when memory is short: vLLM's rule, and most others'.

Those that are evicted are a tail of those that run.
"""

from __future__ import annotations

from evenstep.compiled import part
from evenstep.scheduling.batch import Batch, evict, give_decodes, give_grown, grows, most
from evenstep.scheduling.view import UNLIMITED, RuleView


@part
def run_or_evict(view: RuleView, batch: Batch, position: int, cap: int = UNLIMITED) -> None:
    """Run up to `cap` tokens of a running request; while they do not fit, evict the one admitted last, at the end itself.

    Evicted requests must be a tail of the running ones; for one of them nothing happens. Nor does it without budget or
    seats.
    """
    if position >= view.running.size - batch.gone[0]:
        return
    row: int = view.running[position]
    tokens: int = min(most(view, batch, row), cap)
    taken: int = grows(view, row, tokens)
    while tokens > 0 and taken > batch.free[0]:
        last = view.running.size - batch.gone[0] - 1
        evict(view, batch, last)
        tokens: int = min(most(view, batch, row), cap) if last > position else 0
        taken: int = grows(view, row, tokens)
    if tokens > 0:
        give_grown(view, batch, row, position, tokens, taken)


@part
def run_phase(view: RuleView, batch: Batch, decoding: int) -> int:
    """`run_or_evict` for the running requests of one phase, in order of admission: 1 = decodes, 0 = prefills.

    Returns how many running requests are of the other phase.
    """
    start, others = 0, 0
    if decoding == 1:  # counters stay in registers until the first request that something keeps from running
        given = batch.given[0]
        start = give_decodes(view, batch, True)
        others = start - (batch.given[0] - given)
    for position in range(start, view.running.size):
        if view.decoding[view.running[position]] == decoding:
            run_or_evict(view, batch, position)
        else:
            others += 1
    return others
