"""LMCache agent traces: `timestamp` (microseconds), `input` and `output` as text, `session_id`."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np

from evenstep.request import I8, Trace
from evenstep.wording import counted
from evenstep.workload.readers import json_table, links
from evenstep.workload.table import Bool, Table, session_numbers

_FIELDS = ("timestamp", "input", "output", "session_id")
_CHARACTERS = 4  # of text in a token, everywhere in this format


def recognises(head: bytes, name: str) -> bool:
    found = json_table.keys(head)
    return {"timestamp", "input"} <= found and not found & {"input_length", "output_length", "requests"}


def read(path: Path, *, skip_bad_rows: bool = False) -> Trace:
    """Read LMCache JSONL. Lengths are characters / 4, rounded up, at least 1; the prompt's key is a hash of its text.

    Rows, which the format groups by session, are sorted by time; the first kept row is time 0. A request follows the one
    before it in its session. Its think time is the gap between their times, the model's time included. Blank lines are
    skipped. Rows with an empty output (tool calls) are dropped, and links skip them. Notes count rows sorted or dropped.

    Source: LMCache/lmcache-agent-trace.
    """
    fields = {field: (field,) for field in _FIELDS}
    table = json_table.table(path, fields, _FIELDS[:3], skip_bad_rows=skip_bad_rows, blank_lines=True)
    times = table.number("timestamp", low=0.0)
    prompt, keys, empty_prompt = _text(table, "input")
    output, _, empty = _text(table, "output")
    table.require_rows()
    order, moved = links.by_time(table, times, "stood below a later one; the rows were sorted by time.")
    notes = [
        "Tokens are characters / 4, rounded up.",
        "Think times are the gaps between a session's requests, the model's time included.",
        *moved,
    ]
    if bool(empty_prompt[order].any()):
        notes.append(
            f"{counted(int(empty_prompt[order].sum()), 'row has', 'rows have')} an empty prompt; it counts as 1 token."
        )
    trace = links.trace(
        table,
        "lmcache",
        order,
        notes,
        prompt_tokens=prompt,
        output_tokens=output,
        arrival_s=(times - times[order[0]]) / 1e6,
        prompt_key=keys,
        session=session_numbers(table, "session_id"),
    )
    after = links.previous_in_session(trace.column("session"))
    trace = replace(trace, after=after, think_s=links.gaps_after(after, trace.column("arrival_s")))
    return links.without(trace, empty[order], "an empty output (tool calls)", table)


def _text(table: Table, field: str) -> tuple[I8, I8, Bool]:
    """For each text in a column: its tokens (at least 1), its key, and True if it is empty. Other values are rejected."""
    column = table.column(field)
    wrong = np.fromiter((not isinstance(text, str) for text in column), np.bool_, table.rows)
    table.reject(field, wrong, "text")
    lengths = np.fromiter((len(t) if isinstance(t, str) else 0 for t in column), np.int64, table.rows)
    keys = np.fromiter((_key(t) if isinstance(t, str) else 0 for t in column), np.int64, table.rows)
    return np.maximum(-(-lengths // _CHARACTERS), 1), keys, (lengths == 0) & ~wrong


def _key(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big") >> 1
