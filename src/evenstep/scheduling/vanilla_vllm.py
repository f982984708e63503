"""vLLM as it was at first: a batch of prompts, or a batch of decodes, never mixed."""

from __future__ import annotations

from dataclasses import dataclass

from evenstep.errors import InputError
from evenstep.scheduling.filling import Filling
from evenstep.scheduling.preempting import run_or_evict
from evenstep.scheduling.view import BatchDecision, EngineView


@dataclass(frozen=True, slots=True)
class VanillaVllm:
    """While prompts wait and fit, a batch of whole prompts; else one token of each running request, in order of admission.

    Not work-conserving: a batch of few short prompts leaves the budget unused while decodes wait, so it is unstable at
    loads that fit. A prompt longer than the budget runs in chunks, first in its batch. A decode that does not fit evicts the
    request admitted last. At most `batch_limit` requests hold memory at a time. Requests that come back with their KV
    (swap) come before new prompts, in a batch of decodes.

    Args:
        watermark: share of the memory that an admission leaves free while others run.

    Raises:
        InputError: a value out of range.

    Source: Throughput-optimal sec. 3; vLLM up to 0.5 without chunked prefill, whose watermark was 0.01.
    """

    watermark: float = 0.01

    def __post_init__(self) -> None:
        if not 0.0 <= self.watermark < 1.0:
            raise InputError(
                "vanilla-vllm", "watermark", self.watermark, "a share of the memory, 0 <= share < 1"
            )

    def form_batch(self, view: EngineView) -> BatchDecision:
        filling = Filling(view)
        chunks = [k for k in range(filling.running) if not view.decoding[k]]
        for request in chunks:
            run_or_evict(filling, request)
        if not filling.evicted.any():
            self._admit(filling, decoding=False)
        if filling.tokens.any():
            return filling.decision()
        for request in range(filling.running):
            if view.decoding[request]:
                run_or_evict(filling, request)
        if not filling.evicted.any():
            self._admit(filling, decoding=True)
        return filling.decision()

    def _admit(self, filling: Filling, decoding: bool) -> None:
        """The queue's first that are of this phase; whole, but for the first of a batch."""
        view = filling.view
        blocks = int(self.watermark * (view.kv_capacity // view.block_tokens))
        for request in range(filling.running, min(view.left.size, view.batch_limit)):
            whole, is_first = int(view.left[request]), not filling.tokens.any()
            reserve = blocks * view.block_tokens if request > 0 else 0
            if bool(view.decoding[request]) != decoding or (whole > filling.budget and not is_first):
                break
            if filling.grows(request, whole) > filling.free - reserve or not filling.offer(request):
                break


policy = VanillaVllm
