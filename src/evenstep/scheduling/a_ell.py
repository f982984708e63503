"""A_ell: everybody gets its lower bound; who is not finished then goes to the back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from evenstep.scheduling.order import QueueOrder
from evenstep.scheduling.reserving import batch_of_reserved, highest
from evenstep.scheduling.view import BatchDecision, Belief, EngineView


@dataclass(frozen=True, slots=True)
class AEll:
    """Admits in order of arrival by lower bounds; a request that is longer gives up its memory and starts again at the back.

    From then on it is believed to be as long as its upper bound. Made for outputs that are one of two lengths. While
    requests keep arriving, those at the back wait.

    Source: Interval scheduling, Algorithm 6. Our readings: a request is moved once, and one that would come back in the
        same iteration, because all that wait fit and it does too, goes on with what it holds.
    """

    order: ClassVar[QueueOrder] = QueueOrder(arrival=1.0, reached=1e6)
    believes: ClassVar[Belief] = "bounds"

    def form_batch(self, view: EngineView) -> BatchDecision:
        beyond = (view.output_low > 0) & (view.produced == view.output_low) & (view.evictions == 0)
        leaving = [k for k in range(int(view.running.sum())) if beyond[k]]
        return batch_of_reserved(view, lowest_then_highest, leaving=leaving)


def lowest_then_highest(view: EngineView, request: int) -> float:
    """A request's lower bound until it has reached it, then its upper bound, tokens."""
    low = int(view.output_low[request])
    ever = max(int(view.reached[request]), int(view.produced[request]))
    return low if ever < low else highest(view, request)


policy = AEll
