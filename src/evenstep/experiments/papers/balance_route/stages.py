"""BR-H's decision, run only up to a given stage and many times over, to measure the time of each stage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from evenstep.compiled import Ints, IntTable, Table, declared, signature
from evenstep.predict.departures import project
from evenstep.routing.balance_route.assign import STAGE_TWO, AssignWork, decide
from evenstep.routing.filling import count_overdue
from evenstep.routing.policies.br_h import BRH, settings_of
from evenstep.routing.rules import RuleView, rule
from evenstep.routing.view import HOLD


@dataclass(frozen=True, slots=True)
class BRHUntil(BRH):
    """BR-H that makes each decision `repeats` times, up to and including one of its stages.

    Args:
        until: `PREPARATION`, `STAGE_ONE` or `STAGE_TWO`.
        repeats: number of repeats; 0 leaves the answer unset.
    """

    until: int = STAGE_TWO
    repeats: int = 1


Work = AssignWork


@rule
def route(view: RuleView, options: Any, work: AssignWork) -> None:
    """Decide as `br_h` up to stage `options.until`, `options.repeats` times; each time starts with all requests held."""
    for _ in range(options.repeats):
        for i in range(work.worker.size):
            work.worker[i] = HOLD
        late = count_overdue(view, options.age_limit)
        decide(options.until, late, options.discount, settings_of(options, options.order_margin), view, work)


@declared(signature(int, int, Ints, Ints, IntTable, IntTable, Table))
def project_all(repeats: int, load: Any, running: Any, counts: Any, loads: Any, projected: Any) -> int:
    """Compute all workers' projections from their windows of departures `repeats` times; returns `repeats`.

    Args:
        load, running: int64[G], tokens and requests of each worker now, at step 0. Each request gains a token a step.
        counts, loads: int64[G, 2^k], 2^k > H. Column h has the requests that leave before step h, and their tokens by then.
        projected: float64[G, H+1], written.
    """
    for _ in range(repeats):
        for g in range(load.size):
            project(load[g], running[g], 0, 1, 1.0, counts[g], loads[g], projected[g])
    return repeats
