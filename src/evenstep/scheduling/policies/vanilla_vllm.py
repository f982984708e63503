"""The first vLLM: each batch is of prompts or of decodes, never mixed."""

from __future__ import annotations

from dataclasses import dataclass

from evenstep.compiled import part
from evenstep.scheduling.batch import Batch, check_watermark, grows, offer, share_of_memory
from evenstep.scheduling.eviction import run_phase
from evenstep.scheduling.rules import Ruled, RuleView, rule


@dataclass(frozen=True, slots=True)
class VanillaVllm(Ruled):
    """Runs whole prompts while some wait and fit; else one token of each running request, in order of admission.

    Not work-conserving: a batch of few short prompts leaves the budget unused while decodes wait, so it is unstable at loads
    that fit. A prompt longer than the budget runs in chunks, first in its batch. If a decode does not fit, the request
    admitted last is evicted. At most `batch_limit` requests hold memory at a time. Requests that come back with their KV
    (swap) come before new prompts, in a batch of decodes.

    Args:
        watermark: share of the memory that an admission leaves free while others run.

    Raises:
        InputError: a value out of range.

    Source: Throughput-optimal sec. 3; vLLM up to 0.5 without chunked prefill, whose watermark was 0.01.
    """

    watermark: float = 0.01

    def __post_init__(self) -> None:
        check_watermark("vanilla-vllm", self.watermark)


@rule
def form_batch(view: RuleView, options: VanillaVllm, batch: Batch) -> None:
    """Form a batch of prompts, or of decodes if no prompt can run: running ones first, queued ones if none is evicted."""
    watermark = share_of_memory(view, options.watermark)
    for decoding in range(2):
        run_phase(view, batch, decoding)
        if batch.gone[0] == 0:
            join(view, batch, decoding, watermark)
        if batch.given[0] > 0:
            break


@part
def join(view: RuleView, batch: Batch, decoding: int, watermark: int) -> None:
    """Admit requests from the head of the queue while they decode (`decoding` 1) or prefill (0) and fit whole.

    Each leaves `watermark` KV tokens free, except the first one while no request holds memory. The first request of a batch
    may be cut to the budget; a later one longer than the rest of the budget ends admissions.
    """
    runs = view.running.size
    for i in range(min(view.waiting.size, view.batch_limit - runs)):
        row: int = view.waiting[i]
        whole: int = view.left[row]
        reserve = watermark if runs + i > 0 else 0
        if view.decoding[row] != decoding or (whole > batch.budget[0] and batch.given[0] > 0):
            break
        if grows(view, row, whole) > batch.free[0] - reserve or not offer(view, batch, row, runs + i, 0):
            break


policy = VanillaVllm
