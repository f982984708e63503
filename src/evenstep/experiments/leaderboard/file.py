"""BOARD.yaml: the workloads of a leaderboard, and further policies to rank besides all policies at their defaults.

```yaml
version: 1
seeds: 5
workloads:
  - {name: chat, source: sample:azure-conv, settings: {workers: 8, slots: 48}}
  - {name: chat at 0.85, source: sample:azure-conv, settings: {workers: 8, slots: 48, load: 0.85}}
policies: ["bf-io:horizon=20,predictor=live"]
```
"""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from evenstep.config.convert import convert
from evenstep.config.layers import Layer, Settled, settle
from evenstep.config.schema import file_schema
from evenstep.config.yaml_file import Document, read_yaml
from evenstep.errors import InputError, check_known, nearest
from evenstep.experiments.leaderboard.table import WorkloadLine
from evenstep.experiments.settings import CompareSettings, checked, mapping

#: The ranking metric on a saturated fleet, and below saturation, where most idle time comes from a lack of requests.
SATURATED, BELOW = "idle_time_share", "imbalance_envelope_tokens"
#: Settings of `compare` that may not stand under ``settings``, and where they belong.
ELSEWHERE = {
    "source": "The workload stands under `source`.",
    "policies": "Policies are listed under `policies`.",
    "seeds": "Replicates stand under `seeds`, the same for all workloads.",
    "baseline": "Policies are compared with the best one.",
    "processes": "Processes are asked for on the command line.",
}


@dataclass(frozen=True, slots=True)
class WorkloadEntry:
    """One workload of a board.

    Args:
        name: its name on the board.
        source: a trace file, a workload YAML (relative to the board's folder) or sample:azure-conv.
        about: a phrase for readers.
        predictor: the predictor that predictor=live stands for here.
        settings: settings of evenstep compare other than source, policies, seeds, baseline and processes.
    """

    name: str
    source: str
    about: str = ""
    predictor: str = "survival"
    settings: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class SlowEntry:
    """The cells to skip or shorten for a slow policy.

    Args:
        seeds: number of its replicates, the first of those that other policies run.
        leave_out: workloads it is not run on.
    """

    seeds: int
    leave_out: list[str] = field(default_factory=list[str])


@dataclass(frozen=True, slots=True)
class BoardFile:
    """The content of a board file.

    Args:
        workloads: the workloads that policies are ranked on.
        seeds: replicates of each policy on each workload.
        policies: ranked next to every policy at its defaults; predictor=live is the workload's predictor.
        slow: policies with fewer replicates, or not on all workloads: by a line of the board, with its options, or by a
            name, which stands for all lines of that policy without an entry of their own.
        picture: workloads the picture shows; the first when left out.
    """

    workloads: list[WorkloadEntry]
    seeds: int = 5
    policies: list[str] = field(default_factory=list[str])
    slow: dict[str, SlowEntry] = field(default_factory=dict[str, SlowEntry])
    picture: list[str] = field(default_factory=list[str])


@dataclass(frozen=True, slots=True)
class Workload:
    """A checked workload of a board."""

    line: WorkloadLine  # its description for a page, with ranking metric and command
    settled: Settled[CompareSettings]  # settings with their origin
    settings: CompareSettings  # the same after `settings.checked`: in range, with the arrivals they imply

    @property
    def name(self) -> str:
        return self.line.name


def read_board(path: str | Path) -> tuple[BoardFile, list[Workload], Document]:
    """Read and check a board file. Policies are not built, and traces are not read.

    Returns the file's content, its workloads in order, and the document that knows the line of each key. Sources are
    relative to the board's folder. Workloads with timed arrivals are ranked by `BELOW`, others by `SATURATED`. `InputError`
    as in `read_yaml`, and for unknown keys, bad settings, fewer than two replicates, or a repeated or unknown name.
    """
    document = read_yaml(path)
    found = convert(document, BoardFile)
    if not found.workloads:
        raise InputError(document.where("workloads"), "workloads", "empty", "at least one workload")
    if found.seeds < 2:
        where = document.where("seeds")
        raise InputError(where, "seeds", found.seeds, "an integer >= 2, since a rank needs an interval")
    workloads = [_workload(found, n, document, Path(path).parent) for n in range(len(found.workloads))]
    known = [one.name for one in workloads]
    for n, name in enumerate(known):
        if name in known[:n]:
            place = f"workloads[{n}].name"
            raise InputError(document.where(place), place, name, "each name once")
    named = {"picture": found.picture, **{f"slow.{k}.leave_out": one.leave_out for k, one in found.slow.items()}}
    for place, names in named.items():
        for name in names:
            check_known(document.where(place), place, name, known, "a workload above")
    for policy, slow in found.slow.items():
        if not 2 <= slow.seeds <= found.seeds:
            place = f"slow.{policy}.seeds"
            raise InputError(document.where(place), place, slow.seeds, f"an integer from 2 to {found.seeds}")
    return found, workloads, document


def schema() -> dict[str, Any]:
    """The JSON Schema of BOARD.yaml; a workload's ``settings`` are those of `compare`, without `ELSEWHERE`."""
    found = file_schema(BoardFile, "evenstep BOARD.yaml")
    entry = found["$defs"]["WorkloadEntry"]["properties"]
    entry["settings"] = mapping(ELSEWHERE, entry["settings"].get("description", ""))
    return found


def _workload(found: BoardFile, number: int, document: Document, folder: Path) -> Workload:
    """Check workload entry `number` of the file, whose source is relative to `folder`; `InputError` for a bad setting."""
    entry, place = found.workloads[number], f"workloads[{number}]"
    known = [f.name for f in dataclasses.fields(CompareSettings) if f.name not in ELSEWHERE]
    for key in entry.settings:
        if key not in known:
            where = document.where(f"{place}.settings")
            hint = ELSEWHERE.get(key) or nearest(key, known)
            raise InputError(where, f"{place}.settings.{key}", entry.settings[key], "a known setting", hint)
    source = entry.source if entry.source.startswith("sample:") else (folder / entry.source).as_posix()
    layer = Layer(document.where(f"{place}.settings"), {**entry.settings, "source": source, "seeds": found.seeds})
    settled = settle(CompareSettings, layer)
    command = ["evenstep", "compare", source, *_flags(entry.settings), "--seeds", str(found.seeds)]
    settings = checked(settled)
    metric = BELOW if settings.arrivals == "timed" else SATURATED
    line = WorkloadLine(entry.name, entry.about, metric, entry.predictor, shlex.join(command))
    return Workload(line, settled, settings)


def _flags(settings: Mapping[str, Any]) -> list[str]:
    words: list[str] = []
    for name, value in settings.items():
        flag = "--" + name.replace("_", "-")
        if value is True:
            words.append(flag)
        elif name == "outages":
            words += [word for one in value for word in ("--outage", str(one))]
        elif isinstance(value, list):
            words += [flag, ",".join(map(str, cast("list[Any]", value)))] if value else []
        elif value is not None and value is not False:
            words += [flag, str(value)]
    return words
