"""BurstGPT: `Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type`; newer files add sessions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from evenstep.request import Trace
from evenstep.wording import counted
from evenstep.workload import files
from evenstep.workload.readers import csv_table, links
from evenstep.workload.table import Table, codes, session_numbers

_FIELDS = ("Timestamp", "Model", "Request tokens", "Response tokens")
_SESSION, _ELAPSED = "Session ID", "Elapsed time"


def recognises(head: bytes, name: str) -> bool:
    return set(_FIELDS) <= set(csv_table.header(head))


def read(path: Path, *, skip_bad_rows: bool = False) -> Trace:
    """Read a BurstGPT CSV file, with or without `Session ID` and `Elapsed time`; times are seconds, in order.

    Rows with 0 request or response tokens are failed requests: dropped and counted. The model is the request class. In a
    session a request follows the one above. Its think time is the gap minus the former's elapsed time, if known, >= 0.

    Source: BurstGPT (KDD 2025).
    """
    first = csv_table.header(files.head(path))
    types: dict[str, type] = dict(zip(_FIELDS, (float, str, int, int), strict=True))
    if _SESSION in first:
        types[_SESSION] = str
    if _SESSION in first and _ELAPSED in first:
        types[_ELAPSED] = float
    return csv_table.parse(path, types, _trace, skip_bad_rows=skip_bad_rows)


def _trace(table: Table) -> Trace:
    times = table.number("Timestamp", low=0.0)
    prompt = table.whole("Request tokens", low=0)
    output = table.whole("Response tokens", low=0)
    elapsed = table.number(_ELAPSED, low=0.0) if table.has(_ELAPSED) else np.zeros(table.rows)
    table.ascending("Timestamp", times)
    table.require_rows()
    rows = table.good
    names = table.texts("Model")
    kinds, models = codes([names[row] for row in rows])
    notes = [links.classes(models)]
    arrival_s = times[rows] - times[rows[0]]
    if ties := int((np.diff(arrival_s) == 0).sum()):
        notes.append(f"Times are whole seconds; {counted(ties, 'row shares its', 'rows share theirs')} with the row above.")
    trace = links.trace(table, "burstgpt", rows, notes, prompt_tokens=prompt, output_tokens=output, arrival_s=times)
    trace = replace(trace, request_class=kinds)
    if table.has(_SESSION):
        session = session_numbers(table, _SESSION)[rows]
        after = links.previous_in_session(session)
        busy = np.where(after >= 0, elapsed[rows][np.maximum(after, 0)], 0.0)
        think = np.maximum(links.gaps_after(after, arrival_s) - busy, 0.0)
        trace = replace(trace, session=session, after=after, think_s=think)
    failed = (trace.prompt_tokens == 0) | (trace.output_tokens == 0)
    return links.without(trace, failed, "0 tokens (failed requests)", table)
