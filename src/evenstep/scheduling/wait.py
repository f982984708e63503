"""WAIT: requests of a type run once enough of them wait for prefill."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenstep.scheduling.gated import Gates, batch_behind_gates, check_gates, counts_of
from evenstep.scheduling.observed import Words
from evenstep.scheduling.view import BatchDecision, EngineView


@dataclass(frozen=True, slots=True)
class Wait:
    """Type j joins the next batch when at least n_j of it wait for prefill, with at most n_j requests at each stage.

    The type is the request's class. Of a type that does not join, nobody runs: those that hold memory pause with it.
    What to do at the end of a burst, after evictions and where memory runs out is ours: see `scheduling.gated`. It looks
    down the queue until every type has its threshold.

    Args:
        thresholds: n_j of each type, requests; classes beyond the last type belong to it.
        max_hold_s: a type that has stood still for so long joins in any case, seconds.
        solve_s: the thresholds are solved anew from the arrivals, the work and the iterations of the last one to two times
            so many seconds (see `scheduling.observed`), those given being in force until that is known; 0 = they stay.

    Raises:
        InputError: no threshold, one below 1, or a time that is no number >= 0.

    Source: WAIT, Algorithm 1; sec. 7.1 for rates that change. `theory.wait_thresholds` solves for thresholds.
    """

    thresholds: tuple[int, ...] = (8,)
    max_hold_s: float = 1.0
    solve_s: float = 0.0

    def __post_init__(self) -> None:
        check_gates("wait", self.thresholds, self.max_hold_s, self.solve_s)

    @property
    def counts(self) -> tuple[str, ...]:
        """What a run's summary shows of the memory."""
        return counts_of(len(self.thresholds), self.solve_s)

    @property
    def memory_size(self) -> int:
        """Counts, thresholds and a time for each type; where they are solved, what is observed."""
        return Words(len(self.thresholds), 1).size(self.solve_s > 0)

    def form_batch(self, view: EngineView) -> BatchDecision:
        thresholds = np.array(self.thresholds, np.int64)
        group = np.minimum(view.request_class, thresholds.size - 1)
        ends = np.zeros(0, np.int64)
        return batch_behind_gates(view, Gates(thresholds, ends, group, self.max_hold_s, self.solve_s))


policy = Wait
