"""vLLM as it schedules today (V1, version 0.32): running requests in order, then the queue."""

from __future__ import annotations

from dataclasses import dataclass

from evenstep.errors import InputError
from evenstep.scheduling.filling import Filling
from evenstep.scheduling.preempting import run_or_evict
from evenstep.scheduling.view import UNLIMITED, BatchDecision, EngineView


@dataclass(frozen=True, slots=True)
class Vllm:
    """Running requests in order of admission, whatever their phase; then the queue's first, as far as they fit.

    A running request that does not fit evicts the one admitted last; after an eviction nobody is admitted in this
    iteration. At most `batch_limit` requests hold memory at a time.

    Args:
        watermark: share of the memory that an admission leaves free while others run.
        reserve_full_prompt: admit a request only if its whole prompt (and what it has produced) fits, not only the chunk
            it would run now.
        long_prefill_token_threshold: tokens of a prefill chunk at most, while there is another request; 0 = no limit.

    Raises:
        InputError: a value out of range.

    Source: vLLM 0.32, `vllm/v1/core/sched/scheduler.py` and `allocate_slots` of its KV cache manager; the options are its
        `watermark`, `scheduler_reserve_full_isl` and `long_prefill_token_threshold` with its defaults.
    """

    watermark: float = 0.0
    reserve_full_prompt: bool = True
    long_prefill_token_threshold: int = 0

    def __post_init__(self) -> None:
        if not 0.0 <= self.watermark < 1.0:
            raise InputError("vllm", "watermark", self.watermark, "a share of the memory, 0 <= share < 1")
        if self.long_prefill_token_threshold < 0:
            raise InputError(
                "vllm", "long_prefill_token_threshold", self.long_prefill_token_threshold, "tokens, >= 0"
            )

    def form_batch(self, view: EngineView) -> BatchDecision:
        filling, count = Filling(view), view.left.size
        chunk = self.long_prefill_token_threshold if count > 1 else 0
        chunk = chunk or UNLIMITED
        for request in range(filling.running):
            run_or_evict(filling, request, chunk)
        if not filling.evicted.any():
            blocks = int(self.watermark * (view.kv_capacity // view.block_tokens))
            for request in range(filling.running, min(count, view.batch_limit)):
                reserve = blocks * view.block_tokens if request > 0 else 0
                tokens = min(filling.most(request), chunk)
                whole = int(view.left[request]) if self.reserve_full_prompt else tokens
                if tokens < 1 or filling.grows(request, whole) > filling.free - reserve:
                    break
                filling.give(request, tokens)
        return filling.decision()


policy = Vllm
