"""The decision log of a gateway. If it cannot be written, only the log ends, not the gateway.

A full or broken disk, or a deleted file, closes the log, is logged once, and costs no request. After a while a new part is
tried. It begins with the dispatcher's state, so that it can be replayed without the parts before.
"""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Callable, Collection
from pathlib import Path

from evenstep.dispatch.log.file import LogFile, part_of
from evenstep.dispatch.log.records import Record
from evenstep.gateway.config.sections import Decisions

_log = logging.getLogger("evenstep.gateway.decisions")


class DecisionLog:
    """Writes the records of one dispatcher, which calls it with each. A disk error is not raised: it closes the file.

    While it fails, records are dropped. Between two events the dispatcher calls `begin_part` if `is_full`.

    Args:
        file: writes the records.
        retry_s: seconds before a failed log is tried again.
        clock: returns seconds.

    Attributes:
        why: the text of the disk's error; empty while the log is written.
        failures: number of times it began to fail.
    """

    def __init__(self, file: LogFile, retry_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.why, self.failures = "", 0
        self._file, self._retry_s, self._clock = file, retry_s, clock
        self._again_s = 0.0

    def __call__(self, record: Record) -> None:
        if self.why:
            return
        try:
            self._file(record)
        except OSError as error:
            self._failed(error)
        self._tell_replaced()

    @property
    def is_full(self) -> bool:
        """Whether the next event should begin a new part; after a failure, whether it is time to try again."""
        if self.why:
            return self._clock() >= self._again_s
        return self._file.is_full

    def begin_part(self, state: bytes) -> None:
        """Begin the next part with the state of the dispatcher, after a full part or a failure. Success clears `why`."""
        try:
            self._file.begin_part(state, after_gap=bool(self.why))
        except OSError as error:
            self._failed(error)
            return
        if self.why:
            self.why = ""
            _log.info("the decision log is written again", extra={"path": self.path})
        self._tell_replaced()

    def close(self) -> None:
        """Write the remaining records; the dispatcher has ended."""
        try:
            self._file.close()
        except OSError as error:
            self._failed(error)

    @property
    def begins_at(self) -> Path:
        """The file of its first part."""
        return self._file.path

    @property
    def path(self) -> str:
        """The file of the current part; after a failure, of the part that failed."""
        return str(part_of(self._file.path, self._file.part))

    def _tell_replaced(self) -> None:
        """If parts of an older log at this path were deleted, say so in the gateway's log, once."""
        parts, self._file.replaced = self._file.replaced, 0
        if parts:
            told = {"path": str(self._file.path), "parts": parts}
            _log.info("later parts of an older decision log at this path were deleted", extra=told)

    def _failed(self, error: OSError) -> None:
        """Close the file, note the error, and set the time of the next try; log the first failure."""
        path, said = self.path, error.strerror or str(error)
        self._file.give_up()
        self._again_s = self._clock() + self._retry_s
        if not self.why:
            self.failures += 1
            told = {"path": path, "why": said, "again_in_s": self._retry_s}
            _log.error("the decision log failed and is closed; requests are served as before", extra=told)
        self.why = said


def log_of(settings: Decisions, model: str, others: Collection[DecisionLog]) -> DecisionLog | None:
    """The decision log of one model, which is not created before its first record; None if no log is configured.

    `others` are the logs of other models. Without others, the log has the configured file. Else ``-`` and the model's name
    are added to the file's name, then ``-2`` or the next free number if another log has that name. In the model's
    name, all but letters, digits, ``-`` and ``_`` becomes ``_``.
    """
    if not settings.path:
        return None
    place = Path(settings.path)
    if others:
        taken = {log.begins_at for log in others}
        word = "".join(letter if letter.isalnum() or letter in "-_" else "_" for letter in model)
        words = (f"{word}-{number}" if number > 1 else word for number in itertools.count(1))
        places = (place.with_name(f"{place.stem}-{word}{place.suffix}") for word in words)
        place = next(one for one in places if one not in taken)
    return DecisionLog(LogFile(place, settings.part_bytes, settings.keep), settings.retry_s)
