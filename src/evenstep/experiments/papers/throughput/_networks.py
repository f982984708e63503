"""Common parts of the experiments on networks of engines: arrival rates, served work, and work that is left."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evenstep.experiments import vocabulary as ex
from evenstep.measure.network_records import NetworkRun
from evenstep.measure.stability import in_system
from evenstep.request import F8
from evenstep.sim.network.description import EngineSection, Network
from evenstep.sim.network.simulation import simulate_network
from evenstep.workload.synthetic.arrivals import Poisson

#: Batch-time law of the paper's engine, and of one whose batches take a slot each.
LAW, SLOTS = "token-budget:fit=codellama-34b-tp2", "unit"
#: Policies that fill every batch, with either phase first.
ORDERS = ("sarathi", "work-conserving:first=prefill")
#: Share of the arrivals by which calls may grow and still count as keeping up.
DRIFT = 0.005
#: Loads at which an engine has to keep up, and at which its served rate is measured.
BELOW, ABOVE = 0.99, 1.05
#: The constant that says when an engine keeps up.
KEEPING_UP = f"growth is below {100 * DRIFT:g} % of what comes | ours: over the second half of a run, by interval"


def engine(batch_time: str, budget: int, **options: Any) -> EngineSection:
    """An engine with `budget` tokens an iteration, without limits on requests or memory; `options` go to `EngineSection`."""
    return EngineSection(f"token-budget={budget},batch-limit=0,first-token=decode", batch_time, **options)


def at_rates(network: Network, until_s: float, seed: int, rates: Mapping[str, float]) -> NetworkRun:
    """Simulate a network for `until_s` seconds with these task types only, Poisson arrivals; `rates` are tasks a second."""
    tasks = {name: replace(network.tasks[name], arrivals=Poisson(rate)) for name, rate in rates.items()}
    return simulate_network(replace(network, until_s=until_s, tasks=tasks), seed=seed)


def work(run: NetworkRun, tokens: Sequence[int]) -> tuple[float, float]:
    """(tokens a second that all engines run, growth of the tokens left over those that arrive), of the run's second half.

    `tokens` are those of a call of each kind, prompt and output, in the order of `run.kinds`; they must be constant.
    """
    half, end = np.searchsorted(run.times_s, 0.5 * run.counted_s), run.times_s.size - 1
    from_s, to_s = run.times_s[half], run.times_s[end]
    came = (run.calls.released_s > from_s) & (run.calls.released_s <= to_s)
    grown, span_s = run.tokens[end].sum() - run.tokens[half].sum(), float(to_s - from_s)
    come_per_s, grows_per_s = float(np.array(tokens)[run.calls.kind[came]].sum()) / span_s, float(grown) / span_s
    return come_per_s - grows_per_s, grows_per_s / come_per_s


def calls_at(run: NetworkRun, times_s: F8, engine: int | None = None) -> F8:
    """float64[T], calls that wait or run at each of `times_s`, in engine number `engine`, or in all if None."""
    own = slice(None) if engine is None else run.calls.engine == engine
    return in_system(np.sort(run.calls.released_s[own]), np.sort(run.calls.finished_s[own]), times_s)


def tasks_at(run: NetworkRun, times_s: F8) -> F8:
    """float64[T], tasks that have arrived and are not done at each of `times_s`."""
    return in_system(np.sort(run.tasks.arrival_s), np.sort(run.tasks.finished_s), times_s)


def growth(run: NetworkRun, held_at: Callable[[F8], F8]) -> float:
    """Growth a second of the number that `held_at` gives for times, over the second half of a run's counted time."""
    half, end = held_at(np.array([0.5, 1.0]) * run.counted_s)
    return float(end - half) / (0.5 * run.counted_s)


def drift(run: NetworkRun, engine: int | None = None) -> float:
    """Growth of the calls in one engine, or in all (None), over the second half of `run.counted_s`.

    It is a share of the calls that arrive then; at least one must arrive.
    """
    own = slice(None) if engine is None else run.calls.engine == engine
    came_s = run.calls.released_s[own]
    came = int(np.count_nonzero((came_s > 0.5 * run.counted_s) & (came_s <= run.counted_s)))
    return growth(run, lambda times: calls_at(run, times, engine)) * 0.5 * run.counted_s / came


def keeps_up(share: ex.Interval) -> bool | None:
    """True if growth, a share of the arrivals, is below `DRIFT`, False if above; None if the interval decides neither."""
    return ex.clearly(ex.beyond(share, DRIFT), -1)


def percent(share: ex.Interval) -> ex.Interval:
    """The interval times 100: a share in per cent."""
    return share.map(lambda end: 100 * end)


def missed(value: ex.Interval, limit: float) -> ex.Interval:
    """Per cent by which a value lies above `limit`, with its interval; negative below it."""
    return percent(value.map(lambda end: end / limit - 1))


@dataclass(frozen=True, slots=True, eq=False)
class Sides:
    """Measurements above and below a limit of throughput: means over replicates, with intervals.

    `served` is the rate served in an overload, a second, in the limit's unit. `grows` is how much unfinished work grows at a
    load below the limit, as a share of the work that arrives.
    """

    served: ex.Interval
    grows: ex.Interval


def rows(found: Mapping[str, Sides], limit: float, served: str, held: str) -> Iterator[ex.Row]:
    """Yield two rows a case, in per cent: by how much it serves more than `limit` when overloaded, and its growth below it.

    `served` names the first quantity; `held` names the requests or tokens that grow in the second.
    """
    for case, own in found.items():
        yield ex.Row(case, served, "%", 0.0, missed(own.served, limit))
        yield ex.Row(case, f"growth of the {held} at {BELOW:g}, over the arrivals", "%", None, percent(own.grows))


def limit_claim(says: str, found: Mapping[str, Sides], limit: float, share: float) -> ex.Claim:
    """The claim `says`: each case serves `limit` when overloaded, within `share` of it, and keeps up below (`keeps_up`)."""
    own = found.values()
    seen = (
        f"{name} {ex.mean_text(missed(one.served, limit))} % off, growth {ex.mean_text(percent(one.grows))} %"
        for name, one in found.items()
    )
    verdicts = [ex.near(one.served, limit, share) for one in own] + [keeps_up(one.grows) for one in own]
    return ex.Claim(says, ex.all_of(verdicts), "; ".join(seen))
