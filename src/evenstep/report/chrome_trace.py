"""A run as a Chrome trace, which the Perfetto viewer opens: one track for each worker, with work and barrier waits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from evenstep.cost.view import StepTime
from evenstep.errors import InputError, check_range
from evenstep.measure.output_file import replacing
from evenstep.measure.records import Conditions, WorkerTable

_PROCESS = 1
_MICRO = 1e6  # the format counts microseconds
_ROUNDING = 1e-9  # a wait of a smaller share of its step is rounding


def write_chrome_trace(
    path: Path, workers: WorkerTable, law: StepTime, conditions: Conditions, *, first: int = 0, limit: int = 2000
) -> int:
    """Write some steps of a run in the Trace Event Format; returns their number. Each step is of one barrier group.

    Each worker has a track with two kinds of slices: ``decode``, overhead and local work, and ``barrier wait``, the rest of
    its group's step. Counters show envelope and imbalance (KV tokens) and load imbalance (a share) of each barrier group.

    Args:
        path: the JSON file.
        workers: samples of every step (stride 1).
        first: row in `workers` of the first step written, counted from 0.
        limit: most rows written, >= 1; a viewer is slow beyond some 100,000 slices, two for each worker of a step.

    Raises:
        InputError: samples that leave out steps, or lack the `longest` that the law needs; `first` or `limit` out of range;
            a file that cannot be written.
    """
    import orjson

    if workers.stride != 1:
        hint = "Sample fewer steps of a shorter run."
        raise InputError("chrome trace", "stride", workers.stride, "samples of every step", hint)
    if workers.longest is None and law.table().longest_share > 0:
        expected = "samples of the longest request of every worker, which this law asks for"
        raise InputError("chrome trace", "longest", "missing", expected, "Sample a run under this law.")
    check_range("chrome trace", "an integer >= 1", low=1, limit=limit)
    if not 0 <= first < workers.step.size:
        raise InputError("chrome trace", "first", first, f"a step in 0..{workers.step.size - 1}")
    last = min(first + limit, workers.step.size)
    with replacing(path) as out:
        out.write(b'{"displayTimeUnit":"ms","traceEvents":[\n')
        out.write(b",\n".join(orjson.dumps(event) for event in _names(conditions)))
        for row in range(first, last):
            for event in _step_events(workers, row, law, conditions.group_sizes):
                out.write(b",\n")
                out.write(orjson.dumps(event))
        out.write(b"\n]}\n")
    return last - first


def _names(conditions: Conditions) -> Iterator[dict[str, Any]]:
    """Yield events in the trace format that name the process and the track of each worker."""
    process: dict[str, Any] = {"ph": "M", "pid": _PROCESS}
    yield {**process, "name": "process_name", "args": {"name": f"decode, {conditions.policy}"}}
    for worker in range(conditions.workers):
        track = {**process, "tid": worker + 1}
        yield {**track, "name": "thread_name", "args": {"name": f"worker {worker}"}}
        yield {**track, "name": "thread_sort_index", "args": {"sort_index": worker}}


def _step_events(workers: WorkerTable, row: int, law: StepTime, sizes: tuple[int, ...]) -> Iterator[dict[str, Any]]:
    """Yield slices and counters of one step of one group, `row` of `workers`; `sizes` are the sizes of all groups."""
    group = int(workers.group[row])
    first, size = sum(sizes[:group]), sizes[group]
    part = slice(first, first + size)
    load, running = workers.load[row, part], workers.running[row, part]
    start, duration = float(workers.start_s[row]), float(workers.duration_s[row])
    table, effective = law.table(), workers.load[row]
    if workers.longest is not None:
        effective = table.effective_load(effective, workers.running[row], workers.longest[row])
    busy = np.minimum(law.overhead_seconds(size) + table.local_seconds(effective)[part], duration)
    for worker in range(size):
        common = {"ph": "X", "pid": _PROCESS, "tid": first + worker + 1}
        args = {"step": int(workers.step[row]), "load": float(load[worker]), "running": int(running[worker])}
        seconds = float(busy[worker])
        yield {**common, "name": "decode", "ts": start * _MICRO, "dur": seconds * _MICRO, "args": args}
        waits = duration - seconds
        if waits > _ROUNDING * duration:
            yield {**common, "name": "barrier wait", "ts": (start + seconds) * _MICRO, "dur": waits * _MICRO}
    top = float(load.max())
    idle = 1.0 - float(load.mean()) / top if top > 0 else 0.0
    counters = {"envelope": top, "imbalance": size * top - float(load.sum()), "load imbalance": idle}
    for name, value in counters.items():
        name = name if len(sizes) == 1 else f"{name}, group {group}"
        yield {"ph": "C", "pid": _PROCESS, "name": name, "ts": start * _MICRO, "args": {name: value}}
