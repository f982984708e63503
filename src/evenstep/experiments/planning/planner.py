"""``evenstep plan``: how many workers a fleet needs to keep up with a rate and to meet an objective, under each policy."""

from __future__ import annotations

from evenstep.errors import InputError
from evenstep.experiments.contenders import contenders
from evenstep.experiments.lengths import check_rate, lengths_of
from evenstep.experiments.planning.settings import PlanSettings
from evenstep.experiments.planning.sizing import Demand, sized
from evenstep.experiments.progress import Progress
from evenstep.measure.planned import Planned

_WHERE = "evenstep plan"


def answer(settings: PlanSettings, processes: int | None = None, progress: Progress | None = None) -> Planned:
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
    return Planned(
        arrivals=said,
        rate=rate,
        tokens_per_s=rate * demand.output,
        slo=settings.slo,
        share=settings.share,
        replicates=settings.seeds,
        unit=demand.unit,
        most_workers=settings.most_workers,
        prefill=settings.prefill_base_s + settings.prefill_per_token_s > 0,
        sizes=sizes,
        smallest=min(found)[2] if found else None,
        within_reach=demand.within_reach,
    )
