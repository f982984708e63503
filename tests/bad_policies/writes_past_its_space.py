"""It writes a number after the last request's: compiled code does so, and plain Python raises."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from evenstep.routing.rules import Ruled, RuleView, rule


@dataclass(frozen=True, slots=True)
class WritesPastItsSpace(Ruled):
    pass


@rule
def route(view: RuleView, options: Any, work: Any) -> None:
    work.worker[view.waiting_load.size] = 0


policy = WritesPastItsSpace
