"""Requests whose lengths come from laws or from the rows of a trace, as many as a run needs."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from evenstep import names, streams
from evenstep.errors import InputError, nearest
from evenstep.experiments.sources import Reading
from evenstep.request import I8, Trace
from evenstep.workload.replicate import rate, replicate
from evenstep.workload.synthetic.arrivals import mean_rate
from evenstep.workload.synthetic.laws import Constant, check_mean
from evenstep.workload.synthetic.synthetic import Synthetic
from evenstep.workload.synthetic.yaml_file import LAWS, check_means

#: Rates that can be judged, requests a second: squares of far larger ones overflow.
_RATES = 1e-12, 1e12
#: Laws made of other laws or of a trace, which only a file can describe.
_COMPOSED = frozenset({"bimodal", "capped", "fitted"})


@dataclass(frozen=True, slots=True, eq=False)
class Laws:
    """Requests drawn from the laws of a synthetic workload; the workload's own number of requests is ignored."""

    workload: Synthetic

    def draw(self, count: int, seed: int, replicate: int) -> Trace:
        """`count` requests without times; equal `seed` and `replicate` give equal requests."""
        return replace(self.workload, requests=count).draw(seed, replicate)


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Requests drawn from the rows of the trace `name` with replacement; `prompt`, `output`: a row's tokens, int64[M]."""

    prompt: I8
    output: I8
    name: str

    def draw(self, count: int, seed: int, replicate: int) -> Trace:
        """As of `Laws`."""
        chance = streams.uniform(seed, "frontier-row", np.arange(count, dtype=np.int64), draw=replicate)
        rows = (chance * self.prompt.size).astype(np.int64)
        return Trace(self.prompt[rows], self.output[rows], name=f"drawn from {self.name}")


def alike(prompt: int, output: int) -> Laws:
    """A source of requests that all have these prompt and output tokens."""
    return Laws(Synthetic(1, Constant(prompt), Constant(output), name="alike"))


def check_rate(where: str, requests_per_s: float | None, field: str) -> None:
    """Raise an `InputError` of the command `where` for a rate outside 1e-12 to 1e12 requests a second; None passes."""
    low, high = _RATES
    if requests_per_s is not None and not low <= requests_per_s <= high:
        raise InputError(where, field, requests_per_s, f"a number of requests a second from {low:g} to {high:g}")


def lengths_of(where: str, settings: Any) -> tuple[Laws | Rows, float | None, str]:
    """(request lengths, the source's own rate in requests a second or None, a description of the arrivals).

    Args:
        where: the command, for errors.
        settings: have `source` (a file, or laws ``PROMPT/OUTPUT``), `limit`, `format_name` and `seed`.

    Raises:
        InputError: a source that cannot be read, a law that is unknown or has no finite mean, or a limit on laws.
    """
    if not settings.source:
        raise InputError(where, "FILE", "missing", "a trace, a workload or laws of lengths", "Try 129/112.")
    laws = _laws(where, settings.source)
    if laws is not None:
        for name, value in (("--limit", settings.limit), ("--format-name or --columns", settings.format_name)):
            if value is not None:
                raise InputError(where, name, value, "nothing with laws of lengths, which have no rows and no file")
        said = f"lengths by the laws {settings.source}, Poisson arrivals"
        if any(getattr(law, "alpha", math.inf) <= 2 for law in laws):  # a closed form needs a finite variance
            said += "; the variance is finite only because the tail is cut: few requests bring much of the work,"
            said += " intervals are wide"
        return Laws(Synthetic(1, *laws, name=settings.source)), None, said
    workload = Reading(settings.source, settings.limit, settings.format_name, seed=settings.seed).workload()
    check_means(workload)
    trace = replicate(workload.source, 0, settings.seed)
    own = workload.requests_per_s or _own_rate(workload.source, trace)
    name, count = trace.name or settings.source, len(trace)
    rows = f"the {count:,} rows of {name}, drawn" if count > 1 else f"the only row of {name}, drawn"
    return Rows(trace.prompt_tokens, trace.output_tokens, name), own, f"{rows} again and again, Poisson arrivals"


def _own_rate(source: object, trace: Trace) -> float | None:
    """The rate of a workload's arrival process, else of a trace, requests a second; None without a usable one (`_RATES`)."""
    if isinstance(source, Synthetic):
        return mean_rate(source.arrivals) or None
    found = rate(trace)  # nan without times
    return found if _RATES[0] <= found <= _RATES[1] else None


def _laws(where: str, text: str) -> tuple[Any, Any] | None:
    """The two laws that ``PROMPT/OUTPUT`` names; None if the text is a file or names no law. `InputError` for a bad law."""
    parts = text.split("/")
    known = [part.partition(":")[0] for part in parts]
    is_number = [part.isascii() and part.isdigit() and len(part) < 17 for part in parts]
    is_known = [number or name in LAWS for number, name in zip(is_number, known, strict=True)]
    if Path(text).exists() or not any(is_known):
        return None
    if not all(is_known):
        unknown = known[is_known.index(False)]
        raise InputError(where, "source", text, "laws PROMPT/OUTPUT or an existing file", nearest(unknown, LAWS))
    if len(parts) != 2:
        raise InputError(where, "laws", text, "PROMPT/OUTPUT", "For instance 129/112.")
    if composed := _COMPOSED.intersection(known):
        hint = f"Write {min(composed)} in a workload file."
        raise InputError(where, "laws", text, "laws whose options are numbers", hint)
    found: list[Any] = []
    for part, name, number in zip(parts, known, is_number, strict=True):
        spec = names.options(part.partition(":")[2], name)
        found.append(Constant(int(part)) if number else names.make(LAWS[name], spec, where=name))
        check_mean(part, found[-1])
    return found[0], found[1]
