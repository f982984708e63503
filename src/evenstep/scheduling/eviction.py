"""Runs running requests, and evicts the one admitted last when memory is short, as vLLM and most other policies do.

The requests evicted in a batch are therefore always those admitted last.
"""

from __future__ import annotations

from evenstep.compiled import part
from evenstep.scheduling.batch import Batch, evict, give_decodes, give_grown, grows, most
from evenstep.scheduling.view import UNLIMITED, RuleView


@part
def run_or_evict(view: RuleView, batch: Batch, position: int, cap: int = UNLIMITED) -> None:
    """Run up to `cap` tokens of a running request; while they do not fit the memory, evict the request admitted last.

    In the end that may be the request at `position` itself. Nothing happens if it is evicted already, or if budget or seats
    are used up. Requests evicted before in this batch must be those admitted last, which is not checked.
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
    """Call `run_or_evict` for the running requests that decode (`decoding` 1) or prefill (0), in order of admission.

    Returns the number of running requests in the other phase, evicted ones included.
    """
    start, others = 0, 0
    if decoding == 1:  # faster, with counters in registers, up to the first request that cannot run
        given = batch.given[0]
        start = give_decodes(view, batch, True)
        others = start - (batch.given[0] - given)
    for position in range(start, view.running.size):
        if view.decoding[view.running[position]] == decoding:
            run_or_evict(view, batch, position)
        else:
            others += 1
    return others
