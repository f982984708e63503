"""Sarathi: decodes first, then prefill chunks, up to the token budget."""

from __future__ import annotations

from dataclasses import dataclass

from evenstep.compiled import part
from evenstep.scheduling.batch import Batch, admit_first
from evenstep.scheduling.eviction import run_phase
from evenstep.scheduling.rules import Ruled, RuleView, rule


@dataclass(frozen=True, slots=True)
class Sarathi(Ruled):
    """Work-conserving: running requests that decode, then those in the middle of their prefill, then the queue's first.

    A batch mixes phases and fills the budget while there is batch, memory and a free seat. When a running request does not
    fit, the one admitted last gives up its memory (what it keeps is the engine's overflow rule), and no request is
    admitted. A request is admitted when the whole of its prefill fits, as Sarathi-Serve allocates it. With only the chunk
    of the moment to fit, engines short of memory admit too many and evict them again.

    Source: Throughput-optimal sec. 2.3; Sarathi-Serve (OSDI 2024), algorithm 3.
    """


@rule
def form_batch(view: RuleView, options: Sarathi, batch: Batch) -> None:
    """Run decodes, then running prefills, then the queue in order unless a request was evicted."""
    decodes_first(view, batch)


@part
def decodes_first(view: RuleView, batch: Batch) -> None:
    """Form Sarathi's batch, for a queue in any order: decodes, running prefills, then the queue if none was evicted."""
    if run_phase(view, batch, 1) > 0:
        run_phase(view, batch, 0)
    if batch.gone[0] == 0:
        admit_first(view, batch, view.waiting.size, 0)


policy = Sarathi
