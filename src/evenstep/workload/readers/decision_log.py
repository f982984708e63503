"""Reads decision logs of a live dispatcher as traces: the served requests, with their true lengths."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from evenstep.errors import InputError
from evenstep.request import F8, I8, Trace
from evenstep.workload import files
from evenstep.workload.log_parts import FRAME, KIND, has_part, is_json, part_of, place_in_log
from evenstep.workload.readers import json_table, links
from evenstep.workload.table import MISSING, Table


def recognises(head: bytes, name: str) -> bool:
    return KIND.encode() in head[:200]


def read(path: Path, *, skip_bad_rows: bool = False) -> Trace:
    """Read a decision log, JSON lines or msgpack: this part and the later ones in its folder.

    A request is dropped, and counted, unless it arrived and ended correctly within these parts. Prompt lengths
    are the engines' counts where available. An incomplete record at the end is dropped, and its length noted.
    A request for several answers becomes one row for each, since each takes a slot; they share its prompt, as in KV memory.
    Requests of a task form a session. Each thinks from the end of the last one of its session that ended before it.

    Args:
        path: the first part to read.
        skip_bad_rows: leave out what cannot be read, and count it in the notes.

    Raises:
        InputError: a record that cannot be read, unless it is skipped; or a file without served requests.
    """
    arrived: list[tuple[int, dict[str, Any]]] = []
    done: dict[Any, dict[str, Any]] = {}
    parts, cut, skipped = list(_parts(path)), 0, 0
    for part in parts:
        as_lines = is_json(files.head(part))
        records = json_table.objects(part) if as_lines else _framed(files.content(part))
        if part == parts[-1] and (cut := _cut_off(part, as_lines)):
            records = _but_the_last(records)
        skipped += _collect(part, records, skip_bad_rows, arrived, done)
    served = [(row, number, done[row["request"]]) for number, row in arrived if row.get("request") in done]
    fields: dict[str, Any] = {
        "now_s": [row.get("now_s", MISSING) for row, _, _ in served],
        "prompt_tokens": [end.get("prompt_tokens", MISSING) for _, _, end in served],
        "output_tokens": [end.get("output_tokens", MISSING) for _, _, end in served],
        **{
            name: [row.get(name, MISSING) for row, _, _ in served]
            for name in ("request_class", "key", "max_tokens", "task", "copies")
        },
    }
    table = Table(path.name, fields, np.array([n for _, n, _ in served], np.int64), len(served), skip=skip_bad_rows)
    prompt, output = table.whole("prompt_tokens"), table.whole("output_tokens")
    times = table.number("now_s")
    classes, keys, caps = (table.whole(name, 0, absent=0) for name in ("request_class", "key", "max_tokens"))
    tasks, copies = table.whole("task", 0, absent=0), table.whole("copies", absent=1)
    table.require_rows()
    rows, _ = links.by_time(table, times, "")
    copies = np.minimum(copies, output)[rows]
    each = np.repeat(rows, copies)
    workflow = _workflow(tasks[each], times[each], np.array([end["ended_s"] for _, _, end in served])[each])
    trace = links.trace(
        table,
        "decision-log",
        each,
        _notes(len(arrived) - len(served), skipped, cut, int((copies > 1).sum())),
        prompt_tokens=prompt,
        output_tokens=output,
        arrival_s=times,
        request_class=classes if classes.any() else None,
        prompt_key=keys if keys.any() else None,
        max_tokens=caps if caps.any() else None,
    )
    answers = {"prompt_tokens": shares(prompt[rows], copies), "output_tokens": shares(output[rows], copies)}
    return replace(trace, **answers, **workflow)


def shares(tokens: I8, copies: I8) -> I8:
    """Tokens of each answer: those of each request in equal parts, the remainder to the first ones; 1 at least.

    Args:
        tokens: int64[N], of each request.
        copies: int64[N], the number of its answers, 1 or more.

    Returns:
        int64[sum of copies], request by request.
    """
    place = np.arange(int(copies.sum())) - np.repeat(np.cumsum(copies) - copies, copies)
    least, more = np.divmod(tokens, copies)
    return np.maximum(1, np.repeat(least, copies) + (place < np.repeat(more, copies)))


def _notes(unserved: int, skipped: int, cut: int, several: int) -> list[str]:
    said = {
        "requests that were not served to their end were dropped.": unserved,
        "lines that are no records of a decision log were skipped.": skipped,
        "bytes at the end, no whole record, were left out: the log's writer was killed.": cut,
        "requests for several answers are one row for each answer, with equal parts of prompt and output.": several,
    }
    return [f"{count:,} {sentence}" for sentence, count in said.items() if count]


def _workflow(tasks: I8, arrival_s: F8, ended_s: F8) -> dict[str, Any]:
    """The columns of requests that named tasks, by time of arrival; empty where none did."""
    if not tasks.any():
        return {}
    after, think_s = np.full(tasks.size, -1, np.int64), np.zeros(tasks.size)
    for task in np.unique(tasks[tasks != 0]):
        own = np.flatnonzero(tasks == task)
        for place, row in enumerate(own[1:], start=1):
            over = own[:place][ended_s[own[:place]] <= arrival_s[row]]
            if over.size:
                after[row] = over[np.argmax(ended_s[over])]
                think_s[row] = arrival_s[row] - ended_s[after[row]]
    session = np.where(tasks != 0, np.unique(tasks, return_inverse=True)[1], -1)
    return {"session": session, "after": after, "think_s": think_s}


def _parts(path: Path) -> Iterator[Path]:
    """This part of a log, then the later ones: ``log.evlog``, ``log.1.evlog`` and so on, up to where another log begins."""
    first, part = place_in_log(path)
    yield path
    while has_part(first, part := part + 1):
        yield part_of(first, part)


def _collect(
    path: Path,
    records: Iterator[tuple[int, dict[str, Any] | str]],
    skip: bool,
    arrived: list[tuple[int, dict[str, Any]]],
    done: dict[Any, dict[str, Any]],
) -> int:
    """Add arrivals with the number of their record, and the record of each request's end with its time, by request.

    Returns:
        The number of lines that are no records, which `skip` leaves out.
    """
    now_s, skipped = -math.inf, 0
    for number, record in records:
        if isinstance(record, str):
            if not skip:
                raise InputError(f"{path.name}:{number}", "record", record, "a record of a decision log")
            skipped += 1
            continue
        if isinstance(found := record.get("now_s"), (int, float)):
            now_s = max(now_s, found)
        request = record.get("request")
        if not isinstance(request, int):
            continue
        if record.get("event") == "arrived":
            arrived.append((number, record))
        elif record.get("event") == "done":
            done[request] = {**record, "ended_s": now_s}
    return skipped


def _cut_off(path: Path, as_lines: bool) -> int:
    """Bytes at the end of a part that are no whole record."""
    data, place = files.content(path), 0
    if as_lines:
        return len(data) - data.rfind(b"\n") - 1
    while place + FRAME <= len(data):
        end = place + FRAME + int.from_bytes(data[place : place + FRAME], "little")
        if end > len(data):
            break
        place = end
    return len(data) - place


def _but_the_last(records: Iterator[tuple[int, dict[str, Any] | str]]) -> Iterator[tuple[int, dict[str, Any] | str]]:
    before = None
    for record in records:
        if before is not None:
            yield before
        before = record


def _framed(data: bytes) -> Iterator[tuple[int, dict[str, Any] | str]]:
    """Each record of a msgpack log with its number, or the error in it."""
    import msgspec

    place, number = 0, 0
    while place < len(data):
        number += 1
        end = place + FRAME + int.from_bytes(data[place : place + FRAME], "little")
        if place + FRAME > len(data) or end > len(data):
            yield number, "cut off"
            return
        try:
            record = msgspec.msgpack.decode(data[place + FRAME : end])
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            record = str(error)
        yield number, record if isinstance(record, dict) else str(record)[:60]
        place = end
