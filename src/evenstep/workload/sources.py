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
        path, format, skip_bad_rows, limit, seed, options: as `reading.read_trace`. A path ending in ``.yaml`` or ``.yml``
            without a format is a workload file, for which only `limit` and the option `prefix_blocks` count.

    Returns:
        The workload, its `source` not yet scaled; `requests_per_s` and `load` are those of a workload file, else None.

    Raises:
        InputError: as `read_trace` and `yaml_file.load`.
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
        return replace(workload, source=source.head(limit))
    if isinstance(source, Synthetic):
        return replace(workload, source=replace(source, requests=min(source.requests, limit)))
    if isinstance(source, ServeGen):
        return replace(workload, source=replace(source, limit=min(limit, source.limit or limit)))
    return workload


def first_trace(workload: Workload, seed: int) -> Trace:
    """Replicate 0 of a workload, at the rate that its file asks for; a load is not applied, which a note says."""
    trace = replicate(rescaled(workload.source, requests_per_s=workload.requests_per_s, seed=seed), 0, seed)
    if workload.load is None:
        return trace
    return trace.with_notes(f"The file asks for a load of {workload.load:g}: that needs a fleet, so times were not scaled.")
