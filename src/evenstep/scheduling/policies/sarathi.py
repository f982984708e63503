"""Sarathi: decodes first, then prefill chunks, up to the token budget."""

from __future__ import annotations

from dataclasses import dataclass

from evenstep.compiled import part
from evenstep.scheduling.batch import Batch, admit_first
from evenstep.scheduling.eviction import run_phase
from evenstep.scheduling.rules import Ruled, RuleView, rule


@dataclass(frozen=True, slots=True)
class Sarathi(Ruled):
    """Work-conserving: runs requests that decode, then those in the middle of their prefill, then the queue's first.

    A batch mixes phases and fills the budget while batch limit and memory allow. If a running request does not fit, the one
    admitted last is evicted, and no request is admitted. A request is admitted if its whole prefill fits, as in
    Sarathi-Serve: if only the next chunk had to fit, engines short of memory would admit too many and evict them again.

    Source: Throughput-optimal sec. 2.3; Sarathi-Serve (OSDI 2024), algorithm 3.
    """


@rule
def form_batch(view: RuleView, options: Sarathi, batch: Batch) -> None:
    """Run decodes, then running prefills, then the queue in order unless a request was evicted."""
    decodes_first(view, batch)


@part
def decodes_first(view: RuleView, batch: Batch) -> None:
    """Form Sarathi's batch: decodes, running prefills, and if no request was evicted the queue, in the order it has."""
    if run_phase(view, batch, 1) > 0:
        run_phase(view, batch, 0)
    if batch.gone[0] == 0:
        admit_first(view, batch, view.waiting.size, 0)


policy = Sarathi
