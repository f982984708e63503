"""Azure LLM inference traces of 2023 and 2024: `TIMESTAMP,ContextTokens,GeneratedTokens`."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from evenstep.request import I8, Trace
from evenstep.workload import files
from evenstep.workload.readers import csv_table, links
from evenstep.workload.table import Table

_FIELDS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d(?::\d\d(?:\.(\d{1,9}))?)?)(Z|[+-]\d\d:?\d\d)?")
_EXPECTED = "a time such as 2023-11-16 18:15:46.6805900 or 2024-05-12 00:00:00.001163+00:00"


def recognises(head: bytes, name: str) -> bool:
    return set(_FIELDS) <= set(csv_table.header(head))


def read(path: Path, *, skip_bad_rows: bool = False, limit: int | None = None) -> Trace:
    """Read an Azure 2023 or 2024 CSV file, whose rows have to be in order of time.

    A time may lack its seconds, its fraction (up to nine digits) or its zone (then it is UTC).

    Source: Azure Public Dataset; Splitwise (2023), DynamoLLM (2024).
    """
    import pyarrow as pa

    first = _TIME.fullmatch(next(csv_table.cells(files.head(path), "TIMESTAMP"), "").strip())
    zone = "UTC" if first is not None and first.group(4) is not None else None
    types = {"TIMESTAMP": pa.timestamp("ns", zone), "ContextTokens": int, "GeneratedTokens": int}
    return csv_table.parse(path, types, _trace, skip_bad_rows=skip_bad_rows, limit=limit)


def _trace(table: Table) -> Trace:
    nanoseconds = _nanoseconds(table)
    prompt, output = table.whole("ContextTokens"), table.whole("GeneratedTokens")
    table.ascending("TIMESTAMP", nanoseconds)
    table.require_rows()
    rows = table.good
    first, notes = int(nanoseconds[rows[0]]), list[str]()
    if datetime.fromtimestamp(first // 10**9, tz=UTC).date().isoformat() == "2023-11-16":
        notes = ["The rows say 16 November 2023; the published documentation of this trace says 11 November."]
    arrival_s = (nanoseconds - first) / 1e9
    return links.trace(table, "azure", rows, notes, prompt_tokens=prompt, output_tokens=output, arrival_s=arrival_s)


def _nanoseconds(table: Table) -> I8:
    """int64[N], nanoseconds since 1970 of each row; rows with a bad time are rejected."""
    column = table.column("TIMESTAMP")
    if isinstance(column, np.ndarray):
        table.reject("TIMESTAMP", column < 0, _EXPECTED)
        return column
    parsed = [nanoseconds(text) for text in column]
    table.reject("TIMESTAMP", np.array([value is None for value in parsed]), _EXPECTED)
    return np.array([value or 0 for value in parsed], np.int64)


def nanoseconds(text: Any) -> int | None:
    """Nanoseconds since 1970 of text like ``2023-11-16 18:15:46`` (no zone = UTC); None for others, or if < 0 or >= 2^63."""
    match = _TIME.fullmatch(str(text).strip())
    if match is None:
        return None
    day, clock, fraction, zone = match.groups()
    try:
        moment = datetime.fromisoformat(f"{day}T{clock.partition('.')[0]}{zone or '+00:00'}")
    except ValueError:
        return None
    whole = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(seconds=1)
    value = whole * 10**9 + int((fraction or "0").ljust(9, "0"))
    return value if 0 <= value < 2**63 else None
