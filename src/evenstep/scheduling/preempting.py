"""Running what runs, and evicting the one admitted last when memory is short: vLLM's rule, and most others'."""

from __future__ import annotations

from evenstep.scheduling.filling import Filling
from evenstep.scheduling.view import UNLIMITED


def run_or_evict(filling: Filling, request: int, most: int = UNLIMITED) -> None:
    """Run a running request, `most` tokens of it; while it does not fit, the one admitted last is evicted, itself if it
    is that."""
    if filling.evicted[request]:
        return
    tokens = min(filling.most(request), most)
    while tokens > 0 and filling.grows(request, tokens) > filling.free:
        victim = last_kept(filling)
        filling.evict(victim)
        if victim == request:
            return
        tokens = min(filling.most(request), most)
    if tokens > 0:
        filling.give(request, tokens)


def last_kept(filling: Filling) -> int:
    """The running request admitted last that has not been evicted."""
    return max(k for k in range(filling.running) if not filling.evicted[k])
