"""The two phases of a batch, decodes and prefills, each first come, first served; in plain Python.

`work-conserving` and `orca` are made of them. `phases_kernel` is the compiled twin.
"""

from __future__ import annotations

from collections.abc import Sequence

from evenstep.scheduling.filling import Filling
from evenstep.scheduling.preempting import run_or_evict


def run_decodes(filling: Filling, requests: Sequence[int]) -> None:
    """Running requests that decode, in this order."""
    for request in requests:
        run_or_evict(filling, request)


def run_prefills(filling: Filling, requests: Sequence[int], reserve: int) -> None:
    """Requests with prefill left, in this order; those that wait stay out once somebody was evicted or one does not fit.

    Args:
        reserve: KV tokens of memory that an admission leaves free: what running requests need that come after it.
    """
    may_admit = True
    for request in requests:
        if request < filling.running:
            run_or_evict(filling, request)
        elif may_admit and not filling.evicted.any():
            may_admit = filling.admit(request, reserve)


def needed_by(filling: Filling, requests: Sequence[int]) -> int:
    """KV tokens of memory that running requests take for a token each."""
    return sum(filling.grows(k, 1) for k in requests if not filling.evicted[k])
