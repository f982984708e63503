"""Vidur request traces: `arrived_at,num_prefill_tokens,num_decode_tokens`, seconds."""

from __future__ import annotations

from pathlib import Path

from evenstep.request import Trace
from evenstep.workload.readers import csv_table, links
from evenstep.workload.table import Table

_FIELDS = {"arrived_at": float, "num_prefill_tokens": int, "num_decode_tokens": int}


def recognises(head: bytes, name: str) -> bool:
    return set(_FIELDS) <= set(csv_table.header(head))


def read(path: Path, *, skip_bad_rows: bool = False, limit: int | None = None) -> Trace:
    """Read a Vidur CSV file with arrival times in seconds; rows have to be in order of time.

    Source: microsoft/vidur, data/processed_traces.
    """
    return csv_table.parse(path, _FIELDS, _trace, skip_bad_rows=skip_bad_rows, limit=limit)


def _trace(table: Table) -> Trace:
    arrived = table.number("arrived_at", low=0.0)
    prompt, output = table.whole("num_prefill_tokens"), table.whole("num_decode_tokens")
    table.ascending("arrived_at", arrived)
    table.require_rows()
    return links.trace(table, "vidur", table.good, prompt_tokens=prompt, output_tokens=output, arrival_s=arrived)
