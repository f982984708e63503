"""The metrics of the middle of a run, without the time in which a fleet fills and drains."""

from __future__ import annotations

from typing import Any

import numpy as np

from evenstep.cost.power import Power
from evenstep.measure.metrics import Slo
from evenstep.measure.records import Run, Totals
from evenstep.measure.tally import Tally

#: Shares of the requests, in the order in which they become visible, with which the middle begins and ends.
BEGIN, END = 0.25, 0.9


def middle(run: Run, slo: Slo | None = None, power: Power | None = None) -> dict[str, Any]:
    """The summary (`Tally`) of the middle of a run that kept its records.

    It has the requests that became visible after the first quarter of all and before the last tenth, and the steps that
    began in that time. Energy, makespan and output tokens are those of these steps. A run begins with an empty fleet, and
    ends while the fleet drains: both make steps shorter and waits rarer than they are under a load that lasts.
    """
    requests, steps = run.requests, run.steps
    assert requests is not None and steps is not None
    order = np.argsort(requests.visible_s, kind="stable")
    first, last = int(BEGIN * requests.rows), int(END * requests.rows)
    begin_s, end_s = requests.visible_s[order[[first, last]]]
    chosen = requests.take(np.sort(order[first:last]))
    within = steps.take(np.flatnonzero((steps.start_s >= begin_s) & (steps.start_s < end_s)))
    tally = Tally(run.conditions, slo=slo, power=power)
    tally.add_steps(within)
    tally.add_requests(chosen)
    totals = Totals(
        requests=chosen.rows,
        output_tokens=int(within.tokens.sum()),
        steps=within.rows,
        decisions=0,
        makespan_s=float(end_s - begin_s),
        load_steps=float(within.load_sum.sum()),
        active_steps=int(within.running.sum()),
        restarts=int(chosen.restarts.sum()),
        overloaded_steps=0,
    )
    return tally.summary(totals)
