"""Mooncake JSONL, and the request lines of AIPerf, Dynamo and vLLM in the same format."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from evenstep import streams
from evenstep.errors import InputError
from evenstep.request import F8, I8, Trace
from evenstep.workload.readers import blocks, json_table, links
from evenstep.workload.table import Bool, Table, session_numbers

#: Field -> its names in files.
ALIASES: dict[str, tuple[str, ...]] = {
    "timestamp": ("timestamp", "created_time", "timestamp_ms", "ts", "arrival_time_ms"),
    "input_length": ("input_length", "input_tokens", "isl", "prompt_tokens", "prompt_length", "input_len", "prompt_len"),
    "output_length": (
        "output_length",
        "output_tokens",
        "osl",
        "completion_tokens",
        "output_len",
        "max_output_tokens",
        "max_tokens",
    ),
    "hash_ids": ("hash_ids", "prefix_hash_ids", "block_hashes"),
    "session_id": ("session_id", "conversation_id", "session"),
    "delay": ("delay", "delay_ms"),
}
_OTHERS = {"chat_id", "requests", "round_id", "input_toks"}
_SHORTEST_TICK_MS = 1000


def recognises(head: bytes, name: str) -> bool:
    found = json_table.keys(head)
    if found & _OTHERS or not found & set(ALIASES["output_length"]):
        return False
    return bool(found & {*ALIASES["input_length"], "text_input", "messages"})


def read(
    path: Path, *, skip_bad_rows: bool = False, seed: int = 0, ticks: str = "spread", prefix_blocks: bool = True
) -> Trace:
    """Read Mooncake JSONL; times and delays are milliseconds.

    Times may be rounded to ticks of a second or more, with several requests a tick (the published traces: 3 s). They are
    then spread over their tick, in the order of the rows and by keyed chance (`tick_ms`, `spread_ticks`).

    A row of a session follows the row above it of the same session. Its think time is `delay`, or else the gap between the
    two times, the model's time included. Such a row may lack a time: it then arrives `delay` after the row it follows, but
    not later than the next row of its session that has a time. The other rows have to be in order of time.

    Args:
        seed: key of the spread.
        prefix_blocks: keep the prompts' block ids.
        ticks: ``spread``, or ``keep`` for the times as they are: a batch arrives at each tick.

    Source: Mooncake (FAST 2025); the other names of the fields are those of AIPerf and Dynamo.
    """
    if ticks not in {"spread", "keep"}:
        raise InputError(path.name, "ticks", ticks, "spread or keep")
    table = json_table.table(path, ALIASES, ("input_length", "output_length"), skip_bad_rows=skip_bad_rows)
    prompt, output = table.whole("input_length"), table.whole("output_length")
    session = session_numbers(table, "session_id")
    after = links.previous_in_session(session)
    times, think, notes = _times(table, after)
    prefix, note = blocks.of_table(table, "hash_ids", prompt) if prefix_blocks else (None, [])
    table.require_rows()
    trace = Trace(
        prompt_tokens=prompt,
        output_tokens=output,
        arrival_s=times,
        prefix_blocks=prefix,
        name=path.name,
        format="mooncake",
        notes=(*table.notes(), *notes, *note),
    )
    if table.has("session_id"):
        trace = replace(trace, session=session, after=after, think_s=think)
    return _in_seconds(links.keep_rows(trace, ~table.bad), ticks, seed)


def _times(table: Table, after: I8) -> tuple[F8 | None, F8, tuple[str, ...]]:
    """Each row's arrival in milliseconds (None if the file has no times), its think time in seconds, and notes.

    `after` is each row's predecessor, -1 = none. Rows whose time goes back, or cannot be had from that row, are rejected.
    """
    delay = table.number("delay", low=0.0, absent=-1.0) if table.has("delay") else np.full(table.rows, -1.0)
    if not table.has("timestamp"):
        return None, np.maximum(delay, 0.0) / 1e3, ("There are no arrival times in the file.",)
    times = table.number("timestamp", low=0.0, absent=-1.0)
    given = times >= 0
    table.ascending("timestamp", times, given)
    latest = np.maximum.accumulate(np.where(given & ~table.bad, times, 0.0))
    times = _filled(times, given & (times >= latest), after, np.maximum(delay, 0.0))
    table.reject("timestamp", times < 0, "a time in milliseconds", "Only a later row of a session may lack it.")
    notes: tuple[str, ...] = ()
    if bool((~given & ~table.bad).any()):
        notes = ("Rows without a time arrive, in timed runs, at their predecessor's time plus their delay.",)
    gaps = np.where(times[np.maximum(after, 0)] >= 0, links.gaps_after(after, times), 0.0)
    think = np.where(delay >= 0, delay / 1e3, gaps / 1e3)
    if bool(((after >= 0) & (delay < 0)).any()):
        notes += ("Think times without a delay are the gaps between a session's requests, the model's time included.",)
    return times, np.where(after >= 0, think, 0.0), notes


def _filled(times: F8, given: Bool, after: I8, delay: F8) -> F8:
    """A copy of `times` with one for each row whose time is not `given`, milliseconds; -1 if no row before it has one.

    It is `delay`, milliseconds, after the row it follows (`after`), but not later than the next given time of its session.
    """
    times, latest = np.where(given, times, -1.0), np.full(times.size, np.inf)
    unknown = np.flatnonzero(~given & (after >= 0))
    for row in np.flatnonzero(after >= 0)[::-1] if unknown.size else ():  # a predecessor stands above
        latest[after[row]] = times[row] if given[row] else latest[row]
    for row in unknown:
        if times[after[row]] >= 0:
            times[row] = min(times[after[row]] + delay[row], latest[row])
    return times


def _in_seconds(trace: Trace, ticks: str, seed: int) -> Trace:
    """The trace in order of time, with seconds from the first row; times in ticks are spread unless `ticks` is ``keep``."""
    if trace.arrival_s is None:
        return trace
    if bool((np.diff(trace.arrival_s) < 0).any()):
        trace = trace.take(np.argsort(trace.arrival_s, kind="stable").astype(np.int64))
    assert trace.arrival_s is not None
    milliseconds = trace.arrival_s - trace.arrival_s[0]
    tick = tick_ms(milliseconds)
    if not tick:
        return replace(trace, arrival_s=milliseconds / 1e3)
    said = f"Times are rounded to ticks of {tick / 1e3:g} s"
    if ticks == "keep":
        note = f"{said} and kept: whole batches arrive at once, and the CV shows the rounding."
        return replace(trace, arrival_s=milliseconds / 1e3).with_notes(note)
    note = f"{said}; requests were spread over theirs in order, by chance with seed {seed} (ticks=keep leaves them)."
    spread = spread_ticks(milliseconds, tick, seed)
    return replace(trace, arrival_s=(spread - spread[0]) / 1e3).with_notes(note)


def tick_ms(milliseconds: F8) -> float:
    """Length in milliseconds of the ticks that times are rounded to; 0 if they have no ticks.

    Times have ticks if there are at least three distinct times, with two rows or more for each on average. The median
    distance between distinct times must also be at least a second, and the middle half of the distances within 5 % of it.
    """
    distinct = np.unique(milliseconds)
    if distinct.size < 3 or milliseconds.size < 2 * distinct.size:
        return 0.0
    low, middle, high = np.quantile(np.diff(distinct), [0.25, 0.5, 0.75])
    steady = low >= 0.95 * middle and high <= 1.05 * middle
    return float(middle) if steady and middle >= _SHORTEST_TICK_MS else 0.0


def spread_ticks(milliseconds: F8, tick: float, seed: int) -> F8:
    """Move each time later by chance within its tick, keyed by seed and row; rows stay in order. Returns float64[N], ms.

    Args:
        milliseconds: float64[N], ascending.
        tick: the longest move, milliseconds; a move also ends before the next distinct time.
    """
    u = streams.uniform(seed, "mooncake-tick", np.arange(milliseconds.size, dtype=np.int64))
    ends = np.append(np.flatnonzero(np.diff(milliseconds)) + 1, milliseconds.size)
    room = np.full(ends.size, tick)
    room[:-1] = np.minimum(tick, milliseconds[ends[:-1]] - milliseconds[ends[:-1] - 1])
    order = np.lexsort((u, milliseconds))
    sizes = np.diff(np.concatenate([[0], ends]))
    return milliseconds + u[order] * np.repeat(room, sizes)
