"""Compares policies on the same workload: means over replicates, paired differences, and their 95 % intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Generic, NoReturn, TypeVar

import numpy as np

from evenstep.errors import InputError, check_known, nearest
from evenstep.measure.digest import combined
from evenstep.measure.metrics import full_slot_tokens_per_s, known
from evenstep.measure.records import Conditions, Run
from evenstep.request import F8
from evenstep.wording import counted

#: Share of intervals that hold the true value, over many comparisons.
CONFIDENCE = 0.95
#: Fields of a summary that the workload fixes: a difference between policies would mean nothing.
NOT_OUTCOMES = frozenset({"requests", "output_tokens", "policy_free_bound_s", "mean_load_tokens"})


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate over replicates, for instance a mean or a mean paired difference, with its 95 % interval."""

    value: float  # the estimate, in the unit of the figure
    low: float | None  # lower end of the interval; None if there are too few values, as with one replicate
    high: float | None  # upper end; None if `low` is None

    @property
    def half(self) -> float | None:
        """Half the width of the interval; None if it has no ends."""
        return None if self.low is None or self.high is None else (self.high - self.low) / 2

    @property
    def is_clear(self) -> bool:
        """True if the interval lies entirely above or entirely below 0, so the sign is clear; False if it has no ends."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)

    def map(self, f: Callable[[float], float]) -> Interval:
        """Apply monotone `f` to value and ends, as a new interval. A falling `f` swaps the ends; missing ends stay None."""
        if self.low is None or self.high is None:
            return Interval(f(self.value), None, None)
        low, high = f(self.low), f(self.high)
        return Interval(f(self.value), high, low) if low > high else Interval(f(self.value), low, high)


class Differences(dict[str, Interval]):
    """Paired differences by name of the summary field. Reading an absent name raises `InputError`, not KeyError."""

    def __missing__(self, name: object) -> NoReturn:
        """Raise the `InputError` for an absent name; it suggests a similar one."""
        raise InputError("differences", "metric", name, "a known metric", nearest(str(name), self))


@dataclass(frozen=True, slots=True, eq=False)
class PolicyResult:
    """The summaries of one routing or scheduling policy in all replicates, and its differences to other policies.

    Args:
        policy: the policy with its options, as the user wrote it.
        predictor: its predictor's name; empty without one.
        oracle: whether the policy or its predictor saw true output lengths, impossible live.
        seeds, digests, summaries: one entry for each replicate, in the same order. A summary maps a field's name to its
            value, or to None if it has no value in that run.
        versus_first: paired differences by summary field, this policy minus the first; None for the first itself.
        versus: paired differences by summary field, this policy minus the baseline; None for the baseline itself, and for
            every policy if the baseline is the first one.
    """

    policy: str
    predictor: str
    oracle: bool
    seeds: tuple[int, ...]
    digests: tuple[str, ...]
    summaries: tuple[dict[str, Any], ...]
    versus_first: dict[str, Interval] | None = None
    versus: dict[str, Interval] | None = None

    def __repr__(self) -> str:
        return f"<result of {self.policy}, {counted(len(self.seeds), 'replicate')}, digest {self.digest[:16]}>"

    @property
    def digest(self) -> str:
        """The digest of the only run; with several replicates, SHA-256 over their digests in order (`digest.combined`)."""
        return combined(self.digests)

    @property
    def reachable_live(self) -> bool:
        """True if neither the policy nor its predictor sees true output lengths."""
        return not self.oracle

    def values(self, name: str) -> list[float]:
        """A summary field in each replicate, in the order of `seeds`, as floats (booleans as 0.0 or 1.0).

        Raises: InputError if the field is unknown, or if its value in any replicate is None, text or nested.
        """
        check_known(self.policy, "metric", name, self.summaries[0], "a known metric")
        found = list[float]()
        for summary in self.summaries:
            value = summary.get(name)
            if not isinstance(value, int | float):
                raise InputError(self.policy, name, value, "a number in every replicate")
            found.append(float(value))
        return found

    def mean(self, name: str) -> Any:
        """A summary field combined over all replicates by `mean_over`: of numbers their mean, or None if any is None.

        Raises: InputError if the field is unknown.
        """
        check_known(self.policy, "metric", name, self.summaries[0], "a known metric")
        return mean_over(name, [summary.get(name) for summary in self.summaries])

    def interval(self, name: str) -> Interval | None:
        """Mean of a summary field over replicates with its 95 % t-interval; None if any replicate has no value.

        Raises: InputError if the field is unknown, text or nested.
        """
        if name in self.summaries[0] and any(summary.get(name) is None for summary in self.summaries):
            return None
        return mean_interval(self.values(name))


@dataclass(frozen=True, slots=True, eq=False)
class ObservedRun:
    """A run recorded in a decision log, to compare with simulated runs, and the error of the simulator.

    Args:
        result: the recorded run as the result of the policy that decided in it; one replicate. Summary fields that a record
            cannot give are None.
        error: for each metric judged a dict of ``observed``, ``simulated`` and ``error`` (simulated / observed - 1; None if
            observed is 0). ``simulated`` is the recorded policy on the recorded fleet, without `overridden` settings.
            Metrics that either side lacks are left out. Empty if that fleet cannot be simulated.
        overridden: names of recorded settings that the user changed for the simulated runs.
        said: sentences for the reader on the data taken from the record, and on what the simulation omits.
    """

    result: PolicyResult
    error: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    overridden: tuple[str, ...] = ()
    said: tuple[str, ...] = ()


C = TypeVar("C")


@dataclass(frozen=True, slots=True, eq=False)
class Compared(Generic[C]):
    """Results of several policies on the same replicates of one workload. Iterating gives the results.

    Args:
        policies: results, in the order in which the user named the policies.
        conditions: of the first policy's first run; all others differ in policy, predictor, oracle, bounds and seed only.
        baseline: index in `policies` of the policy that others are compared with.
        trace: facts about the workload by name (name, format, requests and others); an unknown fact is absent.
        notes: sentences for the reader on what was dropped, assumed or excluded.
        command: exact command line; empty if unknown.
        versions: version by component, for instance ``evenstep``.
    """

    policies: tuple[PolicyResult, ...]
    conditions: C
    baseline: int = 0
    trace: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    command: str = ""
    versions: dict[str, str] = field(default_factory=dict)

    def differences(self, result: PolicyResult) -> dict[str, Interval]:
        """Paired differences of `outcomes` that all replicates have, `result` minus baseline; empty for the baseline."""
        return (result.versus if self.baseline else result.versus_first) or {}

    @property
    def seeds(self) -> tuple[int, ...]:
        """Seeds of the replicates, which all policies share."""
        return self.policies[0].seeds

    def __iter__(self) -> Iterator[PolicyResult]:
        return iter(self.policies)

    def __len__(self) -> int:
        return len(self.policies)

    def __contains__(self, policy: object) -> bool:
        """True for one of the results, and for the text of its policy."""
        return any(policy in (result, result.policy) for result in self.policies)

    def __getitem__(self, policy: str) -> PolicyResult:
        """The first result whose `policy`, options included, equals this text. Raises `InputError` if there is no match."""
        for result in self.policies:
            if result.policy == policy:
                return result
        hint = nearest(str(policy), [result.policy for result in self.policies])
        raise InputError("comparison", "policy", policy, "one of the policies compared", hint)


@dataclass(frozen=True, slots=True, eq=False)
class Comparison(Compared[Conditions]):
    """Routing policies compared on the same replicates of one workload.

    Args:
        replicates: how replicates differ: ``rotated`` (one trace, begun at another row), ``drawn anew`` (a synthetic trace),
            ``one`` (a single replicate), or empty if unknown.
        yardsticks: figures that no policy changes: ``policy_free_bound_s``, ``mean_load_tokens`` and
            ``even_full_slot_tokens_per_s`` (tokens a second with full slots and even loads; None if the law is not linear).
        observed: the recorded run, if the workload is a decision log; else None.
    """

    replicates: str = ""
    yardsticks: dict[str, Any] = field(default_factory=dict)
    observed: ObservedRun | None = None


def mean_interval(values: Sequence[float]) -> Interval:
    """Mean of n >= 1 values, one a replicate, with its 95 % t-interval (n - 1 degrees of freedom); no ends if n is 1."""
    from scipy.special import stdtrit

    n = len(values)
    mean = float(np.mean(values))
    if n < 2:
        return Interval(mean, None, None)
    half = float(stdtrit(n - 1, 0.5 + CONFIDENCE / 2) * np.std(values, ddof=1) / np.sqrt(n))
    return Interval(mean, mean - half, mean + half)


def interval_of(values: Sequence[Any]) -> Interval | None:
    """`mean_interval` of values that may include None; returns None if any of them is None."""
    return None if any(value is None for value in values) else mean_interval([float(value) for value in values])


def share_interval(hits: int, count: int) -> Interval:
    """The share `hits / count` of independent trials, count >= 1, with its 95 % interval. Source: Clopper, Pearson 1934."""
    from scipy.special import betaincinv

    tail = (1 - CONFIDENCE) / 2
    low = float(betaincinv(hits, count - hits + 1, tail)) if hits else 0.0
    high = float(betaincinv(hits + 1, count - hits, 1 - tail)) if hits < count else 1.0
    return Interval(hits / count, low, high)


def quantile_interval(values: F8, share: float) -> Interval:
    """The `share` quantile of float64[N] independent values with a 95 % interval whose ends are two of the values.

    N >= 1, and `share` lies in (0, 1). The quantile is linear between values. If N is too small, as 100 is for a share of
    0.99, the interval has no ends.
    """
    from scipy.special import bdtr

    ordered, count, tail = np.sort(values), values.size, (1 - CONFIDENCE) / 2
    below = bdtr(np.arange(count), count, share)  # the chance that at most k values lie below the quantile
    low, high = int(np.searchsorted(below, tail)), int(np.searchsorted(below, 1 - tail))
    quantile = float(np.quantile(ordered, share))
    if low < 1 or high >= count:
        return Interval(quantile, None, None)
    return Interval(quantile, float(ordered[low - 1]), float(ordered[high]))


def below(one: Interval | None, other: Interval | None) -> bool | None:
    """True if all of interval `one` lies below all of `other`, False if all of it lies above, None if they overlap or touch.

    Also None if an interval or an end is missing. Both must come from independent replicates.
    """
    if one is None or other is None or one.low is None or one.high is None or other.low is None or other.high is None:
        return None
    return True if one.high < other.low else False if one.low > other.high else None


def paired_difference(ours: Sequence[float], baseline: Sequence[float]) -> Interval:
    """Mean of `ours` minus `baseline`, replicate by replicate, with its 95 % t-interval; one replicate gives no ends.

    Both numbers of a replicate come from the same workload and random draws, so most of their variation cancels. Raises
    ValueError if the lengths differ.
    """
    return mean_interval([a - b for a, b in zip(ours, baseline, strict=True)])


def check_replicates(policy: str, digests: Sequence[str]) -> None:
    """Raise InputError if two replicates of a policy have equal digests: with copies the interval would be too narrow."""
    if len(set(digests)) < len(digests):
        expected = f"replicates that differ, and only {len(set(digests))} do"
        hint = "Use --seeds 1, or a workload whose replicates are not copies of each other."
        raise InputError(policy, "seeds", len(digests), expected, hint)


def compare_runs(runs: Sequence[Sequence[Run]], baseline: int = 0) -> Comparison:
    """Compare routing policies by their runs on the same replicates.

    Args:
        runs: ``runs[policy][replicate]``, policies in the order to be shown; each has the same seeds in the same order.
        baseline: index of the policy that `PolicyResult.versus` compares with; with 0, `versus` is None everywhere.

    Raises: InputError if two replicates of a policy are copies of each other.
    """
    results = results_of(runs, [[run.summary for run in own] for own in runs], baseline)
    first = runs[0][0]
    trace, notes, replicates = _workload(first, len(runs[0]))
    return Comparison(
        policies=results,
        conditions=first.conditions,
        baseline=baseline,
        replicates=replicates,
        trace=trace,
        notes=(*notes, *prediction_notes(results)),
        yardsticks=_yardsticks(results[0], runs[0]),
    )


def results_of(
    runs: Sequence[Sequence[Any]], figures: Sequence[list[dict[str, Any]]], baseline: int, but: frozenset[str] = NOT_OUTCOMES
) -> tuple[PolicyResult, ...]:
    """Make the result of each policy: seeds, digests, summaries, and paired differences to the first and to the baseline.

    `runs` (each a `Run` or an `EngineRun`), `baseline` and the error are as in `compare_runs`.

    Args:
        figures: the summaries of these runs, in the same arrangement.
        but: names of summary fields for which no differences are made.
    """
    results: list[PolicyResult] = []
    for own, found in zip(runs, figures, strict=True):
        conditions, digests = own[0].conditions, tuple(run.digest for run in own)
        check_replicates(conditions.policy, digests)
        names = outcomes(found[0], but)
        others = (figures[0], figures[baseline]) if baseline else (figures[0],)
        versus = [None if other is found else paired(found, other, names) for other in others]
        results.append(
            PolicyResult(
                policy=conditions.policy,
                predictor=getattr(conditions, "predictor", ""),
                oracle=getattr(conditions, "oracle", False),
                seeds=tuple(run.conditions.seed for run in own),
                digests=digests,
                summaries=tuple(found),
                versus_first=versus[0],
                versus=versus[1] if baseline else None,
            )
        )
    return tuple(results)


def prediction_notes(results: Sequence[PolicyResult]) -> tuple[str, ...]:
    """Warnings by policy: predictions whose history was too short, and runs that ended before the predictor's first fit."""
    notes: list[str] = []
    for result in results:
        short = sum(summary.get("predictor_too_short", 0) for summary in result.summaries)
        if short:
            asked = sum(summary["predictions"] for summary in result.summaries)
            notes.append(
                f"{result.policy}: {short} of {asked} predictions had too short a history;"
                " those requests were taken to stay."
            )
        if any(summary.get("predictor_fits") == 0 for summary in result.summaries):
            notes.append(
                f"{result.policy}: a run was over before {result.predictor} had enough completions for its first fit;"
                " survival answered in its place. A smaller refit comes sooner."
            )
    return tuple(notes)


def outcomes(summary: Mapping[str, Any], but: frozenset[str] = NOT_OUTCOMES) -> list[str]:
    """Names of the numeric fields of a summary, in its order. Booleans, None and the names in `but` are left out."""
    numbers = (k for k, value in summary.items() if isinstance(value, int | float) and not isinstance(value, bool))
    return [name for name in numbers if name not in but]


def mean_over(name: str, values: Sequence[Any]) -> Any:
    """Combine the values of the summary field `name` over all replicates (at least one) into one value.

    The first rule that applies holds. If any value is text, the result is that text if all are equal, else ``mixed``. If any
    value is None, the result is None. Of dicts in ``counted``, each entry is averaged, and an absent one counts as 0.
    Booleans give True if all are true. Numbers are averaged; if all are ints and the mean is whole, it is an int. Otherwise
    the result is the first value; ``window`` gets the kind ``mixed`` in it if kinds differ.
    """
    first = values[0]
    if any(isinstance(value, str) for value in values):
        return first if len(set(values)) == 1 else "mixed"
    if any(value is None for value in values):
        return None
    if name == "counted":
        names = dict.fromkeys(which for value in values for which in value)
        return {which: mean_over(which, [value.get(which, 0) for value in values]) for which in names}
    if isinstance(first, bool):
        return all(values)
    if isinstance(first, int | float):
        mean = sum(values) / len(values)
        return int(mean) if all(isinstance(v, int) for v in values) and mean == int(mean) else mean
    if name == "window":
        kinds = {value["kind"] for value in values}
        return {**first, "kind": first["kind"] if len(kinds) == 1 else "mixed"}
    return first


def to_json_object(comparison: Comparison) -> dict[str, Any]:
    """A comparison of routing policies as a JSON-ready dict: `json_of` plus ``replicates``, ``yardsticks`` and ``observed``.

    ``observed`` is the recorded run's summary and its error; it is there only if the workload is a decision log. Each policy
    also has ``predictor``, ``oracle`` and ``reachable_live``.
    """
    conditions = {k: known(v) for k, v in asdict(comparison.conditions).items()}
    found: dict[str, Any] = {"replicates": comparison.replicates, "yardsticks": comparison.yardsticks}
    observed = comparison.observed
    if observed is not None:
        figures = {"policy": observed.result.policy, **observed.result.summaries[0]}
        found["observed"] = {**figures, "error": observed.error, "overridden": list(observed.overridden)}
    return json_of(comparison, conditions, found, ("predictor", "oracle", "reachable_live"))


def json_of(
    comparison: Compared[Any], conditions: dict[str, Any], more: Mapping[str, Any], facts: Sequence[str] = ()
) -> dict[str, Any]:
    """A comparison as a JSON-ready dict: facts about the runs, and the list ``policies`` in the same order.

    Each policy has every summary field (`mean_over` of its replicates), ``digest``, ``versus_first`` (None for the first)
    and, if its `versus` is not None, ``versus``: for each field ``diff``, ``low`` and ``high``. Its ``per_seed`` lists the
    seed, digest and summary fields of each replicate.

    Args:
        conditions: conditions of the runs, in JSON types; ``policy``, ``seed`` and the names in `facts` are left out.
        more: further fields of the dict; one named like a fact about the runs replaces it.
        facts: names of the attributes of `PolicyResult` to add to each policy.
    """
    return {
        "version": 1,
        "command": comparison.command,
        "versions": comparison.versions,
        "trace": comparison.trace,
        "conditions": {k: v for k, v in conditions.items() if k not in ("policy", "seed", *facts)},
        "seeds": list(comparison.seeds),
        "interval": "95 % t-interval of paired differences over replicates",
        "baseline": comparison.policies[comparison.baseline].policy,
        "notes": list(comparison.notes),
        **more,
        "policies": [_policy_object(result, facts) for result in comparison.policies],
    }


def _policy_object(result: PolicyResult, facts: Sequence[str]) -> dict[str, Any]:
    """One entry of ``policies`` in `json_of`: the policy, its `facts`, digest, mean fields, differences and ``per_seed``."""
    found: dict[str, Any] = {
        "policy": result.policy,
        **{name: getattr(result, name) for name in facts},
        "digest": result.digest,
        **{name: result.mean(name) for name in result.summaries[0]},
        "versus_first": _differences(result.versus_first),
    }
    if result.versus is not None:
        found["versus"] = _differences(result.versus)
    found["per_seed"] = [
        {"seed": seed, "digest": digest, **summary}
        for seed, digest, summary in zip(result.seeds, result.digests, result.summaries, strict=True)
    ]
    return found


def _differences(intervals: dict[str, Interval] | None) -> dict[str, Any] | None:
    """Each interval as a dict of ``diff``, ``low`` and ``high``, by the same names; None stays None."""
    if intervals is None:
        return None
    return {name: {"diff": i.value, "low": i.low, "high": i.high} for name, i in intervals.items()}


def paired(
    own: Sequence[Mapping[str, Any]], other: Sequence[Mapping[str, Any]], names: Sequence[str]
) -> dict[str, Interval]:
    """Paired differences of the fields `names` with 95 % intervals, `own` minus `other`: one summary for each replicate.

    Both list replicates in the same order. A field that is None or missing in any summary is left out; reading it from the
    result raises `InputError` (`Differences`).
    """
    found = Differences()
    for name in names:
        ours, theirs = [one.get(name) for one in own], [one.get(name) for one in other]
        if not any(value is None for value in (*ours, *theirs)):
            found[name] = paired_difference(ours, theirs)  # type: ignore[arg-type]
    return found


def _workload(run: Run, replicates: int) -> tuple[dict[str, Any], tuple[str, ...], str]:
    """Facts about the workload by name, the trace's notes, and how replicates differ (`Comparison.replicates`)."""
    found: dict[str, Any] = {"requests": run.totals.requests, "output_tokens": run.totals.output_tokens}
    trace = run.trace
    if trace is None:
        return found, (), "one" if replicates == 1 else ""
    found |= {"name": trace.name, "format": trace.format, "rows": len(trace), "synthetic": trace.synthetic}
    kind = "drawn anew" if trace.synthetic else "rotated"
    return found, trace.notes, kind if replicates > 1 else "one"


def _yardsticks(result: PolicyResult, runs: Sequence[Run]) -> dict[str, Any]:
    """The values of `Comparison.yardsticks`, computed from the runs of one policy and its result."""
    conditions, load = runs[0].conditions, result.mean("mean_load_tokens")
    tokens, steps = sum(run.totals.output_tokens for run in runs), sum(run.totals.active_steps for run in runs)
    even = full_slot_tokens_per_s(conditions, load, np.zeros(len(conditions.group_sizes)), tokens / max(1, steps))
    return {
        "policy_free_bound_s": result.mean("policy_free_bound_s"),
        "mean_load_tokens": load,
        "even_full_slot_tokens_per_s": even if np.isfinite(even) else None,
    }
