"""WAIT: requests of a type run once enough of them wait for prefill."""

from __future__ import annotations

from dataclasses import dataclass

from evenstep.scheduling.gates.gated import GatedWork as Work
from evenstep.scheduling.gates.gated import Gates, check_gates, counts_of, form_gated
from evenstep.scheduling.gates.observed import lay_out, size_of, words_of
from evenstep.scheduling.rules import Ruled, rule
from evenstep.scheduling.view import RuleView


@dataclass(frozen=True, slots=True)
class Wait(Ruled):
    """Requests of a type run in the next batch once as many of them wait for prefill as the threshold of their type.

    The type is the request's class. At most the threshold of requests run at each stage (a number of tokens produced, or the
    prefill). Other requests of a running type and all of other types pause with the memory they hold. The rules at the end
    of a burst, after evictions and when memory runs out are ours: see `gates.gated`. The policy looks down the queue until
    every type has its threshold.

    Args:
        thresholds: n_j of each type, requests; classes beyond the last type belong to it.
        max_hold_s: seconds after which the gate of a type that has not run opens in any case.
        solve_s: the thresholds are solved anew from the arrivals, the work and the iterations of the last one to two times
            so many seconds (see `gates.observed`). Until these are known the given ones are in force; 0 = they stay.

    Raises:
        InputError: no threshold, one that is not a whole number >= 1, or a time below 0, nan or (`solve_s`) inf.

    Source: WAIT, Algorithm 1; sec. 7.1 for rates that change. `theory.wait_thresholds` solves for thresholds.
    """

    thresholds: tuple[int, ...] = (8,)
    max_hold_s: float = 1.0
    solve_s: float = 0.0

    def __post_init__(self) -> None:
        check_gates("wait", self.thresholds, self.max_hold_s, self.solve_s)

    @property
    def counts(self) -> tuple[str, ...]:
        """Names of the first words of memory, which a run's summary shows (`counts_of`)."""
        return counts_of(len(self.thresholds), self.solve_s)

    @property
    def memory_size(self) -> int:
        """int64 words kept: counts, a threshold and a time for each type; with `solve_s`, observations too."""
        return size_of(words_of(len(self.thresholds), 1), self.solve_s)


def room(running: int, waiting: int, options: Wait) -> tuple[int, ...]:
    """Sizes of the arrays of `GatedWork`, in order after `batch`, for so many running and waiting requests."""
    gates = len(options.thresholds)
    table = 2 * (running + gates + 1)
    return 0, 0, gates, gates, gates, gates, gates, gates, table, table, gates, gates, gates, gates


@rule
def form_batch(view: RuleView, options: Wait, work: Work) -> None:
    """Form a batch behind gates (`form_gated`): one group for each type, with one segment each."""
    gates = len(options.thresholds)
    for gate in range(gates):
        work.threshold[gate] = int(options.thresholds[gate])
    form_gated(view, work, Gates(lay_out(gates, 1), True, options.max_hold_s, options.solve_s, 0.0))


policy = Wait
