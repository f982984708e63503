"""Structured logs: JSON lines or text on stderr. A thread of their own writes them, so that no request waits for a terminal.

A record is a message and fields: ``log.info("worker joined", extra={"worker": "a"})``. No text of a prompt or an answer gets
here.
"""

from __future__ import annotations

import json
import logging
import math
import sys
import threading
import time
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, TextIO

import msgspec

from evenstep.gateway.config.sections import Log
from evenstep.gateway.serve.ended import Ended

#: Parent of all loggers of evenstep.
NAME = "evenstep"
_access = logging.getLogger("evenstep.gateway.access")
_encode = msgspec.json.Encoder(enc_hook=str).encode
_OWN = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}
_WAITING = 10_000
_LAST_LINES_S = 3.0
_GATHER_S = 0.05  # time for which the thread lets records gather
_TIMES = ("wait_s", "ttft_s", "tpot_s", "seconds")
_AT_ONCE = 32  # records that are formatted before the event loop gets its turn


def access(one: Ended) -> None:
    """Log a request that has ended, with the fields of `logged_of`, at level info. It serves as a `Sink`."""
    if _access.isEnabledFor(logging.INFO):
        _access.callHandlers(_Line(one))


def logged_of(one: Ended) -> dict[str, Any]:
    """The fields of the line that `access` logs, in order; unknown times are left out.

    The times are seconds from the arrival: ``wait_s`` to the last dispatch, ``ttft_s`` to the first token, ``seconds`` to
    the end. ``tpot_s`` is seconds per further token of a sequence. All are rounded to microseconds.
    """
    asked_s = one.arrived_s
    times = one.sent_s - asked_s, one.first_s - asked_s, one.tpot_s, one.ended_s - asked_s
    return {
        "request_id": one.request_id,
        "outcome": one.outcome,
        "status": one.status,
        "path": one.path,
        "model": one.model,
        "tenant": one.tenant,
        "request_class": one.request_class,
        "worker": one.worker,
        "prompt_tokens": one.prompt_tokens,
        "output_tokens": one.output_tokens,
        "tries": one.tries,
        "continued": one.continued,
        **{name: int(1e6 * t + 0.5) / 1e6 for name, t in zip(_TIMES, times, strict=True) if t >= 0.0},
    }


@contextmanager
def logging_to(settings: Log, stream: TextIO | None = None) -> Generator[Logs]:
    """Write logs as the settings say until the ``with`` block ends; gives the block the `Logs`.

    The lines go to `stream`, by default stderr. Until the end, handlers of the root logger get no records of evenstep.
    Records that are queued at the end are still written, for up to 3 seconds.
    """
    logger, logs = logging.getLogger(NAME), Logs(stream or sys.stderr)
    logs.reload(settings)
    logger.addHandler(logs)
    logger.propagate = False
    thread = threading.Thread(target=logs.run, name="evenstep-logs", daemon=True)
    thread.start()
    try:
        yield logs
    finally:
        logs.stop()
        thread.join(_LAST_LINES_S)
        logger.removeHandler(logs)
        logger.propagate = True
        logger.setLevel(logging.NOTSET)


class Logs(logging.Handler):
    """Writes the records of all evenstep loggers to a stream, from the thread in which `logging_to` calls `run`.

    At most 10 000 records wait. The thread wakes at most once in 50 ms, since to wake it costs more than to write a record.

    Attributes:
        dropped: number of records dropped so far because 10 000 waited or the stream took none.
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self.dropped = 0
        self._stream, self._waiting = stream, deque[logging.LogRecord]()
        self._news, self._ends = threading.Event(), threading.Event()

    def reload(self, settings: Log) -> None:
        """Use another format or level from now on."""
        self.setFormatter(JsonLine() if settings.format == "json" else TextLine())
        logging.getLogger(NAME).setLevel(settings.level.upper())

    def stop(self) -> None:
        """Let `run` return once the records that wait are written."""
        self._ends.set()
        self._news.set()

    def handle(self, record: logging.LogRecord) -> bool:
        """Queue a record for the thread, and return True; if too many wait, drop and count it, and return False."""
        if len(self._waiting) >= _WAITING:
            self.dropped += 1
            return False
        self._waiting.append(record)
        if not self._news.is_set():
            self._news.set()
        return True

    def run(self) -> None:
        """Write records until `stop`."""
        ends = False
        while not ends:
            self._news.wait()
            self._ends.wait(_GATHER_S)
            self._news.clear()
            ends = self._ends.is_set()  # before the last look at the queue
            while self._waiting:
                self._write(min(_AT_ONCE, len(self._waiting)))

    def _write(self, count: int) -> None:
        """Write the first `count` records that wait, and remove them from the queue."""
        lines: list[str] = []
        for record in [self._waiting[place] for place in range(count)]:
            try:
                lines.append(self.format(record) + "\n")
            except Exception:  # as every handler of the standard library does
                self.handleError(record)
        try:
            self._stream.write("".join(lines))
            self._stream.flush()
        except (OSError, ValueError):  # the stream is closed
            self.dropped += len(lines)
        for _ in range(count):
            self._waiting.popleft()


class JsonLine(logging.Formatter):
    """Formats a record as one JSON object: time (UTC), level, logger, message, the fields, and a traceback if any."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its line break. Floats are rounded to 6 decimals, and nan is left out."""
        found: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        found.update(_shown(record))
        if record.exc_info:
            found["traceback"] = self.formatException(record.exc_info)
        line = _encode(found)
        return line.decode() if line.isascii() else json.dumps(found, default=str)


class TextLine(logging.Formatter):
    """Formats a record as one line: time, level, message, then ``field=value``. A traceback adds lines."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its line break. A value that is empty or has blanks, ``"`` or unprintable characters is JSON."""
        if isinstance(record, _Line):
            return f"{_time(record)} info    request{_text_of(record.one)}"
        more = "".join(f" {key}={_word(str(value))}" for key, value in _shown(record).items())
        message = " ".join(record.getMessage().split())
        line = f"{_time(record)} {record.levelname.lower():<7} {message}{more}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class _Line(logging.LogRecord):
    """The log record of a request that ended, made without looking at the caller's stack, which is slow."""

    name, levelname, levelno, msg, args, exc_info = _access.name, "INFO", logging.INFO, "request", (), None

    def __init__(self, one: Ended) -> None:
        self.created, self.one = time.time(), one


def _time(record: logging.LogRecord) -> str:
    """The time of a record in UTC, with milliseconds: ``2026-01-31T12:00:00.000Z``."""
    second = int(record.created)
    return f"{_second(second)}.{int((record.created - second) * 1000):03d}Z"


@lru_cache(maxsize=2)
def _second(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _shown(record: logging.LogRecord) -> dict[str, Any]:
    """The fields of a record, floats rounded to 6 decimals; nan and names that begin with an underscore are left out."""
    if isinstance(record, _Line):
        return logged_of(record.one)
    found = {key: value for key, value in vars(record).items() if key not in _OWN and not key.startswith("_")}
    return {
        key: round(value, 6) if isinstance(value, float) else value
        for key, value in found.items()
        if not (isinstance(value, float) and math.isnan(value))
    }


def _text_of(one: Ended) -> str:
    """The fields of `logged_of` as text, each as `` name=value``, in its order."""
    asked_s, tpot_s = one.arrived_s, one.tpot_s
    wait_s, ttft_s, seconds = one.sent_s - asked_s, one.first_s - asked_s, one.ended_s - asked_s
    return (
        f" request_id={_word(one.request_id)} outcome={one.outcome} status={one.status} path={_word(one.path)}"
        f" model={_word(one.model)} tenant={_word(one.tenant)} request_class={one.request_class} worker={_word(one.worker)}"
        f" prompt_tokens={one.prompt_tokens} output_tokens={one.output_tokens} tries={one.tries} continued={one.continued}"
        f"{f' wait_s={wait_s:.6f}' if wait_s >= 0.0 else ''}{f' ttft_s={ttft_s:.6f}' if ttft_s >= 0.0 else ''}"
        f"{f' tpot_s={tpot_s:.6f}' if tpot_s >= 0.0 else ''}{f' seconds={seconds:.6f}' if seconds >= 0.0 else ''}"
    )


@lru_cache(maxsize=256)
def _word(text: str) -> str:
    """The text itself; as a JSON string if it is empty or has blanks, double quotes or unprintable characters."""
    return text if text and text.isprintable() and " " not in text and '"' not in text else json.dumps(text)
