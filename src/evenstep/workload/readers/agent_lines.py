"""Dependencies between the requests of an agentic session: one main line, and sub-agents parallel to it.

A request follows the previous one of its line, `think_time` after its end. A sub-agent is recorded as a marker with its
own requests, in times relative to the marker. In every recorded session the marker's time less the sub-agent's duration
is the end of the previous main request (within a second): markers are written when the sub-agent ends. Hence a
sub-agent starts `duration` before its marker, and

* its first request follows the last main request that had begun by then, after the gap from that one's end to the start;
* the main line's next request follows the last to end of the previous main request and the sub-agents whose result it
  waited for, after the recorded gap. Replays at the recorded speed so keep the recorded times;
* a sub-agent launched asynchronously delays no other request.

A marker without a duration takes the span of its requests as its duration; if that would begin before the session does,
its requests start at the marker.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from evenstep.request import F8, I8, Trace
from evenstep.workload.readers import links
from evenstep.workload.table import Bool, Table

NOTE = "{:,} sub-agents run in parallel to the main line: each follows the main request that launched it, and is waited for."
_ROUNDING_S = 1.0  # recorded times are whole seconds


@dataclass(frozen=True, slots=True)
class Call:
    """One request: its session, its sub-agent's index in the list of helpers (-1 = main line), and its recorded times.

    All are seconds. `start_s` counts from the session's start; a sub-agent's may count from any time, since only gaps
    matter. `model_s` is the time the request took. `think_s` is None where it is not recorded.
    """

    session: int
    helper: int
    start_s: float
    model_s: float
    think_s: float | None


@dataclass(frozen=True, slots=True)
class Helper:
    """One sub-agent: the time of its marker in seconds from the session's start, and its duration if recorded (else None).

    `awaited` says whether the main line waits for its result.
    """

    marker_s: float
    duration_s: float | None
    awaited: bool = True


def linked(calls: list[Call], helpers: list[Helper], good: Bool) -> tuple[I8, I8, I8, F8]:
    """Order and links of the good calls, by the rules at the top of this file.

    Args:
        calls: in the order of the file, each session's together, a sub-agent's calls where its marker stands.
        helpers: the sub-agents that `Call.helper` counts.
        good: bool[N], calls that are not bad.

    Returns:
        The good calls' indices in `calls`, in the order of the trace: by session, in it by start. Then, in that order,
        session from 0, row of the predecessor in the trace (-1 = none), and think time in seconds.
    """
    order: list[int] = []
    after: list[int] = []
    think: list[float] = []
    rows = np.flatnonzero(good).tolist()
    first = 0
    while first < len(rows):
        last = first
        while last < len(rows) and calls[rows[last]].session == calls[rows[first]].session:
            last += 1
        _one_session(rows[first:last], calls, helpers, order, after, think)
        first = last
    session = np.array([calls[row].session for row in order], np.int64)
    _, numbers = np.unique(session, return_inverse=True)
    return (np.array(order, np.int64), numbers.reshape(-1).astype(np.int64), np.array(after, np.int64), np.array(think))


def _one_session(
    rows: list[int], calls: list[Call], helpers: list[Helper], order: list[int], after: list[int], think: list[float]
) -> None:
    """Append one session's calls in order of their start, each below its predecessor."""
    starts: dict[int, float] = {}
    follows: dict[int, int] = {}
    delay: dict[int, float] = {}
    mains: list[int] = []
    lines: dict[int, list[int]] = {}
    returned: list[int] = []  # last calls of sub-agents that ended since the main line's last request
    for row in rows:
        call = calls[row]
        if call.helper >= 0:
            lines.setdefault(call.helper, []).append(row)
            continue
        _start_helpers(lines, mains, calls, helpers, starts, follows, delay, returned)
        front = mains[-1] if mains else -1
        starts[row] = max(call.start_s, starts[front]) if front >= 0 else call.start_s
        waited = [front, *(r for r in returned if starts[r] <= starts[row])]  # a later one was not waited for
        ends = {r: starts[r] + calls[r].model_s for r in waited if r >= 0}
        follows[row] = max(ends, key=lambda r: (ends[r], r == front), default=-1)
        gap = max(call.start_s - ends[follows[row]], 0.0) if ends else 0.0
        delay[row] = call.think_s if call.think_s is not None and follows[row] == front else gap
        mains.append(row)
        returned.clear()
    _start_helpers(lines, mains, calls, helpers, starts, follows, delay, returned)
    base = len(order)
    sequence = sorted(starts, key=lambda r: starts[r])  # stable: equal starts keep the order they were linked in
    place = {row: base + position for position, row in enumerate(sequence)}
    for row in sequence:
        order.append(row)
        after.append(place[follows[row]] if follows[row] >= 0 else -1)
        think.append(delay[row])


def _start_helpers(
    lines: dict[int, list[int]],
    mains: list[int],
    calls: list[Call],
    helpers: list[Helper],
    starts: dict[int, float],
    follows: dict[int, int],
    delay: dict[int, float],
    returned: list[int],
) -> None:
    """Link the sub-agents whose markers were just passed, and empty `lines`."""
    for number, own in lines.items():
        helper = helpers[number]
        span = calls[own[-1]].start_s + calls[own[-1]].model_s - calls[own[0]].start_s
        start = helper.marker_s - (span if helper.duration_s is None else helper.duration_s)
        launchers = [r for r in mains if starts[r] <= start + _ROUNDING_S]
        if not launchers:
            start = helper.marker_s
            launchers = mains
        front = launchers[-1] if launchers else -1
        if front >= 0:
            start = max(start, starts[front])
        offset = start - calls[own[0]].start_s
        for row in own:
            starts[row] = max(calls[row].start_s + offset, starts[front] if front >= 0 else 0.0)
            follows[row] = front
            if front < 0:
                delay[row] = 0.0
            elif row == own[0]:
                delay[row] = max(start - starts[front] - calls[front].model_s, 0.0)
            else:
                gap = max(starts[row] - starts[front] - calls[front].model_s, 0.0)
                recorded = calls[row].think_s
                delay[row] = gap if recorded is None else recorded
            front = row
        if helper.awaited:
            returned.append(own[-1])
    lines.clear()


def trace(
    table: Table, format: str, lengths: tuple[I8, I8], calls: list[Call], helpers: list[Helper], rows: I8
) -> tuple[Trace, I8]:
    """Build a trace from the good calls, without requests whose output is empty.

    Args:
        format: name of the trace's format.
        lengths: prompt and output tokens of each row of the table.
        calls, helpers: see `linked`.
        rows: int64[N], row of the table of each call.

    Returns:
        The trace, and int64, the row of the table of each of its requests.

    Raises:
        InputError: no request is left.
    """
    order, session, after, think = linked(calls, helpers, ~table.bad[rows])
    notes = ["Closed loop: there are no arrival times, requests follow each other in their sessions."]
    notes += [NOTE.format(len(helpers))] if helpers else []
    own, (prompt, output) = rows[order], lengths
    found = links.trace(table, format, own, notes, prompt_tokens=prompt, output_tokens=output)
    found = replace(found, session=session, after=after, think_s=think)
    empty = found.output_tokens == 0
    note = "{:,} of {:,} requests have an empty output and were dropped."
    return links.without(found, empty, note, table), own[~empty]
