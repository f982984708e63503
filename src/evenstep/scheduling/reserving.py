"""Admitting by a believed output length so that memory suffices to the end: A_max, H-SF, A_random and A_ell.

Those that run grow, in order of admission, decodes before chunks of prefills. As long as they fit to their ends (eq. 3)
all do. Where a token budget or a batch limit has kept some from running, memory may need some to pause, with what they
hold, and those nearest to their end go on: while believed lengths are upper bounds, nobody is ever evicted. Where one was
not, the request admitted last gives way. Then the queue is taken in order, as far as eq. 3 allows.
`reserving_kernel` is the compiled twin.
"""

from __future__ import annotations

from collections.abc import Callable

from evenstep.scheduling.feasible import UNKNOWN, Ahead
from evenstep.scheduling.filling import Filling
from evenstep.scheduling.giving_way import decodes_first, grow_or_give_way
from evenstep.scheduling.view import BatchDecision, EngineView


def highest(view: EngineView, request: int) -> float:
    """The upper bound of a request's output, tokens."""
    return int(view.output_high[request]) or UNKNOWN


def batch_of_reserved(
    view: EngineView,
    believed: Callable[[EngineView, int], float],
    *,
    share: float = 1.0,
    leaving: list[int] | None = None,
) -> BatchDecision:
    """A batch in which everybody's memory suffices to its believed end.

    Args:
        view: the engine.
        believed: output length of a request of the view, tokens.
        share: of the memory that admissions may fill.
        leaving: running requests that go behind the queue; those that would come back at once keep their memory.
    """
    filling = Filling(view)
    for request in leaving or ():
        filling.evict(request)
    stay = [k for k in range(filling.running) if not filling.evicted[k]]
    ahead = Ahead(view)
    for request in stay:
        ahead.add(request, believed(view, request))
    allowed = {stay[number] for number in ahead.may_grow()}
    if stay and not allowed:
        grow_or_give_way(filling, stay, lambda request: -request)
    else:
        for request in decodes_first(view, stay):
            if request in allowed:
                filling.offer(request)
        if admit(filling, ahead, believed, share):
            take_back(filling, ahead, believed, leaving or [])
    return filling.decision()


def admit(filling: Filling, ahead: Ahead, believed: Callable[[EngineView, int], float], share: float) -> bool:
    """Start requests of the queue in its order, up to the first that would not fit to its end; whether all have started.

    Where nobody holds memory the first starts in any case: the engine has made sure that it fits alone.

    Args:
        filling: the batch.
        ahead: those that stay.
        believed: output length of a request of the view, tokens.
        share: of the memory that may be filled.
    """
    view = filling.view
    ahead.capacity = int(share * view.kv_capacity)
    for request in range(filling.running, view.left.size):
        length = believed(view, request)
        if ahead.entries and not ahead.fits_with(request, length):
            return False
        if not filling.offer(request):
            return False
        ahead.add(request, length)
    return True


def take_back(
    filling: Filling, ahead: Ahead, believed: Callable[[EngineView, int], float], leaving: list[int]
) -> None:
    """Requests that gave up their memory in this batch come back in order, as far as they fit to their ends."""
    for request in leaving:
        length = believed(filling.view, request)
        if filling.places <= 0 or (ahead.entries and not ahead.fits_with(request, length)):
            return
        filling.keep(request)
        if not filling.offer(request):
            filling.evict(request)
            return
        ahead.add(request, length)
