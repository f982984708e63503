"""``evenstep plan``: how many workers a fleet needs to keep up with a rate and to meet an objective, under each policy."""

from __future__ import annotations

from dataclasses import dataclass

from evenstep.errors import InputError
from evenstep.experiments.contenders import contenders
from evenstep.experiments.lengths import check_rate, lengths_of
from evenstep.experiments.planning.settings import PlanSettings
from evenstep.experiments.planning.sizing import Demand, Size, sized
from evenstep.experiments.progress import Progress

_WHERE = "evenstep plan"


@dataclass(frozen=True, slots=True)
class Answer:
    """The result; its fields are those of the command's JSON.

    Args:
        arrivals: a description of the arrivals.
        rate, tokens_per_s: requests and output tokens a second that arrive.
        share: the share of requests that have to meet the objective.
        sizes: the least fleet for each number of slots and policy, in the order asked.
        smallest: index of the size with the fewest workers, of several the one that can serve most; None if no fleet is
            enough.
    """

    arrivals: str
    rate: float
    tokens_per_s: float
    share: float
    sizes: list[Size]
    smallest: int | None


def answer(settings: PlanSettings, processes: int | None = None, progress: Progress | None = None) -> Answer:
    """Find the least fleet for each number of slots and each policy.

    At most `processes` are used; None = all cores where that saves time. `InputError` for a bad source, law, policy,
    objective or number, or a source without a rate where none is given.
    """
    check_rate(_WHERE, settings.rate, "--rate")
    lengths, own_rate, said = lengths_of(_WHERE, settings)
    rate = settings.rate if settings.rate is not None else own_rate
    if rate is None:
        raise InputError(_WHERE, "--rate", "missing", "requests a second", f"{settings.source} has no rate of its own.")
    check_rate(_WHERE, rate, "rate of the source")
    demand = Demand(settings, lengths, rate)
    sizes = sized(demand, contenders(settings.policies), processes, progress)
    found = [(size.workers, -(size.requests_per_s or 0.0), place) for place, size in enumerate(sizes) if size.workers]
    return Answer(said, rate, rate * demand.output, settings.share, sizes, min(found)[2] if found else None)
