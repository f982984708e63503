"""Agentic coding sessions, one JSON object a line, sub-agents nested (the format AIPerf calls Weka)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from evenstep.request import I8, PrefixBlocks, Trace, offsets_of
from evenstep.workload.readers import agent_lines, blocks, json_table
from evenstep.workload.readers.agent_lines import Helper
from evenstep.workload.table import MISSING, Table, as_number

_BLOCK_TOKENS = 64


def recognises(head: bytes, name: str) -> bool:
    found = json_table.keys(head)
    return "requests" in found and bool(found & {"hash_id_scope", "block_size", "models"})


def read(path: Path, *, skip_bad_rows: bool = False, limit: int | None = None, prefix_blocks: bool = True) -> Trace:
    """Read agentic sessions as a closed loop: no arrival times; block ids have a meaning only inside their session.

    `agent_lines` says how requests follow each other. Times are seconds, a sub-agent's duration milliseconds. Requests with
    an empty output are dropped and counted, and those that followed them are linked anew.

    Args:
        limit: stop after the session that brings the count to this many requests; bad and empty ones count.
        prefix_blocks: keep the prompts' block ids (about 15 kB a request).

    Source: callanjfox/kv-cache-tester.
    """
    found = _Sessions()
    for number, (line, session) in enumerate(json_table.objects(path)):
        found.add(number, line, session, prefix_blocks)
        if limit is not None and len(found.raw) >= limit:
            break
    table = found.table(path, skip_bad_rows)
    if prefix_blocks:
        found.check_blocks(table)
    sessions, helper = (np.array(column, np.int64) for column in (found.sessions, found.helper))
    rows = np.arange(table.rows, dtype=np.int64)
    trace, kept = agent_lines.trace(table, "agentic", sessions, helper, found.helpers, rows)
    return replace(trace, prefix_blocks=found.blocks(kept)) if prefix_blocks else trace


@dataclass(slots=True)
class _Sessions:
    """Collects the requests of sessions in the order of the file; a list has one entry a request, `helpers` a sub-agent.

    `helper` is the index of a request's sub-agent in `helpers`, -1 = main line. `wrong` is the text that an error shows for
    a bad request, else empty. `ids` stays empty unless blocks are kept.
    """

    sessions: list[int] = field(default_factory=list)
    helper: list[int] = field(default_factory=list)
    helpers: list[Helper] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    raw: list[dict[str, Any]] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    ids: list[I8 | None] = field(default_factory=list)
    block_tokens: set[int] = field(default_factory=set)

    def add(self, number: int, line: int, session: dict[str, Any] | str, keep_blocks: bool) -> None:
        """Add the requests of session `number`, read from a line; text, or no list of them, is one bad request."""
        requests = session.get("requests") if isinstance(session, dict) else None
        if not isinstance(session, dict) or not isinstance(requests, list):
            wrong = session if isinstance(session, str) else "no list `requests`"
            self._request(line, {}, number, -1, keep_blocks, wrong)
            return
        size = session.get("block_size", _BLOCK_TOKENS)
        self.block_tokens.add(size if isinstance(size, int) and size > 0 else _BLOCK_TOKENS)
        for request in requests:
            inner = request.get("requests") if isinstance(request, dict) else None
            if not isinstance(inner, list):
                self._request(line, request, number, -1, keep_blocks)
                continue
            marker_s, duration = as_number(request.get("t")) or 0.0, request.get("duration_ms")
            duration_s = None if duration is None else (as_number(duration) or 0.0) / 1e3
            self.helpers.append(Helper(marker_s, duration_s, request.get("status") != "async_launched"))
            for nested in inner:
                self._request(line, nested, number, len(self.helpers) - 1, keep_blocks)

    def _request(self, line: int, request: Any, session: int, helper: int, keep_blocks: bool, wrong: str = "") -> None:
        """Add one request of the sub-agent `helper` (-1 = main line); anything but a JSON object is bad.

        `wrong` is the text that an error shows for its whole line; empty = the line is right.
        """
        row = request if isinstance(request, dict) else {}
        self.wrong.append(wrong or ("" if isinstance(request, dict) else repr(request)[:60]))
        listed = row.pop("hash_ids", None) or []
        if keep_blocks:
            self.ids.append(blocks.flat([listed]) if isinstance(listed, list) else None)
        self.lines.append(line)
        self.sessions.append(session)
        self.helper.append(helper)
        self.raw.append(row)

    def table(self, path: Path, skip: bool) -> Table:
        """The collected requests as a table; lines and requests that are no JSON object are rejected."""
        names = ("in", "out", "t", "api_time", "think_time")
        columns: dict[str, Any] = {name: [row.get(name, MISSING) for row in self.raw] for name in names}
        table = Table(path.name, columns, np.array(self.lines, np.int64), len(self.lines), skip=skip)
        wrong = np.fromiter((bool(w) for w in self.wrong), np.bool_, len(self.wrong))
        table.reject("session", wrong, "one JSON object with a list `requests` of objects", shown=self.wrong)
        table.require_rows()
        return table

    def check_blocks(self, table: Table) -> None:
        """Reject the requests whose block ids are no list of whole numbers."""
        wrong = np.fromiter((ids is None for ids in self.ids), np.bool_, len(self.ids))
        table.reject("hash_ids", wrong, "a list of whole numbers", shown=["no such list"] * len(self.ids))

    def blocks(self, rows: I8) -> PrefixBlocks:
        """The prefix blocks of the requests `rows`, in this order. It frees the collected ids on the way: call it once."""
        offsets = offsets_of([0 if (own := self.ids[row]) is None else own.size for row in rows])
        together = np.empty(offsets[-1], np.int64)
        for place, row in enumerate(rows):
            own, self.ids[row] = self.ids[row], None
            together[offsets[place] : offsets[place + 1]] = own
        return PrefixBlocks(together, offsets, min(self.block_tokens, default=_BLOCK_TOKENS), "session")
