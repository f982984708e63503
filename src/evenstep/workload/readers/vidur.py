"""Vidur request traces: `arrived_at,num_prefill_tokens,num_decode_tokens`, seconds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from evenstep.request import Trace
from evenstep.workload.readers import csv_table
from evenstep.workload.table import Table

_FIELDS = ("arrived_at", "num_prefill_tokens", "num_decode_tokens")


def recognises(head: bytes, name: str) -> bool:
    return set(_FIELDS) <= set(csv_table.header(head))


def read(path: Path, *, skip_bad_rows: bool = False) -> Trace:
    """Read a Vidur CSV file with arrival times; rows have to be in order of time.

    Raises:
        InputError: a bad row (file, line, field, value), or a file without rows.

    Source: microsoft/vidur, data/processed_traces.
    """
    import pyarrow as pa

    types: dict[str, Any] = dict(zip(_FIELDS, (pa.float64(), pa.int64(), pa.int64()), strict=True))
    return csv_table.parse(path, types, lambda table: _trace(table, path), skip_bad_rows=skip_bad_rows)


def _trace(table: Table, path: Path) -> Trace:
    arrived = table.number("arrived_at", low=0.0)
    prompt = table.whole("num_prefill_tokens")
    output = table.whole("num_decode_tokens")
    table.ascending("arrived_at", arrived)
    table.require_rows()
    rows = table.good
    return Trace(
        prompt_tokens=prompt[rows],
        output_tokens=output[rows],
        arrival_s=arrived[rows] - arrived[rows[0]],
        name=path.name,
        format="vidur",
        notes=table.notes(),
    )
