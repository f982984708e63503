"""The settings of ``compare --engine``: fields are flags and keys of a YAML file.

Its imports stay light, so that ``--help`` answers at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

from evenstep import names
from evenstep.config.number import check_at_least
from evenstep.errors import InputError, check_range_if_given

if TYPE_CHECKING:
    from evenstep.cost.batch import BatchTime
    from evenstep.predict.intervals import Quantiles
    from evenstep.request import I8, Trace
    from evenstep.sim.engine.simulation import Engine

#: The default comparison: policies of today's engines, then those of the papers and of evenstep.
USUAL = ("vllm", "sarathi", "srpt", "a-min", "best")
#: How bounds of output lengths may be written.
BOUNDS = ("trace", "exact", "constant:LOW/HIGH", "bucketed:N/N/...", "around:SHARE", "PREDICTOR[:low=X,high=X,...]")


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """A comparison of scheduling policies inside one engine.

    Args:
        source: a trace file, a workload YAML or sample:azure-conv.
        policies: scheduling policies as NAME:key=value,key=value; left out = a usual selection.
        seeds: replicates of each policy; if left out, fewer for a trace too short for three that differ.
        baseline: the policy others are compared with, as written in policies; the first when left out.
        engine: the engine, KEY=VALUE,...: token-budget, batch-limit, resident-limit, kv-tokens, block-tokens, overflow,
            keeps-evicted, schedules-ahead, first-token, hold-produced, swap-s, recompute-s, overhead-s, data-parallel,
            balancer, news-s; the reference page on scheduling explains each.
        batch_time: seconds of an iteration, a batch-time law, e.g. token-budget:fit=llama-70b-tp2; affine-kv:d0-s=0.01.
        bounds: bounds of output lengths, for policies that plan with them: trace, exact, constant:1/1000,
            bucketed:100/200/1000, around:0.2, or a predictor's quantiles, survival:low=0.1,high=0.9.
        arrivals: timed (the trace's times) or together (all requests at time zero).
        rate: rescale arrival times to this many requests a second; Poisson arrivals where the trace has no times.
        load: rescale arrival times to this share of what the engine serves when all requests arrive at once.
        until_s: stop after this many seconds, even with requests left; left out = run all to completion.
        limit: use only the first rows of the trace, or draw only so many requests.
        format_name: format of the trace file where it is not recognised, with options, e.g. mooncake:ticks=keep.
        slo: objective for goodput and the share of requests that meet it, e.g. ttft=2s,tpot=50ms.
        seed: key of replicates and of the policies' random draws.
        skip_bad_rows: leave out rows that cannot be read, and say how many.
        processes: processes to run in; left out = all cores for a long run.
    """

    source: str = ""
    policies: list[str] = field(default_factory=lambda: list(USUAL))
    seeds: int = 3
    baseline: str | None = None
    engine: str = field(default="", metadata={"shape": "KEY=VALUE[,...]"})
    batch_time: str = field(default="token-budget", metadata={"shape": "NAME[:KEY=VALUE,...]"})
    bounds: str = field(default="trace", metadata={"shape": "NAME[:...]"})
    arrivals: str = "timed"
    rate: float | None = None
    load: float | None = None
    until_s: float | None = None
    limit: int | None = None
    format_name: str | None = None
    slo: str | None = field(default=None, metadata={"shape": "ttft=X,tpot=X", "once": "Write ttft=2s,tpot=50ms."})
    seed: int = 0
    skip_bad_rows: bool = False
    processes: int | None = None

    def server(self) -> Engine:
        """The engine that these settings describe; `InputError` for an unknown key or a bad value."""
        from evenstep.sim.engine.simulation import Engine

        return cast("Engine", names.make(Engine, names.options(self.engine, "--engine"), where="--engine"))

    def law(self) -> BatchTime:
        """The batch-time law, seconds of an iteration, that `batch_time` names; `InputError` for a bad law or option."""
        from evenstep.cost.batch import batch_law_of

        return batch_law_of(self.batch_time)


def check(settings: EngineSettings, where: str = "evenstep compare") -> EngineSettings:
    """Check ranges, that rate and load are not both given, and neither if all requests come at once; return the settings.

    `InputError` for the first value out of range; the message begins with `where`, the command or file.
    """
    check_at_least(where, 1, settings, "seeds", "limit", "processes")
    check_at_least(where, 0, settings, "seed")
    for name in ("rate", "load", "until_s"):
        given = {f"--{name.replace('_', '-')}": getattr(settings, name)}
        check_range_if_given(where, "a finite number > 0", above=0, finite=True, **given)
    if settings.arrivals not in ("timed", "together"):
        raise InputError(where, "--arrivals", settings.arrivals, "timed or together with --engine")
    if settings.arrivals == "together" and not (settings.rate is None and settings.load is None):
        given = "--load" if settings.rate is None else "--rate"
        raise InputError(where, "--arrivals", "together", f"timed, since {given} is given")
    if settings.rate is not None and settings.load is not None:
        raise InputError(where, "--load", settings.load, "a rate or a load, not both")
    return settings


def idle(settings: EngineSettings) -> list[str]:
    """A sentence for each option of ``--engine`` that was given and has no effect with the others."""
    given, engine = names.options(settings.engine, "--engine"), settings.server()
    found = [name for name in ("balancer", "news_s") if name in given and engine.data_parallel == 1]
    said = [
        f"--engine: {name.replace('_', '-')} has no effect: only ranks have a balancer, see data-parallel." for name in found
    ]
    if engine.hold_produced and engine.first_token == "decode":
        said.append("--engine: hold-produced has no effect with first-token=decode.")
    return said


def bounds_of(text: str, trace: Trace) -> tuple[I8, I8] | Quantiles | None:
    """Parse bounds of a trace's output lengths (forms: `BOUNDS`), and return (lower, upper) in tokens, int64[N] each.

    A predictor's quantiles give `Quantiles` around a new predictor, which learns during a run. ``trace`` gives None: the
    trace's own bounds count. `InputError` for text of another form, or an unknown predictor or option.
    """
    from evenstep.predict.intervals import Quantiles, around, bucketed, constant

    name, _, value = text.partition(":")
    try:
        if name == "trace":
            return None
        if name == "exact":
            return trace.output_tokens, trace.output_tokens
        if name == "constant":
            low, high = map(int, value.split("/"))
            return constant(len(trace), low, high)
        if name == "bucketed":
            return bucketed(trace.output_tokens, [int(edge) for edge in value.split("/")])
        if name == "around":
            return around(trace.output_tokens, float(value))
    except ValueError:
        raise InputError("evenstep compare", "--bounds", text, f"one of {', '.join(BOUNDS)}") from None
    spec: dict[str, Any] = dict(cast("Mapping[str, str]", names.parse(text)))
    try:
        chances = {key: float(spec.pop(key)) for key in ("low", "high") if key in spec}
    except ValueError:
        hint = f"For instance {name}:low=0.1,high=0.9."
        raise InputError("--bounds", "low, high", text, "chances above 0, at most 1", hint) from None
    try:
        predictor = names.build("predict", spec)
    except InputError as error:
        if error.field != "name":
            raise
        raise InputError("--bounds", "name", name, f"one of {', '.join(BOUNDS)}", error.hint) from None
    return Quantiles(predictor, **chances)


def together(trace: Trace) -> Trace:
    """A copy of the trace in which all requests arrive at 0 s, in the same order."""
    import numpy as np

    return replace(trace, arrival_s=np.zeros(len(trace)))
