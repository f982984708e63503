"""Structured logs: JSON lines or text on stderr, written by a thread of their own so that nothing waits for a terminal.

A record is a message and fields: ``log.info("worker joined", extra=fields(worker="a"))``. Nothing here ever sees text of a
prompt or an answer.
"""

from __future__ import annotations

import json
import logging
import logging.handlers
import math
import queue
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, TextIO

from evenstep.gateway.ended import Ended
from evenstep.gateway.sections import Log

#: Everything evenstep says is said below this name.
NAME = "evenstep"
_access = logging.getLogger("evenstep.gateway.access")
_OWN = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName", "fields"}
_WAITING = 10_000
_LAST_LINES_S = 3.0


def fields(**values: Any) -> dict[str, Any]:
    """The ``extra`` of a record: what a program can read without taking sentences apart."""
    return {"fields": values}


def access(one: Ended) -> None:
    """A line for a request that is over."""
    _access.info("request", extra=fields(**logged_of(one)))


def logged_of(one: Ended) -> dict[str, Any]:
    """The fields of that line."""
    return {
        "request_id": one.request_id, "outcome": one.outcome, "status": one.status, "path": one.path,
        "model": one.model, "tenant": one.tenant, "request_class": one.request_class, "worker": one.worker,
        "prompt_tokens": one.prompt_tokens, "output_tokens": one.output_tokens, "tries": one.tries,
        "continued": one.continued, "wait_s": one.sent_s - one.arrived_s, "ttft_s": one.ttft_s, "tpot_s": one.tpot_s,
        "seconds": one.ended_s - one.arrived_s,
    }  # fmt: skip


@contextmanager
def logging_to(settings: Log, stream: TextIO | None = None) -> Generator[Logs]:
    """Log as the settings say until the block ends; what is waiting then is still written.

    Args:
        stream: where lines go; stderr when left out.
    """
    logs = Logs(stream or sys.stderr)
    logs.reload(settings)
    logs.start()
    try:
        yield logs
    finally:
        logs.stop()


class Logs:
    """The way of every record from whoever says it to a stream; see `logging_to`."""

    def __init__(self, stream: TextIO) -> None:
        self._target = logging.StreamHandler(stream)
        self._entry = _Entry(queue.SimpleQueue())
        self._listener = _Writer(self._entry.queue, self._target)
        self._logger = logging.getLogger(NAME)

    @property
    def dropped(self) -> int:
        """Records thrown away because the stream was too slow."""
        return self._entry.dropped

    def reload(self, settings: Log) -> None:
        """Another format or level from now on."""
        self._target.setFormatter(JsonLine() if settings.format == "json" else TextLine())
        self._logger.setLevel(settings.level.upper())

    def start(self) -> None:
        """Begin."""
        self._logger.addHandler(self._entry)
        self._logger.propagate = False
        self._listener.start()

    def stop(self) -> None:
        """Write what waits, for a few seconds at most, and end."""
        self._listener.stop()
        self._logger.removeHandler(self._entry)
        self._logger.propagate = True
        self._logger.setLevel(logging.NOTSET)


class JsonLine(logging.Formatter):
    """One JSON object a line: time (UTC), level, logger, message, then the fields."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        found: dict[str, Any] = {
            "time": _time(record), "level": record.levelname.lower(), "logger": record.name,
            "message": record.getMessage(), **_shown(record),
        }  # fmt: skip
        if record.exc_info:
            found["traceback"] = self.formatException(record.exc_info)
        return json.dumps(found, default=str)


class TextLine(logging.Formatter):
    """Time, level, message, then ``field=value``; a record is always one line, but for a traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        more = "".join(f" {key}={_word(value)}" for key, value in _shown(record).items())
        message = " ".join(record.getMessage().split())
        line = f"{_time(record)} {record.levelname.lower():<7} {message}{more}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class _Entry(logging.handlers.QueueHandler):
    """Puts records into the queue as they are; when too many wait they are lost, and counted."""

    def __init__(self, waiting: queue.SimpleQueue[Any]) -> None:
        super().__init__(waiting)
        self._waiting = waiting
        self.dropped = 0

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        return record

    def enqueue(self, record: logging.LogRecord) -> None:
        if self._waiting.qsize() >= _WAITING:
            self.dropped += 1
        else:
            self._waiting.put_nowait(record)


class _Writer(logging.handlers.QueueListener):
    """Does not wait for ever for a stream that takes nothing."""

    _thread: threading.Thread | None

    def stop(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            self.enqueue_sentinel()
            thread.join(_LAST_LINES_S)


def _time(record: logging.LogRecord) -> str:
    return (
        datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    )


def _shown(record: logging.LogRecord) -> dict[str, Any]:
    """The fields, rounded to what a reader needs; nan, which JSON has not, is left out."""
    more = {key: value for key, value in vars(record).items() if key not in _OWN}
    found: dict[str, Any] = {**more, **getattr(record, "fields", {})}
    return {
        key: round(value, 6) if isinstance(value, float) else value
        for key, value in found.items()
        if not (isinstance(value, float) and math.isnan(value))
    }


def _word(value: Any) -> str:
    text = str(value)
    return text if text and text.isprintable() and " " not in text and '"' not in text else json.dumps(text)
