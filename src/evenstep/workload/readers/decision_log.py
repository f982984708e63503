"""Reads decision logs of a live dispatcher as traces: the served requests, with their true lengths."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from heapq import heappop, heappush
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from evenstep.errors import InputError
from evenstep.request import F8, I8, Trace
from evenstep.wording import counted
from evenstep.workload import files
from evenstep.workload.log_parts import FRAME, KIND, follows_gap, has_part, is_json, part_of, place_in_log
from evenstep.workload.readers import json_table, links
from evenstep.workload.table import MISSING, Table

#: A record's number in its file, from 1, and its fields, or text that shows a record that cannot be read.
Record: TypeAlias = "tuple[int, dict[str, Any] | str]"

#: Fields that are read of a request's arrival and of its end.
_AT_START = ("now_s", "request_class", "key", "max_tokens", "task", "copies")
_AT_END = ("prompt_tokens", "output_tokens")


def recognises(head: bytes, name: str) -> bool:
    return KIND.encode() in head[:200]


def read(path: Path, *, skip_bad_rows: bool = False) -> Trace:
    """Read a decision log, JSON lines or msgpack: the part `path` and the later ones in its folder.

    A request that arrived in these parts is dropped and counted if it did not end correctly there or its answer is empty.
    Prompt lengths are the engines' counts where available. An incomplete record at the end is dropped, and its length noted.
    One at the end of a part before a gap is dropped too; a note has the number of gaps.
    A request for several answers becomes a row for each (at most one an output token), as each takes a slot; `shares`
    divides its tokens.

    Requests of a task form a session. Each follows the one that ended last by its arrival, if any; think time is the gap.

    Raises:
        InputError: a record or value that cannot be read, unless it is skipped; or a file without served requests.
    """
    arrived: list[tuple[int, dict[str, Any]]] = []
    done: dict[Any, dict[str, Any]] = {}
    parts, cut, skipped = list(_parts(path)), 0, 0
    gaps = [follows_gap(part) for part in parts[1:]]
    for part, may_be_cut in zip(parts, (*gaps, True), strict=True):
        records, cut = _records(part, may_be_cut)
        skipped += _collect(part, records, skip_bad_rows, arrived, done)
    ended = [(row, number, done[row["request"]]) for number, row in arrived if row.get("request") in done]
    served = [one for one in ended if one[2].get("output_tokens") != 0]
    fields: dict[str, Any] = {name: [row.get(name, MISSING) for row, _, _ in served] for name in _AT_START}
    fields |= {name: [end.get(name, MISSING) for _, _, end in served] for name in _AT_END}
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
        _notes(len(arrived) - len(ended), len(ended) - len(served), skipped, cut, int((copies > 1).sum()), sum(gaps)),
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
    """int64[sum of copies], tokens of each answer: a request's tokens in equal parts, the remainder on its first answers.

    `tokens` are those of each request and `copies` its answers, 1 or more, int64[N] each. An answer has at least 1 token.
    """
    place = np.arange(int(copies.sum())) - np.repeat(np.cumsum(copies) - copies, copies)
    least, more = np.divmod(tokens, copies)
    return np.maximum(1, np.repeat(least, copies) + (place < np.repeat(more, copies)))


def _notes(unserved: int, empty: int, skipped: int, cut: int, several: int, gaps: int) -> list[str]:
    """Sentences for the trace's notes, one for each count above 0."""
    said = {
        ("request", "left out: not served to the end."): unserved,
        ("request", "left out: an empty answer."): empty,
        ("line", "skipped: no record of a decision log."): skipped,
        ("byte", "at the end left out, no whole record: the log's writer was killed."): cut,
        ("gap", "in the log, where it could not be written: requests that were not logged are left out."): gaps,
        ("request", "for several answers: one row for each answer, with equal parts of prompt and output."): several,
    }
    return [f"{counted(count, noun)} {sentence}" for (noun, sentence), count in said.items() if count]


def _workflow(tasks: I8, arrival_s: F8, ended_s: F8) -> dict[str, Any]:
    """The columns `session`, `after` and `think_s` of rows in order of arrival; {} if no row has a task (0 = no task)."""
    if not tasks.any():
        return {}
    after, last, ends = np.full(tasks.size, -1, np.int64), dict[int, int](), ended_s.tolist()
    running: dict[int, list[tuple[float, int]]] = {}  # task -> a heap of the end and row of requests that may still run
    for row, (task, now_s) in enumerate(zip(tasks.tolist(), arrival_s.tolist(), strict=True)):
        if task:
            own = running.setdefault(task, [])
            while own and own[0][0] <= now_s:
                end_s, over = heappop(own)
                if task not in last or end_s > ends[last[task]]:
                    last[task] = over
            after[row] = last.get(task, -1)
            heappush(own, (ends[row], row))
    think_s = np.where(after >= 0, arrival_s - ended_s[np.maximum(after, 0)], 0.0)
    session = np.where(tasks != 0, np.unique(tasks, return_inverse=True)[1], -1)
    return {"session": session, "after": after, "think_s": think_s}


def _parts(path: Path) -> Iterator[Path]:
    """Yield the path of this part of a log, then of the later ones (``log.1.evlog``, ...) up to a gap or another log."""
    first, part = place_in_log(path)
    yield path
    while has_part(first, part := part + 1):
        yield part_of(first, part)


def _collect(
    path: Path,
    records: Iterator[Record],
    skip: bool,
    arrived: list[tuple[int, dict[str, Any]]],
    done: dict[Any, dict[str, Any]],
) -> int:
    """Add the fields that are read of a part's arrivals, with record numbers, to `arrived`, and of each end to `done`.

    An end also has its time, `ended_s`.

    Returns the number of skipped lines that are no records; without `skip` such a line is an `InputError`.
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
            arrived.append((number, {name: record[name] for name in ("request", *_AT_START) if name in record}))
        elif record.get("event") == "done":
            done[request] = {name: record[name] for name in _AT_END if name in record} | {"ended_s": now_s}
    return skipped


def _records(path: Path, may_be_cut: bool) -> tuple[Iterator[Record], int]:
    """The records of a part, and the number of bytes at its end that are no whole record.

    Such bytes are left out if it `may_be_cut`; then it may be empty, too. Else they are a record, which can be read only if
    it is whole JSON.
    """
    if may_be_cut and path.is_file() and not path.stat().st_size:
        return iter(()), 0
    data, ends = files.content(path), [0]
    if is_json(data):
        whole = data.count(b"\n") if may_be_cut else None
        return islice(json_table.objects(path), whole), len(data) - data.rfind(b"\n") - 1
    while (begin := ends[-1] + FRAME) <= len(data):
        end = begin + int.from_bytes(data[begin - FRAME : begin], "little")
        if end > len(data):
            break
        ends.append(end)
    cut = len(data) - ends[-1]
    return chain(_decoded(data, ends), [(len(ends), "cut off")] if cut and not may_be_cut else []), cut


def _decoded(data: bytes, ends: list[int]) -> Iterator[Record]:
    """Yield the records of a msgpack log; `ends` are the byte offsets where they end, after a first 0."""
    import msgspec

    for number, (begin, end) in enumerate(pairwise(ends), 1):
        try:
            record = msgspec.msgpack.decode(data[begin + FRAME : end])
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            record = str(error)
        yield number, record if isinstance(record, dict) else str(record)[:60]
