"""The decision log of a dispatcher, and its last events for debugging."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec

from evenstep.dispatch.commands import Command
from evenstep.dispatch.events import Event
from evenstep.dispatch.log.records import Chunks, Done, InParts, Record

_HISTORY = 64  # as many as stay in a processor's cache


class Journal:
    """Records events, chunks and ended requests, in order.

    `log` takes the records of a decision log, and may come in parts (`records.InParts`); None = no log.

    Attributes:
        in_parts: `log` if it comes in parts, else None.
        history: the last 64 events, oldest first, each with all commands that were returned together with its own.
    """

    def __init__(self, log: Callable[[Record], None] | None) -> None:
        self.log = log
        self.in_parts = log if isinstance(log, InParts) else None
        self.history: deque[tuple[Event, list[Command]]] = deque(maxlen=_HISTORY)
        self._rows, self._tokens, self._times = list[int](), list[int](), list[float]()  # of chunks since the last record
        self._logged_s = -math.inf

    def __getstate__(self) -> dict[str, Any]:
        """Only the time of the last record; log and history belong to the host."""
        return {"_logged_s": self._logged_s}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(None)
        vars(self).update(state)

    def follow(self, other: Journal) -> None:
        """Write to the log and history of the journal `other` from now on, instead of its own.

        Chunks that `other` has not written yet are not taken over.
        """
        self.log, self.in_parts, self.history = other.log, other.in_parts, other.history

    def note(self, event: Event, now_s: float) -> None:
        """Log an event, if there is a log; one with an earlier time than `now_s` gets that. Call `flush` before it."""
        if self.log is not None:
            if event.now_s < now_s:
                event = msgspec.structs.replace(event, now_s=now_s)
            self.log(event)
            self._logged_s = event.now_s

    def done(self, request: int, prompt_tokens: int, output_tokens: int) -> None:
        """Log that a request ended correctly, with its tokens as in `Done`."""
        if self.log is not None:
            self.log(Done(request, prompt_tokens, output_tokens))

    def chunks(self, rows: memoryview, tokens: memoryview, times: memoryview) -> None:
        """Keep chunks for the next record, if there is a log: their rows and tokens, int64[n], and times, float64[n]."""
        if self.log is not None:
            self._rows += rows.tolist()
            self._tokens += tokens.tolist()
            self._times += times.tolist()

    def flush(self) -> None:
        """Write the chunks since the last record as one record `Chunks`, if there are any."""
        if self._rows and self.log is not None:
            rows, tokens, times = self._rows, self._tokens, self._times
            self._rows, self._tokens, self._times = [], [], []
            before = (self._logged_s, *times)
            changes = [(place, now_s) for place, now_s in enumerate(times) if now_s != before[place]]
            self._logged_s = times[-1]
            self.log(Chunks(rows, [] if set(tokens) == {1} else tokens, changes))
