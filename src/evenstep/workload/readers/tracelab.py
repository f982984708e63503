"""TraceLab: one round of a coding agent a line, with token counts and event times."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from evenstep.request import F8, Trace
from evenstep.workload.readers import json_table, links
from evenstep.workload.table import Table, session_numbers

_FIELDS = ("session_id", "input_tokens_total", "output_tokens", "timing_events", "round_index")
_INPUTS = {"user_message", "tool_result"}


def recognises(head: bytes, name: str) -> bool:
    return {"session_id", "input_tokens_total", "output_tokens"} <= json_table.keys(head)


def read(path: Path, *, skip_bad_rows: bool = False) -> Trace:
    """Read TraceLab rounds; prompts are `input_tokens_total`, rows are sorted by arrival.

    A round arrives at its last input event (user message or tool result) or, without one, at its first listed event. It ends
    at its last event. It follows the round before it in its session. Its think time is the seconds from the end of the round
    before to its own arrival, at least 0. A time without a zone is UTC.

    Source: uw-syfi/TraceLab.
    """
    fields = {field: (field,) for field in _FIELDS}
    table = json_table.table(path, fields, _FIELDS[:4], skip_bad_rows=skip_bad_rows)
    prompt, output = table.whole("input_tokens_total"), table.whole("output_tokens")
    arrived, ended = _times(table)
    table.require_rows()
    order, notes = links.by_time(table, arrived, "stood below a later one; the rows were sorted by arrival.")
    session = session_numbers(table, "session_id")
    trace = links.trace(
        table, "tracelab", order, notes, prompt_tokens=prompt, output_tokens=output, arrival_s=arrived, session=session
    )
    after = links.previous_in_session(session[order])
    think = arrived[order] - ended[order][np.maximum(after, 0)]
    return replace(trace, after=after, think_s=np.where(after >= 0, np.maximum(think, 0.0), 0.0))


def _times(table: Table) -> tuple[F8, F8]:
    """Arrival and end of each round, float64[N] seconds since 1970 each; rounds with unreadable events are rejected."""
    stamps = [_stamps(events) for events in table.column("timing_events")]
    wrong = np.array([stamp is None for stamp in stamps])
    table.reject("timing_events", wrong, "events with `event_type` and an ISO `timestamp`")
    arrived, ended = np.array([stamp or (0.0, 0.0) for stamp in stamps]).T
    return arrived, ended


def _stamps(events: Any) -> tuple[float, float] | None:
    """Arrival and end of one round, seconds since 1970, by the rules of `read`; None if its events cannot be read."""
    try:
        times = [_seconds(e["timestamp"]) for e in events]
        inputs = [time for time, e in zip(times, events, strict=True) if e["event_type"] in _INPUTS]
        return max(inputs or times[:1]), max(times)
    except (TypeError, KeyError, ValueError, AttributeError):
        return None


def _seconds(text: str) -> float:
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
