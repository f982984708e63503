"""The scheduler of vLLM V1 (version 0.32): running requests in order, then the queue."""

from __future__ import annotations

from dataclasses import dataclass

from evenstep.errors import check_range
from evenstep.scheduling.batch import Batch, check_watermark, give, give_decodes, grows, most, share_of_memory
from evenstep.scheduling.eviction import run_or_evict
from evenstep.scheduling.rules import Ruled, RuleView, rule
from evenstep.scheduling.view import UNLIMITED


@dataclass(frozen=True, slots=True)
class Vllm(Ruled):
    """Runs running requests in order of admission, prefill or decode alike; then the queue's first, while they fit.

    If a running request does not fit, the one admitted last is evicted, and no request is admitted in this iteration. At
    most `batch_limit` requests hold memory at a time.

    Args:
        watermark: share of the memory that an admission leaves free while others run.
        reserve_full_prompt: admit a request only if its whole prompt (and what it has produced) fits, not only the chunk it
            would run now.
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
        check_watermark("vllm", self.watermark)
        given = self.long_prefill_token_threshold
        check_range("vllm", "an integer >= 0", "0 is no limit.", low=0, long_prefill_token_threshold=given)


@rule
def form_batch(view: RuleView, options: Vllm, batch: Batch) -> None:
    """Run running requests in order of admission; then, if none was evicted, the queue up to the first that cannot run."""
    runs, waits = view.running.size, view.waiting.size
    chunk = options.long_prefill_token_threshold
    if runs + waits <= 1 or chunk == 0:
        chunk = UNLIMITED
    for position in range(give_decodes(view, batch, False), runs):
        run_or_evict(view, batch, position, chunk)
    if batch.gone[0] > 0:
        return
    watermark = share_of_memory(view, options.watermark)
    for i in range(min(waits, view.batch_limit - runs)):
        row: int = view.waiting[i]
        tokens: int = min(most(view, batch, row), chunk)
        whole: int = view.left[row] if options.reserve_full_prompt else tokens
        reserve = watermark if runs + i > 0 else 0
        if tokens < 1 or grows(view, row, whole) > batch.free[0] - reserve:
            break
        give(view, batch, row, runs + i, tokens)


policy = Vllm
