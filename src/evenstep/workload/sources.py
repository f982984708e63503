"""Opens the workload that a user names: a trace file, a sample, or a WORKLOAD.yaml."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from evenstep.errors import check_range, check_range_if_given
from evenstep.request import Trace
from evenstep.workload import reading
from evenstep.workload.readers.servegen import ServeGen
from evenstep.workload.replicate import replicate, rescaled
from evenstep.workload.synthetic.synthetic import Synthetic
from evenstep.workload.synthetic.yaml_file import Workload, load


def open_source(
    path: str | Path,
    format: str | None = None,
    *,
    skip_bad_rows: bool = False,
    limit: int | None = None,
    seed: int = 0,
    **options: Any,
) -> Workload:
    """Open the source of replicates that `path` names: a recorded trace, or a generator (YAML synthetic, ServeGen).

    Args:
        path: a trace file, ``sample:NAME``, or, if it ends in ``.yaml`` or ``.yml`` and has no format, a workload file.
        format, skip_bad_rows, seed, options: how to read a trace file (`reading.read_trace`). Of them only the option
            `prefix_blocks` has an effect on a workload file.
        limit: keep at most this many requests of a trace, or draw at most this many.

    Returns:
        The workload, its `source` not yet scaled; `requests_per_s` and `load` are those of a workload file, else None.

    Raises:
        InputError: a file that cannot be read, or a wrong argument (`read_trace`, `yaml_file.load`).
    """
    place = reading.file_of(path)
    check_range("--seed", "a whole number >= 0", low=0, seed=seed)
    check_range_if_given("--limit", "a whole number >= 1", low=1, limit=limit)
    if place.suffix in {".yaml", ".yml"} and format is None:
        return _cut(load(place, prefix_blocks=bool(options.get("prefix_blocks", True))), limit)
    return Workload(reading.source_of(place, format, options, skip_bad_rows=skip_bad_rows, limit=limit, seed=seed))


def _cut(workload: Workload, limit: int | None) -> Workload:
    source = workload.source
    if limit is None:
        return workload
    if isinstance(source, Trace):
        source = source.head(limit)
    elif isinstance(source, Synthetic):
        source = replace(source, requests=min(source.requests, limit))
    elif isinstance(source, ServeGen):
        source = replace(source, limit=min(limit, source.limit or limit))
    return replace(workload, source=source)


def first_trace(workload: Workload, seed: int) -> Trace:
    """Replicate 0 of a workload under `seed`, at the rate that its file asks for, if any; a load only adds a note."""
    trace = replicate(rescaled(workload.source, requests_per_s=workload.requests_per_s, seed=seed), 0, seed)
    if workload.load is None:
        return trace
    return trace.with_notes(f"The file asks for a load of {workload.load:g}: that needs a fleet, so times were not scaled.")
