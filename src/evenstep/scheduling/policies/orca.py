"""Orca: prefills first, in batches mixed with decodes."""

from __future__ import annotations

from dataclasses import dataclass

from evenstep.scheduling.batch import Batch, admit_first, grows
from evenstep.scheduling.eviction import run_phase
from evenstep.scheduling.rules import Ruled, RuleView, rule


@dataclass(frozen=True, slots=True)
class Orca(Ruled):
    """Work-conserving: runs prefills under way, then those of the queue's head, then decodes in the rest of the budget.

    A prompt longer than what is left of the budget runs in chunks, as in the paper's model (Orca itself has no budget and
    runs prompts whole). If a running request does not fit the memory, the one admitted last is evicted, and no request is
    admitted in this iteration. A request is admitted if its whole prefill fits next to the tokens that decodes take next.

    Source: Throughput-optimal sec. 3; Orca (OSDI 2022).
    """


@rule
def form_batch(view: RuleView, options: Orca, batch: Batch) -> None:
    """Run running prefills, then the queue in order unless a request was evicted, then decodes."""
    run_phase(view, batch, 0)
    if batch.gone[0] == 0:
        needed = 0
        for position in range(view.running.size):
            row: int = view.running[position]
            if view.decoding[row] == 1:
                needed += grows(view, row, 1)
        admit_first(view, batch, view.waiting.size, needed)
    run_phase(view, batch, 1)


policy = Orca
