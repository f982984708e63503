"""Qwen-Bailian JSONL: `chat_id, parent_chat_id, timestamp` (s), lengths, `type, turn, hash_ids` of 16 tokens."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from evenstep.request import I8, Trace
from evenstep.wording import counted
from evenstep.workload.readers import blocks, json_table, links
from evenstep.workload.table import Table, codes

_FIELDS = ("chat_id", "parent_chat_id", "timestamp", "input_length", "output_length", "type", "turn", "hash_ids")


def recognises(head: bytes, name: str) -> bool:
    return {"chat_id", "parent_chat_id", "input_length"} <= json_table.keys(head)


def read(path: Path, *, skip_bad_rows: bool = False, prefix_blocks: bool = True) -> Trace:
    """Read Bailian JSONL; times are seconds, and rows have to be in order of time.

    A chat with a parent follows the parent, in the same session. Its think time is the gap between their times, which
    includes the time the model took. A chat whose parent is in no row above starts a session. A type is the request class.

    Args:
        prefix_blocks: keep the prompts' block ids, of 16 tokens each.

    Source: alibaba-edu/qwen-bailian-usagetraces-anon.
    """
    table = json_table.table(path, {field: (field,) for field in _FIELDS}, _FIELDS[:5], skip_bad_rows=skip_bad_rows)
    chat = table.whole("chat_id", low=0)
    parent = table.whole("parent_chat_id", low=-1, absent=-1)
    readable = table.good  # a row that is bad below still links its children to its parent
    times = table.number("timestamp", low=0.0)
    prompt, output = table.whole("input_length"), table.whole("output_length")
    table.ascending("timestamp", times)
    prefix, note = blocks.of_table(table, "hash_ids", prompt, (16,)) if prefix_blocks else (None, [])
    table.require_rows()
    after, session, orphans = _linked(chat, parent, readable, table)
    notes = [*table.notes(), *note]
    if orphans:
        name = counted(orphans, "row names", "rows name")
        notes.append(f"{name} a parent that is not in the file; such a row starts a session of its own.")
    if bool((after >= 0).any()):
        notes.append("Think times are the gaps between a session's requests, the model's time included.")
    kinds, names = codes(table.texts("type")) if table.has("type") else (None, ())
    if names:
        notes.append(links.classes(names))
    trace = Trace(
        prompt_tokens=prompt,
        output_tokens=output,
        arrival_s=times - times[table.good[0]],
        request_class=kinds,
        session=session,
        after=after,
        think_s=links.gaps_after(after, times),
        prefix_blocks=prefix,
        name=path.name,
        format="bailian",
        notes=tuple(notes),
    )
    return links.keep_rows(trace, ~table.bad)


def _linked(chat: I8, parent: I8, readable: I8, table: Table) -> tuple[I8, I8, int]:
    """Each row's good predecessor (-1 = none) and session; and how many good rows name a parent that is not found above.

    `readable` are the rows, ascending, whose `chat` and `parent` could be read.
    """
    place: dict[int, int] = {}
    after = np.full(chat.size, -1, np.int64)
    session = np.arange(chat.size, dtype=np.int64)
    orphans = 0
    for row in readable.tolist():
        above = place.get(int(parent[row]), -1) if parent[row] >= 0 else -1
        if above >= 0:
            after[row] = above
            session[row] = session[above]
        elif parent[row] >= 0 and not table.bad[row]:
            orphans += 1
        place[int(chat[row])] = row
    after, _ = links.relinked(after, np.zeros(chat.size), ~table.bad)
    return after, np.unique(session, return_inverse=True)[1].reshape(-1).astype(np.int64), orphans
