"""WORKLOAD.yaml: a file that describes a synthetic workload, or names a trace file with its options.

```yaml
version: 1
synthetic:
  requests: 12000
  prompt: {law: lognormal, mu: 6.1, sigma: 1.15, low: 4, high: 4096}
  output: {law: gamma, shape: 1.5, scale: 180, low: 1, high: 2000}
```
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Generator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np

from evenstep.config import yaml_file
from evenstep.config.messages import expectation
from evenstep.errors import InputError, check_range_if_given, nearest
from evenstep.workload import reading
from evenstep.workload.replicate import Source
from evenstep.workload.synthetic import arrivals, laws
from evenstep.workload.synthetic.synthetic import Recurring, RequestClass, Synthetic


@dataclass(frozen=True, slots=True)
class Fitted:
    """A law from the lengths of a trace file: drawn from them (empirical), or from a lognormal law fitted to them.

    `column` is the trace's column. `file` is ``sample:NAME`` or a path from the YAML file's folder. A `format` of None is
    recognised from the file.
    """

    file: str
    column: Literal["prompt_tokens", "output_tokens"]
    kind: Literal["empirical", "lognormal"] = "empirical"
    format: str | None = None


@dataclass(frozen=True, slots=True)
class LikeTrace:
    """Arrivals with the gaps of a trace file, scaled to a rate if one is given.

    `file` is ``sample:NAME`` or a path from the YAML file's folder; a `format` of None is recognised from the file. A trace
    without times is an `InputError`.
    """

    file: str
    requests_per_s: float | None = None
    format: str | None = None


@dataclass(frozen=True, slots=True)
class TraceFile:
    """A trace file and how to read it; a relative path starts at the YAML file's folder.

    The fields are the arguments of `reading.read_trace`; `options` holds those of the format by name.
    """

    file: str
    format: str | None = None
    limit: int | None = None
    skip_bad_rows: bool = False
    seed: int = 0
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_range_if_given("trace", "a whole number >= 1", low=1, limit=self.limit)


@dataclass(frozen=True, slots=True)
class SyntheticSection:
    """A workload whose requests are drawn at random: see `Synthetic`."""

    requests: int
    prompt: laws.Law
    output: laws.Law
    arrivals: arrivals.Arrivals = field(default_factory=arrivals.Saturated)
    recurring: Recurring | None = None
    seed: int = 0
    classes: list[RequestClass] = field(default_factory=list[RequestClass])


@dataclass(frozen=True, slots=True)
class Document:
    """A whole WORKLOAD.yaml: one of `synthetic` and `trace`, and at most one of `requests_per_s` and `load`.

    `load` is a share of a cluster's capacity (`replicate.capacity`). Without a `name` the workload has the file's name.
    """

    version: int
    name: str | None = None
    description: str = ""
    synthetic: SyntheticSection | None = None
    trace: TraceFile | None = None
    requests_per_s: float | None = None
    load: float | None = None

    def __post_init__(self) -> None:
        rate, load = self.requests_per_s, self.load
        check_range_if_given("workload", "a finite number > 0", above=0, finite=True, requests_per_s=rate, load=load)


@dataclass(frozen=True, slots=True)
class Workload:
    """A source of traces, and the rate or load to which it is to be scaled; at most one of these is set."""

    source: Source  # the origin of replicates (a trace, or a generator), before scaling
    requests_per_s: float | None = None  # rate that the file asks for
    load: float | None = None  # load (share of a cluster's capacity) that the file asks for
    description: str = ""  # the file's own words
    path: Path | None = None  # the workload file; None = the source comes from elsewhere


#: YAML name -> class, of everything that is chosen by name.
LAWS: dict[str, type] = {
    "constant": laws.Constant,
    "uniform": laws.Uniform,
    "choice": laws.Choice,
    "lognormal": laws.Lognormal,
    "gamma": laws.Gamma,
    "geometric": laws.Geometric,
    "poisson": laws.Poisson,
    "pareto": laws.Pareto,
    "pareto-tailed": laws.ParetoTailed,
    "bimodal": laws.Bimodal,
    "capped": laws.Capped,
    "fitted": Fitted,
}
PROCESSES: dict[str, type] = {
    "saturated": arrivals.Saturated,
    "at-once": arrivals.AtOnce,
    "poisson": arrivals.Poisson,
    "constant": arrivals.Constant,
    "gamma": arrivals.Gamma,
    "on-off": arrivals.OnOff,
    "diurnal": arrivals.Diurnal,
    "like-trace": LikeTrace,
}


def load(path: Path, *, prefix_blocks: bool = True) -> Workload:
    """Read a workload file, and the trace files that it names.

    `prefix_blocks` keeps the block ids of a trace file, unless its own options say otherwise.

    Raises:
        InputError: not YAML, another version, an unknown key (with the nearest), or a value that does not fit; both or
            neither of `synthetic` and `trace`, or both a rate and a load. A bad key or value is named as ``section.key``.
    """
    file = yaml_file.read_yaml(path)
    found = Reading(path, file)
    document: Document = found.made(Document, {"version": yaml_file.VERSION, **file.values}, "")
    if (document.synthetic is None) == (document.trace is None):
        found = "both" if document.trace else "neither"
        raise InputError(file.path, "synthetic and trace", found, "one of the two")
    if document.requests_per_s is not None and document.load is not None:
        raise InputError(file.path, "requests_per_s and load", "both", "one of the two, or neither")
    if (drawn := document.synthetic) is not None:
        values = (drawn.requests, drawn.prompt, drawn.output, drawn.arrivals, drawn.recurring, drawn.seed)
        with found.placing("synthetic"):
            source: Source = Synthetic(*values, document.name or path.name, classes=tuple(drawn.classes))
    else:
        assert document.trace is not None
        source = _trace(path, document.trace, prefix_blocks)
        if document.name and dataclasses.is_dataclass(source):
            source = dataclasses.replace(source, name=document.name)
    return Workload(source, document.requests_per_s, document.load, document.description, path)


def check_means(workload: Workload) -> None:
    """Raise an `InputError` if a synthetic workload has a law of infinite mean (`laws.check_mean`); other sources pass.

    The error names the law, with its place in the file if there is one.
    """
    source = workload.source
    if not isinstance(source, Synthetic):
        return
    where = str(workload.path or source.name or "workload")
    owners = {"": source, **{f".classes[{k}]": one for k, one in enumerate(source.classes)}}
    with nullcontext() if workload.path is None else yaml_file.in_file(workload.path, where):
        for place, own in owners.items():
            for part, law in (("prompt", own.prompt), ("output", own.output)):
                if law is not None:
                    laws.check_mean(where, law, f"synthetic{place}.{part}")


def check_arriving(workload: Workload, at_rate: bool) -> None:
    """Call `check_means` on a workload whose requests arrive over time: under an infinite mean no rate above 0 is stable.

    A workload whose requests all wait from the start (`Saturated`, `AtOnce`) has finite work and passes, unless `at_rate`:
    then its arrivals are scaled to a rate or load.
    """
    own = getattr(workload.source, "arrivals", None)
    if at_rate or not isinstance(own, arrivals.Saturated | arrivals.AtOnce):
        check_means(workload)


def _trace(path: Path, section: TraceFile, prefix_blocks: bool) -> Source:
    """The source that the section ``trace`` names; a recorded trace is read."""
    options = section.options if prefix_blocks else {"prefix_blocks": False, **section.options}
    file = reading.file_of(beside(path, section.file))
    if file.suffix in {".yaml", ".yml"} and section.format is None:
        raise InputError(str(path), "trace.file", section.file, "a trace file", "A workload file cannot name another.")
    common: dict[str, Any] = {"skip_bad_rows": section.skip_bad_rows, "limit": section.limit, "seed": section.seed}
    return reading.source_of(file, section.format, options, **common)


class Reading:
    """Builds the dataclasses of one YAML file.

    Args:
        path: the file; relative paths in it start at its folder.
        file: its parsed content, which knows the line of each key for errors.
    """

    def __init__(self, path: Path, file: yaml_file.Document) -> None:
        self.path, self.file = path, file

    def made(self, kind: Any, content: Any, place: str) -> Any:
        """Build the dataclass `kind` from a mapping; every field is converted to its type, also inside nested dataclasses.

        A field whose law or process names a trace file is made from that trace, which is read. `place` is the mapping's keys
        in the file, joined by dots, for errors; empty = the whole file.

        Raises:
            InputError: not a mapping, an unknown or missing key, or a value that does not fit.
        """
        if not isinstance(content, Mapping):
            raise InputError(self.file.where(place), place or "content", content, "a mapping of keys to values")
        fields = {f.name: f for f in dataclasses.fields(kind)}
        if unknown := [str(key) for key in content if key not in fields]:
            hint = nearest(unknown[0], fields)
            raise self._error(_join(place, unknown[0]), content.get(unknown[0], ""), "a known key", hint)
        for name, one in fields.items():
            if name not in content and one.default is dataclasses.MISSING and one.default_factory is dataclasses.MISSING:
                hint = f"Keys: {', '.join(fields)}."
                raise InputError(self.file.where(place), _join(place, name), "missing", "a value", hint)
        hints = typing.get_type_hints(kind)
        values = {name: self._value(hints[name], value, _join(place, name)) for name, value in content.items()}
        with self.placing(place):
            return kind(**values)

    @contextmanager
    def placing(self, place: str) -> Generator[None]:
        """Context manager that raises an `InputError` of its block again, as one on the field in the mapping at `place`."""
        try:
            yield
        except InputError as error:
            raise self._error(_join(place, error.field), error.value, error.expected, error.hint) from None

    def _value(self, kind: Any, value: Any, place: str) -> Any:
        """A value of the file converted to the type `kind`, dataclasses by `made`; `InputError` if it does not fit."""
        import msgspec

        inner = kind
        if type(None) in typing.get_args(kind):
            if value is None:
                return None
            inner = next(option for option in typing.get_args(kind) if option is not type(None))
        inside = typing.get_args(inner)
        if inner is laws.Law:
            return self._named(LAWS, "law", value, place)
        if inner is arrivals.Arrivals:
            return self._named(PROCESSES, "process", value, place)
        if dataclasses.is_dataclass(inner):
            return self.made(inner, value, place)
        if typing.get_origin(inner) is list:
            if not isinstance(value, list):
                raise self._error(place, value, "a list")
            items = cast("list[Any]", value)
            return [self._value(inside[0], item, f"{place}[{number}]") for number, item in enumerate(items)]
        if typing.get_origin(inner) is dict:
            if not isinstance(value, Mapping):
                raise self._error(place, value, "a mapping of names to values")
            named = cast("Mapping[Any, Any]", value)
            return {str(name): self._value(inside[1], one, _join(place, str(name))) for name, one in named.items()}
        try:
            return msgspec.convert(value, inner)
        except msgspec.ValidationError as error:
            known = inside if typing.get_origin(inner) is Literal else ()
            near = nearest(str(value), known)
            hint = near if near.startswith("Did") else ""
            raise self._error(place, value, expectation(str(error), inner), hint) from None

    def _named(self, known: dict[str, type], tag: str, content: Any, place: str) -> Any:
        """The law or process that `content` names by its key `tag` (of `known`); text alone names one without parameters."""
        options = {tag: content} if isinstance(content, str) else content
        if not isinstance(options, Mapping) or tag not in options:
            hint = f"Known: {', '.join(known)}."
            raise self._error(place, content, f"a mapping with `{tag}`", hint)
        name = options[tag]
        if str(name) not in known:
            raise self._error(_join(place, tag), name, f"a known {tag}", nearest(str(name), known))
        made = self.made(known[name], {key: value for key, value in options.items() if key != tag}, place)
        if not isinstance(made, Fitted | LikeTrace):
            return made
        trace = reading.read_trace(beside(self.path, made.file), made.format, prefix_blocks=False)
        if isinstance(made, LikeTrace) and trace.arrival_s is None:
            raise self._error(_join(place, "file"), made.file, "a trace with arrival times")
        with self.placing(place):
            if isinstance(made, LikeTrace):
                return arrivals.LikeTrace(np.diff(trace.column("arrival_s")), made.requests_per_s)
            values = getattr(trace, made.column)
            return laws.Empirical(np.sort(values)) if made.kind == "empirical" else laws.fitted_lognormal(values)

    def _error(self, field: str, value: object, expected: str, hint: str = "") -> InputError:
        return InputError(self.file.where(field), field, value, expected, hint)


def beside(path: Path, file: str) -> str:
    """A trace file that a YAML file names: ``sample:NAME`` as it is, any other path taken from the YAML file's folder."""
    return file if file.startswith("sample:") else str(path.parent / file)


def _join(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name
