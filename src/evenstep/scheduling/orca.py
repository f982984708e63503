"""Orca: prefills first, mixed with decodes."""

from __future__ import annotations

from dataclasses import dataclass

from evenstep.scheduling.filling import Filling
from evenstep.scheduling.phases import needed_by, run_decodes, run_prefills
from evenstep.scheduling.view import BatchDecision, EngineView


@dataclass(frozen=True, slots=True)
class Orca:
    """Work-conserving: prefills of running requests, then of the queue's first, then everybody's decodes in what is left.

    A prompt longer than what is left of the budget runs in chunks, as the paper's model has it (Orca itself has no
    budget and runs prompts whole). A request is admitted when the whole of its prefill fits beside what those that decode
    take next.

    Source: Throughput-optimal sec. 3; Orca (OSDI 2022).
    """

    def form_batch(self, view: EngineView) -> BatchDecision:
        filling = Filling(view)
        decodes = [k for k in range(filling.running) if view.decoding[k]]
        chunks = [k for k in range(filling.running) if not view.decoding[k]]
        run_prefills(filling, chunks, 0)
        run_prefills(filling, range(filling.running, view.left.size), needed_by(filling, decodes))
        run_decodes(filling, decodes)
        return filling.decision()


policy = Orca
