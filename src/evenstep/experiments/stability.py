"""``evenstep stability``: the highest rate at which an engine keeps up under each policy, simulated and in closed form.

Its imports stay light, so that ``--help`` answers at once.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from evenstep.config.number import check_at_least
from evenstep.errors import InputError
from evenstep.experiments.compare.engine_settings import EngineSettings

if TYPE_CHECKING:
    from evenstep.experiments.frontier import Case
    from evenstep.experiments.lengths import Laws, Rows
    from evenstep.measure.comparison import Interval
    from evenstep.measure.stability import Stability
    from evenstep.theory.capacity import Closed

_WHERE = "evenstep stability"
#: Most requests of a run. A run may get four times as long, and more would fill the memory of most machines.
_MOST_REQUESTS = 10_000_000
#: Bytes that a run holds for each iteration at its end: twelve columns, and the arrays that they are joined from.
_ITERATION_BYTES = 2 * 12 * 8


@dataclass(frozen=True, slots=True)
class StabilitySettings:
    """The arriving requests, and the engine and policies that have to keep up.

    Args:
        source: a trace file, a workload YAML, sample:azure-conv, or laws of lengths as PROMPT/OUTPUT, for instance 129/112
            or geometric:mean=129/pareto:alpha=1.6,mean=112.
        policies: scheduling policies as NAME:key=value,key=value.
        engine: the engine, KEY=VALUE,..., as in ``evenstep compare --engine``.
        batch_time: seconds of an iteration, a batch-time law.
        rate: requests a second to judge as well; the trace's own rate when left out.
        precision: width of the last bracket of a bisection, as a share.
        requests: arrivals of a run, 1,000 or more. An undecided run is repeated with twice, then four times as many. The
            overloaded run at a bisection's end has four times as many, and the check of its rate 100,000 or more.
        seeds: replicates, each a bisection of its own.
        limit: use only the first rows of the trace, or draw only so many requests of a workload file; not with laws.
        format_name: format of the trace file where it is not recognised.
        seed: key of lengths and arrivals.
    """

    source: str = ""
    policies: list[str] = field(default_factory=lambda: ["sarathi"])
    engine: str = field(default="", metadata={"shape": "KEY=VALUE[,...]"})
    batch_time: str = field(default="token-budget", metadata={"shape": "NAME[:KEY=VALUE,...]"})
    rate: float | None = None
    precision: float = 0.01
    requests: int = 24_000
    seeds: int = 3
    limit: int | None = None
    format_name: str | None = None
    seed: int = 0

    def case(self, policy: str, lengths: Laws | Rows) -> Case:
        """The `Case` of a policy on this engine, with requests of these lengths; the policy is not built yet.

        `InputError` for a bad engine or law, or if a batch takes 0 s.
        """
        from evenstep.cost.batch import Batch
        from evenstep.experiments.frontier import Case

        settings = EngineSettings(engine=self.engine, batch_time=self.batch_time)
        law, server = settings.law(), settings.server()
        if not law.seconds(Batch(tokens=server.token_budget or 1)) + server.overhead_s > 0:
            hint = "An engine without a time for a batch keeps up with every rate."
            raise InputError(_WHERE, "--batch-time", self.batch_time, "a batch that takes time", hint)
        return Case(policy, law, server, lengths)


@dataclass(frozen=True, slots=True)
class Judged:
    """The verdict on one policy."""

    policy: str  # the policy as the user wrote it
    largest_requests_per_s: Interval  # mean of the largest stable rate over replicates, with its 95 % interval
    #: the largest stable rate in closed form, requests a second, or the reason why there is no closed form
    closed_form: Closed
    at_rate: Stability | None  # the verdict of replicate 0 at the given rate, else at the trace's own; None without either
    note: str  # sentence on output lengths that the policy is shown or needs (`belief_note`); empty for others


@dataclass(frozen=True, slots=True)
class Answer:
    """The result; its fields are those of the command's JSON."""

    arrivals: str  # a description of the arrivals
    #: requests a second that each `Judged.at_rate` is about; None if neither the settings nor the source has a rate
    rate: float | None
    policies: list[Judged]  # a verdict for each policy, in the order asked


def answer(settings: StabilitySettings, processes: int | None = None) -> Answer:
    """Find every policy's largest stable rate by bisection, and judge the given rate, or else the source's own, if any.

    At most `processes` are used; None = all cores where that saves time. `InputError` for a bad source, engine, policy or
    number; a law without a finite mean.
    """
    from evenstep.experiments.compare.engine_compare import belief_note
    from evenstep.experiments.frontier import largest_rates
    from evenstep.experiments.lengths import check_rate, lengths_of

    _check(settings)
    check_rate(_WHERE, settings.rate, "--rate")
    lengths, own_rate, said = lengths_of(_WHERE, settings)
    rate = settings.rate if settings.rate is not None else own_rate
    check_rate(_WHERE, rate, "rate of the source")
    cases = [settings.case(policy, lengths) for policy in settings.policies]
    for case in cases:
        _check_fits(case, settings.requests)
    requests, seed = settings.requests, settings.seed
    found = largest_rates(dict(enumerate(cases)), requests, settings.precision, seed, settings.seeds, processes)
    judged: list[Judged] = []
    for place, case in enumerate(cases):
        at_rate = case.verdict(rate, requests, seed, 0) if rate is not None else None
        note = belief_note(case.policy, case.built, bounded=False)
        judged.append(Judged(case.policy, found[place].interval(), case.closed, at_rate, note))
    return Answer(said, rate, judged)


def _check(settings: StabilitySettings) -> None:
    check_at_least(_WHERE, 1, settings, "seeds", "limit")
    check_at_least(_WHERE, 0, settings, "seed")
    check_at_least(_WHERE, 1_000, settings, "requests")
    if settings.requests > _MOST_REQUESTS:
        raise InputError(_WHERE, "--requests", settings.requests, f"an integer from 1000 to {_MOST_REQUESTS}")
    if not 0 < settings.precision < 1:
        raise InputError(_WHERE, "--precision", settings.precision, "a share above 0 and below 1")


def _check_fits(case: Case, requests: int) -> None:
    """Raise `InputError` if the iterations of a case's longest run do not fit into memory, even with full batches.

    Without a token budget, or where the system does not tell its memory, nothing is checked.
    """
    from evenstep.experiments.frontier import LONG
    from evenstep.measure.stability import tokens_of

    budget, runs = case.engine.token_budget * case.engine.data_parallel, 4 * requests
    if budget == 0 or not hasattr(os, "sysconf"):
        return
    mean = float(tokens_of(case.sample, case.engine.first_token).mean())
    longest = max(LONG, runs) if case.fills_batches else runs
    most = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * budget // (_ITERATION_BYTES * longest)
    if mean > most:
        expected = f"at most {most} on average, so that the iterations of {longest} requests fit the memory"
        raise InputError(_WHERE, "tokens of a request", round(mean), expected, "Or give a larger token-budget.")
