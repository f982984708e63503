"""Sarathi: decodes first, then prefill chunks, up to the token budget."""

from __future__ import annotations

from dataclasses import dataclass

from evenstep.scheduling.filling import Filling
from evenstep.scheduling.preempting import run_or_evict
from evenstep.scheduling.view import BatchDecision, EngineView


@dataclass(frozen=True, slots=True)
class Sarathi:
    """Work-conserving: running requests that decode, then those in the middle of their prefill, then the queue's first.

    A batch mixes phases and fills the budget while there is work, memory and a free seat. When a running request does not
    fit, the one admitted last gives up its memory (what it keeps is the engine's overflow rule). A request is admitted
    when the whole of its prefill fits, as Sarathi-Serve allocates it; with only the chunk of the moment to fit, engines
    short of memory admit too many and evict them again.

    Source: Throughput-optimal sec. 2.3; Sarathi-Serve (OSDI 2024), algorithm 3.
    """

    def form_batch(self, view: EngineView) -> BatchDecision:
        filling = Filling(view)
        decodes = [k for k in range(filling.running) if view.decoding[k]]
        chunks = [k for k in range(filling.running) if not view.decoding[k]]
        for request in (*decodes, *chunks):
            run_or_evict(filling, request)
        if not filling.evicted.any():
            for request in range(filling.running, view.left.size):
                if not filling.admit(request):
                    break
        return filling.decision()


policy = Sarathi
