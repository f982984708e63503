"""Request logs of vLLM runs: `request_id, input_toks, output_toks, arrival_time, queued_ts, ...`, one JSON a line."""

from __future__ import annotations

from pathlib import Path

from evenstep.request import Trace
from evenstep.workload.readers import json_table, links

_FIELDS = ("input_toks", "output_toks", "arrival_time")


def recognises(head: bytes, name: str) -> bool:
    return set(_FIELDS) <= json_table.keys(head)


def read(path: Path, *, skip_bad_rows: bool = False) -> Trace:
    """Read a vLLM request log, `arrival_time` in seconds.

    A log is written as requests end, so rows are sorted by arrival, and the notes count those below a later one.

    Source: the format of LLMServingSim's measured runs.
    """
    table = json_table.table(path, {field: (field,) for field in _FIELDS}, _FIELDS, skip_bad_rows=skip_bad_rows)
    prompt, output = table.whole("input_toks"), table.whole("output_toks")
    times = table.number("arrival_time", low=0.0)
    table.require_rows()
    rows, notes = links.by_time(table, times, "stood below a later arrival; the rows were sorted by arrival.")
    return links.trace(table, "vllm-log", rows, notes, prompt_tokens=prompt, output_tokens=output, arrival_s=times)
