"""Links the requests of an agentic session: one main line of requests, and sub-agents that run parallel to it.

A request follows the previous one of its line, `think_time` after that one ends. A sub-agent is recorded as a marker with
its own requests, in times relative to the marker. Markers are written when the sub-agent ends: in every recorded session, a
marker's time minus the sub-agent's duration is the end of the previous main request (within a second). So a sub-agent starts
`duration` before its marker, and:

* Its first request follows the last main request begun by then (within 1 s). Its think time is the gap from that one's end.
* The next main request follows whichever ends last: the previous main request, or a sub-agent whose result it waited for.
  After a sub-agent the think time is the recorded gap, so a replay at the recorded speed keeps the recorded times.
* A sub-agent launched asynchronously delays no other request.

The duration of a marker without one is the span of its requests. If no main request had begun by a sub-agent's start, its
requests start at the marker.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field, replace
from itertools import groupby

import numpy as np

from evenstep.request import F8, I8, Trace
from evenstep.wording import counted
from evenstep.workload.readers import links
from evenstep.workload.table import Bool, Table

NOTE = "in parallel to the main line: each follows the main request that launched it, and is waited for."
_ROUNDING_S = 1.0  # recorded times are whole seconds


@dataclass(frozen=True, slots=True)
class Call:
    """One request of a session; its times are as recorded, in seconds.

    `helper` is the index of its sub-agent in the list of helpers, -1 = main line. `start_s` counts from the session's start,
    or for a sub-agent from any time, since only gaps matter. `model_s` is how long the model took; `think_s` None = unknown.
    """

    session: int
    helper: int
    start_s: float
    model_s: float
    think_s: float | None


@dataclass(frozen=True, slots=True)
class Helper:
    """One sub-agent: its marker's time in seconds from the session's start, and its duration, None if not recorded.

    `awaited` is True if the main line waits for its result.
    """

    marker_s: float
    duration_s: float | None
    awaited: bool = True


def linked(calls: list[Call], helpers: list[Helper], good: Bool) -> tuple[I8, I8, I8, F8]:
    """Order the good calls as rows of a trace, and link each to its predecessor, by the rules at the top of this file.

    Args:
        calls: in the order of the file: each session's together, a sub-agent's calls where its marker stands.
        helpers: the sub-agents; `Call.helper` is an index into this list.
        good: bool[N], False for calls to leave out.

    Returns:
        For each row of the trace (ordered by session, then start): its index in `calls`, its session from 0, the row of its
        predecessor (-1 = none), and its think time in seconds.
    """
    order: list[int] = []
    after: list[int] = []
    think: list[float] = []
    for _, rows in groupby(np.flatnonzero(good).tolist(), key=lambda row: calls[row].session):
        session = _Session(calls, helpers)
        for row in rows:
            session.add(row)
        session.start_helpers()
        own = sorted(session.starts, key=session.starts.__getitem__)  # equal starts keep the order they were linked in
        place = {row: len(order) + position for position, row in enumerate(own)} | {-1: -1}
        order += own
        after += [place[session.follows[row]] for row in own]
        think += [session.delay[row] for row in own]
    _, numbers = np.unique([calls[row].session for row in order], return_inverse=True)
    return np.array(order, np.int64), numbers.reshape(-1).astype(np.int64), np.array(after, np.int64), np.array(think)


@dataclass(slots=True)
class _Session:
    """One session while it is linked: each call's start (s), the call it follows (-1 = none) and its think time (s)."""

    calls: list[Call]
    helpers: list[Helper]
    starts: dict[int, float] = field(default_factory=dict[int, float])
    follows: dict[int, int] = field(default_factory=dict[int, int])
    delay: dict[int, float] = field(default_factory=dict[int, float])
    mains: list[int] = field(default_factory=list[int])
    waiting: dict[int, list[int]] = field(default_factory=dict[int, list[int]])  # calls of sub-agents not yet started
    returned: list[int] = field(default_factory=list[int])  # last calls of those that ended since the main line's last one

    def add(self, row: int) -> None:
        """Add the call at index `row`: keep a sub-agent's for later; before a main one is linked, link those kept so far."""
        call, starts = self.calls[row], self.starts
        if call.helper >= 0:
            self.waiting.setdefault(call.helper, []).append(row)
            return
        self.start_helpers()
        front = self.mains[-1] if self.mains else -1
        starts[row] = max(call.start_s, starts[front]) if front >= 0 else call.start_s
        waited = [front, *(r for r in self.returned if starts[r] <= starts[row])]  # a later one was not waited for
        ends = {r: starts[r] + self.calls[r].model_s for r in waited if r >= 0}
        self.follows[row] = max(ends, key=lambda r: (ends[r], r == front), default=-1)
        gap = max(call.start_s - ends[self.follows[row]], 0.0) if ends else 0.0
        self.delay[row] = call.think_s if call.think_s is not None and self.follows[row] == front else gap
        self.mains.append(row)
        self.returned.clear()

    def start_helpers(self) -> None:
        """Link the calls that `add` has kept, and empty the list; called before each main call and after the last `add`."""
        calls, starts = self.calls, self.starts
        for number, own in self.waiting.items():
            helper = self.helpers[number]
            span = calls[own[-1]].start_s + calls[own[-1]].model_s - calls[own[0]].start_s
            start = helper.marker_s - (span if helper.duration_s is None else helper.duration_s)
            begun = bisect_right(self.mains, start + _ROUNDING_S, key=starts.__getitem__)  # main starts ascend
            if not begun:
                start, begun = helper.marker_s, len(self.mains)
            front = self.mains[begun - 1] if begun else -1
            if front >= 0:
                start = max(start, starts[front])
            offset = start - calls[own[0]].start_s
            for row in own:
                starts[row] = max(calls[row].start_s + offset, starts[front] if front >= 0 else 0.0)
                self.follows[row] = front
                if front < 0:
                    self.delay[row] = 0.0
                elif row == own[0]:
                    self.delay[row] = max(start - starts[front] - calls[front].model_s, 0.0)
                else:
                    gap = max(starts[row] - starts[front] - calls[front].model_s, 0.0)
                    recorded = calls[row].think_s
                    self.delay[row] = gap if recorded is None else recorded
                front = row
            if helper.awaited:
                self.returned.append(own[-1])
        self.waiting.clear()


def trace(table: Table, format: str, session: I8, helper: I8, helpers: list[Helper], order: I8) -> tuple[Trace, I8]:
    """The trace of a table's good rows whose output is not empty; and int64, for each of its requests the row in the table.

    The table has the columns `in` and `out` (tokens), and `t`, `api_time` and `think_time` (seconds; the latter two may be
    missing in a row).

    Args:
        format: name of the trace's format.
        session, helper: int64[N], session of each row, and index in `helpers` of its sub-agent (-1 = main line).
        order: the rows in the order that `linked` needs.

    Raises:
        InputError: a bad row unless skipped, or no request is left.
    """
    prompt, output = table.whole("in"), table.whole("out", low=0)
    start_s = table.number("t", low=0.0)
    model_s, think_s = (
        table.number(name, low=0.0, absent=absent) for name, absent in (("api_time", 0.0), ("think_time", -1.0))
    )
    table.require_rows()
    known = [None if think < 0 else think for think in think_s[order].tolist()]
    parts = (column[order].tolist() for column in (session, helper, start_s, model_s))
    calls = [Call(*call) for call in zip(*parts, known, strict=True)]
    placed, session, after, think = linked(calls, helpers, ~table.bad[order])
    notes = ["Closed loop: there are no arrival times, requests follow each other in their sessions."]
    notes += [f"{counted(len(helpers), 'sub-agent runs', 'sub-agents run')} {NOTE}"] if helpers else []
    own = order[placed]
    found = links.trace(table, format, own, notes, prompt_tokens=prompt, output_tokens=output)
    found = replace(found, session=session, after=after, think_s=think)
    empty = found.output_tokens == 0
    return links.without(found, empty, "an empty output", table, "request"), own[~empty]
