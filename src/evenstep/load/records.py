"""The results of the requests of a run, as columns in memory and as a Parquet file."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from evenstep.load.answer import Answer, Counting
from evenstep.measure.parquet import write_columns
from evenstep.request import F8, I8, Trace


@dataclass(slots=True, eq=False)
class Records:
    """Results of a run, one row per request of the trace, in its order. Times are seconds from the run's start.

    A time is nan while unknown; without a token, `first_s` and `last_s` stay nan. All columns after `started_s` are written
    when the answer ends.
    """

    asked_prompt_tokens: I8  # prompt tokens in the trace
    asked_output_tokens: I8  # output tokens in the trace
    due_s: F8  # planned start; written when the request is sent
    started_s: F8  # actual start
    first_s: F8  # arrival of the first token
    last_s: F8  # arrival of the last token
    ended_s: F8  # end of the answer, good or failed
    prompt_tokens: I8  # prompt tokens that the engine reported; -1 if not reported, or before the end
    output_tokens: I8  # counted output tokens; -1 before the end
    status: I8  # HTTP status; 0 if there was no answer, -1 before the end
    crc: I8  # CRC-32 of the output's text, or of its token ids if reported; -1 before the end
    error: list[str]  # kind of error, see `load.answer`; "" = good, ``not-ended`` before the end
    message: list[str]  # the error in words; "" without an error
    counting: list[Counting]  # how its tokens were counted; valid for good answers only

    @classmethod
    def of(cls, trace: Trace) -> Records:
        """New records of a trace before a run: times are nan, integer results -1, and every error is ``not-ended``."""
        rows = len(trace)
        due_s, started_s, first_s, last_s, ended_s = (np.full(rows, np.nan) for _ in range(5))
        prompt_tokens, output_tokens, status, crc = (np.full(rows, -1, np.int64) for _ in range(4))
        return cls(
            *(trace.prompt_tokens, trace.output_tokens, due_s, started_s, first_s, last_s, ended_s),
            *(prompt_tokens, output_tokens, status, crc),
            *(["not-ended"] * rows, [""] * rows),
            counting=["estimated"] * rows,
        )

    @property
    def rows(self) -> int:
        """Number of requests."""
        return int(self.started_s.size)

    def ended(self, row: int, answer: Answer, status: int, now_s: float, start_s: float) -> None:
        """Write the results of an ended answer, good or failed, to its row; the caller writes `due_s` and `started_s`.

        Args:
            status: HTTP status; 0 = there was no answer.
            now_s: end of the answer, by the same clock as its other times.
            start_s: start of the run, by that clock.
        """
        self.first_s[row], self.last_s[row] = answer.first_s - start_s, answer.last_s - start_s
        self.ended_s[row] = now_s - start_s
        self.prompt_tokens[row], self.output_tokens[row] = answer.prompt_tokens, answer.tokens
        self.status[row], self.crc[row] = status, answer.crc
        self.error[row], self.message[row], self.counting[row] = answer.error, answer.message, answer.counting

    def write(self, path: Path, metadata: dict[str, Any]) -> None:
        """Write a Parquet file, or replace it: ``request_id`` (the row's number from 0), then a column for each field.

        `metadata`, JSON values, is stored under the key ``evenstep``. A file that cannot be written raises `InputError`.
        """
        columns = {column.name: getattr(self, column.name) for column in fields(self)}
        write_columns({"request_id": np.arange(self.rows), **columns}, path, "load", metadata)
