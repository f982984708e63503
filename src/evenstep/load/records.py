"""The result of each request in a run, as columns, and as a Parquet file."""

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
    """One row per request of the trace, in its order; missing values are nan, or -1. Times are seconds from the run's start.

    Args:
        asked_prompt_tokens: int64[N], of the trace.
        asked_output_tokens: int64[N], of the trace.
        due_s: float64[N], its planned start; nan until it was sent.
        started_s: float64[N], its actual start.
        first_s: float64[N], its first token.
        last_s: float64[N], its last token.
        ended_s: float64[N], the end of its answer, good or failed; first_s and last_s, too, are written only then.
        prompt_tokens: int64[N], as the engine reported; -1 if not reported.
        output_tokens: int64[N], as counted; -1 if it has not ended.
        status: int64[N], of HTTP; 0 without an answer, -1 if it has not ended.
        crc: int64[N], CRC-32 of the output's text (of its ids, if reported): equal outputs have equal values.
        error: N kinds of error, see `load.answer`; "" = none, not-ended = it has not ended.
        message: N errors in words; "" without an error.
        counting: N ways in which tokens were counted; it holds for good answers only.
    """

    asked_prompt_tokens: I8
    asked_output_tokens: I8
    due_s: F8
    started_s: F8
    first_s: F8
    last_s: F8
    ended_s: F8
    prompt_tokens: I8
    output_tokens: I8
    status: I8
    crc: I8
    error: list[str]
    message: list[str]
    counting: list[Counting]

    @classmethod
    def of(cls, trace: Trace) -> Records:
        """Records of a trace before any start: all times nan, counts but the asked ones -1, every error ``not-ended``."""
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
        return int(self.started_s.size)

    def ended(self, row: int, answer: Answer, status: int, now_s: float, start_s: float) -> None:
        """Write the results of an answer that has ended, well or not, to its row. The caller writes `due_s` and `started_s`.

        Args:
            status: of HTTP, 0 where none came.
            now_s: the clock now; of the same clock as the answer's times.
            start_s: the clock at the start of the run.
        """
        self.first_s[row], self.last_s[row] = answer.first_s - start_s, answer.last_s - start_s
        self.ended_s[row] = now_s - start_s
        self.prompt_tokens[row], self.output_tokens[row] = answer.prompt_tokens, answer.tokens
        self.status[row], self.crc[row] = status, answer.crc
        self.error[row], self.message[row], self.counting[row] = answer.error, answer.message, answer.counting

    def write(self, path: Path, metadata: dict[str, Any]) -> None:
        """Write the records as Parquet: a column for each field, and first ``request_id``, the row's number from 0.

        Args:
            path: the file; replaced whole.
            metadata: JSON values, kept under the key ``evenstep``.

        Raises:
            InputError: the file cannot be written.
        """
        columns = {column.name: getattr(self, column.name) for column in fields(self)}
        write_columns({"request_id": np.arange(self.rows), **columns}, path, "load", metadata)
