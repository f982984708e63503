"""Reads lists of prompt and output lengths without times: Vidur's and etalon's length files, or two bare columns."""

from __future__ import annotations

import re
from pathlib import Path

from evenstep.errors import InputError
from evenstep.request import COLUMNS, Trace
from evenstep.workload import files
from evenstep.workload.readers import csv_table, links
from evenstep.workload.table import Table

PROMPT = (
    "num_prefill_tokens",
    "prompt_tokens",
    "input_tokens",
    "prompt_length",
    "input_length",
    "prompt_len",
    "input_len",
    "prompt",
    "input",
    "isl",
)
OUTPUT = (
    "num_decode_tokens",
    "output_tokens",
    "completion_tokens",
    "output_length",
    "output_len",
    "completion_length",
    "output",
    "osl",
)
_TIMES = {"arrived_at", "arrival_s", "arrival_time", "timestamp", "time", "t"}
_BARE = re.compile(rb"(?:\xef\xbb\xbf)?\s*-?\d+(\.\d+)?\s*,\s*-?\d+(\.\d+)?\s*(\r?\n|$)")


def recognises(head: bytes, name: str) -> bool:
    if _BARE.match(head):
        return True
    first = csv_table.header(head)
    more = _TIMES | set(COLUMNS) - {"prompt_tokens", "output_tokens"}
    has_both = first_of(first, PROMPT) != "" and first_of(first, OUTPUT) != ""
    return has_both and not more & {f.lower() for f in first}


def read(path: Path, *, skip_bad_rows: bool = False, limit: int | None = None) -> Trace:
    """Read a CSV file of lengths in tokens: with a header that names both columns, or two bare columns, prompt first.

    The header has a name of `PROMPT` and one of `OUTPUT`, in any case. The trace has no times: timed arrivals need a rate.

    Raises:
        InputError: a bad row unless skipped (file, line, field, value), no such columns, or a file without rows.
    """
    head = files.head(path)
    names = ["prompt_tokens", "output_tokens"] if _BARE.match(head) else None
    first = names or csv_table.header(head)
    prompt, output = first_of(first, PROMPT), first_of(first, OUTPUT)
    if not prompt or not output:
        hint = f"Prompt columns: {', '.join(PROMPT)}; output columns: {', '.join(OUTPUT)}."
        raise InputError(path.name, "header", ",".join(first), "a prompt and an output column", hint)

    def trace(table: Table) -> Trace:
        prompt_tokens, output_tokens = table.whole(prompt), table.whole(output)
        table.require_rows()
        said = ("Lengths only: there are no arrival times in the file.",)
        return links.trace(table, "lengths", table.good, said, prompt_tokens=prompt_tokens, output_tokens=output_tokens)

    fields = {prompt: int, output: int}
    return csv_table.parse(path, fields, trace, skip_bad_rows=skip_bad_rows, names=names, limit=limit)


def first_of(names: list[str], known: tuple[str, ...]) -> str:
    """The first of the `known` lower-case names that is in `names` in any case, as spelled there; "" if no name is known."""
    written = {name.lower(): name for name in names}
    return next((written[k] for k in known if k in written), "")
