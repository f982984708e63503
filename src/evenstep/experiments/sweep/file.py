"""SWEEP.yaml: the swept parameters, their values, the policies, and the requested metrics.

```yaml
version: 1
source: sample:azure-conv
fixed: {limit: 2000, slots: 48}
over:
  workers: [8, 16, 32]
  pool: {from: 32, to: 512, points: 5, scale: log}
policies: [fcfs, br-0]
metrics: [idle_time_share, oldest_wait_s]
```
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from evenstep.config.convert import convert
from evenstep.config.schema import file_schema
from evenstep.config.yaml_file import Document, read_yaml
from evenstep.errors import InputError, nearest
from evenstep.experiments.settings import USUAL, CompareSettings, mapping

#: Settings of `compare` that may not stand under ``fixed``, and where they belong.
ELSEWHERE = {
    "policies": "Policies are listed under `policies`.",
    "source": "One workload stands under `source`; several under `over.source`.",
    "baseline": "A sweep has curves, no baseline.",
    "processes": "Processes are asked for on the command line.",
}
#: Settings of `compare` by name.
SETTINGS: tuple[str, ...] = tuple(f.name for f in dataclasses.fields(CompareSettings))
#: Settings that cannot be swept.
_NEVER_SWEPT = ("policies", "baseline", "processes", "seeds", "seed")
#: Prefixes of an option; it goes to every policy (or predictor) that has it.
OPTIONS = ("policy.", "predictor.")
#: The default metrics.
METRICS = ("idle_time_share", "full_slot_tokens_per_s", "oldest_wait_s")


@dataclass(frozen=True, slots=True)
class SweepFile:
    """A sweep as a file describes it.

    Args:
        over: parameters and the values they take: a list, or for numbers a range with both ends, such as {from: 32,
            to: 512, points: 5, scale: log}; a Latin hypercube needs no points. A parameter is a setting of evenstep compare
            other than policies, baseline, processes, seeds and seed; or policy.OPTION or predictor.OPTION, which goes to
            every policy (or predictor) here that has it. No policy or predictor may set a swept option itself.
        source: a trace file, a workload YAML or sample:azure-conv; several stand under over.source.
        fixed: settings of evenstep compare that all points share.
        policies: policies as NAME:key=value,key=value; several usual ones when left out.
        sample: grid (every combination), or {latin-hypercube: POINTS, seed: N}.
        metrics: metrics that the table and the report show.
        until: add replicates to a point until this holds for all its policies, e.g. ci(idle_share) < 2%.
        most_seeds: replicates a point may have under until.
    """

    over: dict[str, Any]
    source: str = ""
    fixed: dict[str, Any] = field(default_factory=dict[str, Any])
    policies: list[str] = field(default_factory=lambda: list(USUAL))
    sample: Any = "grid"
    metrics: list[str] = field(default_factory=lambda: list(METRICS))
    until: str | None = None
    most_seeds: int = 30


def read_sweep(source: str | Path | Mapping[str, Any]) -> tuple[SweepFile, Document]:
    """Read and check a sweep file; names of policies and metrics, and values, are checked later, by `design_of`.

    `source` is a path, or a mapping with the content of such a file. Returns the sweep, and its document, which knows the
    lines of a file's keys, for errors. `InputError` as in `read_yaml`, and for unknown keys, a parameter that is
    fixed and swept, no workload or two places of it, no parameter, no metric, or `most_seeds` below 2.
    """
    if isinstance(source, Mapping):
        document = Document("sweep", {k: v for k, v in source.items() if k != "version"}, {})
    else:
        document = read_yaml(source)
    found = convert(document, SweepFile)
    for name in found.fixed:
        _check_setting(document, f"fixed.{name}", name, (*ELSEWHERE,))
    for name in found.over:
        field = f"over.{name}"
        if name.startswith(OPTIONS):
            continue
        _check_setting(document, field, name, _NEVER_SWEPT)
        if name in found.fixed:
            raise InputError(document.where(field), field, "also under fixed", "one of the two places")
    if not found.over:
        raise InputError(document.where("over"), "over", "empty", "at least one parameter with its values")
    if bool(found.source) == ("source" in found.over):
        value, hint = ("both", "") if found.source else ("missing", "Try sample:azure-conv.")
        raise InputError(document.where("source"), "source", value, "a workload here or under over.source", hint)
    if not found.metrics:
        raise InputError(document.where("metrics"), "metrics", "empty", "at least one metric")
    if found.most_seeds < 2:
        raise InputError(document.where("most_seeds"), "most_seeds", found.most_seeds, "an integer >= 2")
    return found, document


def sampling(found: SweepFile, document: Document) -> tuple[int, int] | None:
    """(points, seed) of the Latin hypercube that the key `sample` asks for; None = a grid. `document` is for errors.

    `InputError` for a value other than ``grid`` or a mapping with ``latin-hypercube`` >= 1 and perhaps ``seed`` >= 0.
    """
    given = found.sample
    if given == "grid":
        return None
    expected = "grid, or {latin-hypercube: POINTS, seed: N}"
    if not isinstance(given, Mapping) or "latin-hypercube" not in given:
        raise InputError(document.where("sample"), "sample", cast("Any", given), expected)
    options = cast("Mapping[str, Any]", given)
    for key in options:
        if key not in ("latin-hypercube", "seed"):
            hint = nearest(str(key), ("latin-hypercube", "seed"))
            raise InputError(document.where("sample"), f"sample.{key}", options[key], "a known key", hint)
    for key, low in (("latin-hypercube", 1), ("seed", 0)):
        value = options.get(key, 0)
        if type(value) is not int or value < low:
            raise InputError(document.where("sample"), f"sample.{key}", value, f"an integer >= {low}")
    return options["latin-hypercube"], options.get("seed", 0)


def schema() -> dict[str, Any]:
    """The JSON Schema of SWEEP.yaml. ``fixed`` takes settings of `compare`, ``over`` those that can be swept."""
    found = file_schema(SweepFile, "evenstep SWEEP.yaml")
    said = {name: one.get("description", "") for name, one in found["properties"].items()}
    fixed = mapping(ELSEWHERE, said["fixed"])
    source = file_schema(CompareSettings, "")["properties"]["source"]
    either, said_apart = {"$ref": "#/$defs/range"}, ("default", "description")
    swept = {
        name: {
            "anyOf": [{"type": "array", "minItems": 1, "items": {k: one[k] for k in one if k not in said_apart}}, either],
            "description": one.get("description", ""),
        }
        for name, one in {**fixed["properties"], "source": source}.items()
        if name not in _NEVER_SWEPT
    }
    options = {r"^(policy|predictor)\.[\w-]+$": {"anyOf": [{"type": "array", "minItems": 1}, either]}}
    seed = {"type": "integer", "minimum": 0, "default": 0}
    hypercube = _strict({"latin-hypercube": {"type": "integer", "minimum": 1}, "seed": seed}, "latin-hypercube")
    found["properties"] |= {
        "fixed": fixed,
        "over": {
            "type": "object",
            "properties": swept,
            "patternProperties": options,
            "additionalProperties": False,
            "minProperties": 1,
            "description": said["over"],
        },
        "sample": {"anyOf": [{"const": "grid"}, hypercube], "default": "grid", "description": said["sample"]},
    }
    numbers: dict[str, Any] = {"type": "number"}
    span = {"points": {"type": "integer", "minimum": 2}, "scale": {"enum": ["linear", "log"]}}
    found["$defs"] = {**found.get("$defs", {}), "range": _strict({"from": numbers, "to": numbers, **span}, "from", "to")}
    return found


def _strict(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    """The JSON Schema of an object with these properties and no others; `required` are keys it must have."""
    return {"type": "object", "properties": properties, "required": [*required], "additionalProperties": False}


def _check_setting(document: Document, field: str, name: str, elsewhere: tuple[str, ...]) -> None:
    """Raise `InputError` if `name` is no setting of `compare`, or one of `elsewhere`, which may not stand here."""
    if name in elsewhere:
        hint = ELSEWHERE.get(name, "Replicates stand under `fixed`.")
        raise InputError(document.where(field), "key", field, "another setting", hint)
    if name not in SETTINGS:
        known = [*(n for n in SETTINGS if n not in elsewhere), *(f"{prefix}OPTION" for prefix in OPTIONS)]
        raise InputError(document.where(field), "key", field, "a known setting", nearest(name, known))
