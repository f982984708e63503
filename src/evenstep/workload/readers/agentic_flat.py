"""Agentic sessions as a flat CSV: `session,agent,t,type,model,in,out,api_time,think_time,...`, one request a row."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from evenstep.request import Trace
from evenstep.workload.readers import agent_lines, csv_table
from evenstep.workload.readers.agent_lines import Call, Helper
from evenstep.workload.table import Table, codes

_FIELDS = ("session", "agent", "t", "in", "out", "api_time", "think_time")
_MAIN = "main"


def recognises(head: bytes, name: str) -> bool:
    return set(_FIELDS) <= set(csv_table.header(head))


def read(path: Path, *, skip_bad_rows: bool = False) -> Trace:
    """Read the flat form of agentic sessions as a closed loop: no arrival times, no blocks.

    All times are seconds, `t` from the session's start. The file has no markers of sub-agents: a sub-agent's first `t` is
    taken as its marker, and the span of its requests as its duration (see `agent_lines`). An empty `api_time` counts as 0;
    for an empty `think_time` the gap between the times counts. Requests with an empty output are dropped and counted, and
    links skip them.
    """
    types: dict[str, type] = dict(zip(_FIELDS, (str, str, float, int, int, str, str), strict=True))
    return csv_table.parse(path, types, _trace, skip_bad_rows=skip_bad_rows)


def _trace(table: Table) -> Trace:
    times = table.number("t", low=0.0)
    prompt, output = table.whole("in"), table.whole("out", low=0)
    for field in ("api_time", "think_time"):
        table.columns[field] = [value or None for value in table.texts(field)]
    model = table.number("api_time", low=0.0, absent=0.0)
    think = table.number("think_time", low=0.0, absent=-1.0)
    table.require_rows()
    sessions, _ = codes(table.texts("session"))
    agents = table.texts("agent")
    calls: list[Call] = []
    helpers: list[Helper] = []
    numbers: dict[tuple[int, str], int] = {}
    for row in range(table.rows):
        helper = -1
        key = (int(sessions[row]), agents[row])
        if agents[row] != _MAIN:
            if key not in numbers:
                numbers[key] = len(helpers)
                helpers.append(Helper(marker_s=float(times[row]), duration_s=None))
            helper = numbers[key]
        recorded = float(think[row]) if think[row] >= 0 else None
        calls.append(Call(int(sessions[row]), helper, float(times[row]), float(model[row]), recorded))

    def place(row: int) -> tuple[int, float, int]:  # a sub-agent's requests stand at its marker
        call = calls[row]
        return call.session, call.start_s if call.helper < 0 else helpers[call.helper].marker_s, -call.helper

    sequence = np.array(sorted(range(table.rows), key=place), np.int64)
    trace, _ = agent_lines.trace(table, "agentic-flat", (prompt, output), [calls[i] for i in sequence], helpers, sequence)
    return trace
