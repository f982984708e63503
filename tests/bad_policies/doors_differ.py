"""Its number is larger than a word: plain Python counts on, and the compiled text begins anew at 0."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from evenstep.routing.filling import Open, list_open
from evenstep.routing.rules import Ruled, RuleView, rule


@dataclass(frozen=True, slots=True)
class DoorsDiffer(Ruled):
    pass


Work = Open


@rule
def route(view: RuleView, options: Any, work: Open) -> None:
    count, waiting = list_open(view, work), view.waiting_load.size
    turn = waiting * 4611686018427387904 * 4
    for j in range(count):
        at = j if turn > 0 else count - 1 - j
        if waiting > 0 and work.kv[at] >= view.waiting_load[0]:
            work.worker[0] = work.open[at]
            break


policy = DoorsDiffer
