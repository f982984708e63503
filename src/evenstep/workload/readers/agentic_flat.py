"""Agentic sessions as a flat CSV: `session,agent,t,type,model,in,out,api_time,think_time,...`, one request a row."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from evenstep.request import Trace
from evenstep.workload.readers import agent_lines, csv_table
from evenstep.workload.readers.agent_lines import Helper
from evenstep.workload.table import Table, codes

_FIELDS = ("session", "agent", "t", "in", "out", "api_time", "think_time")
_MAIN = "main"


def recognises(head: bytes, name: str) -> bool:
    return set(_FIELDS) <= set(csv_table.header(head))


def read(path: Path, *, skip_bad_rows: bool = False) -> Trace:
    """Read the flat form of agentic sessions as a closed loop: no arrival times, no blocks.

    All times are seconds, `t` from the session's start. The file has no markers of sub-agents: a sub-agent's first `t` is
    taken as its marker, and the span of its requests as its duration (see `agent_lines`). An empty `api_time` counts as 0;
    for an empty `think_time` the gap from the previous end does. Requests with an empty output are dropped and counted, and
    links skip them.
    """
    types: dict[str, type] = dict(zip(_FIELDS, (str, str, float, int, int, str, str), strict=True))
    return csv_table.parse(path, types, _trace, skip_bad_rows=skip_bad_rows)


def _trace(table: Table) -> Trace:
    for field in ("api_time", "think_time"):
        table.columns[field] = [value or None for value in table.texts(field)]
    times, (sessions, _) = table.number("t", low=0.0), codes(table.texts("session"))
    numbers: dict[tuple[int, str], int] = {}
    helper = np.full(table.rows, -1, np.int64)
    markers: list[float] = []
    for row, (session, agent) in enumerate(zip(sessions.tolist(), table.texts("agent"), strict=True)):
        if agent != _MAIN and not table.bad[row]:  # a bad row has no time
            if (session, agent) not in numbers:
                numbers[session, agent] = len(markers)
                markers.append(float(times[row]))
            helper[row] = numbers[session, agent]
    places = np.where(helper < 0, times, np.array([*markers, 0.0])[helper])  # a sub-agent's requests stand at its marker
    order = np.lexsort((-helper, places, sessions)).astype(np.int64)
    trace, _ = agent_lines.trace(table, "agentic-flat", sessions, helper, [Helper(at, None) for at in markers], order)
    return trace
