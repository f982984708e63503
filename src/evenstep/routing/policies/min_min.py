"""Min-min: the shortest request goes first, to the worker of smallest load."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from evenstep.routing.completion_time import ByLength, send_by_length
from evenstep.routing.completion_time import CompletionWork as Work
from evenstep.routing.rules import RuleView, rule


@dataclass(frozen=True, slots=True)
class MinMin(ByLength):
    """The shortest request of the whole pool goes to the worker of smallest load with room, repeated.

    Long requests would starve without `age_limit`.

    Source: BF-IO App. A.1.1, over the pool of waiting requests; ageing is ours.
    """

    where: ClassVar[str] = "min-min"


@rule
def route(view: RuleView, options: Any, work: Work) -> None:
    """Send overdue requests, oldest first, then the others, shortest first; see `completion_time.send_by_length`."""
    send_by_length(view, options, False, work)


policy = MinMin
