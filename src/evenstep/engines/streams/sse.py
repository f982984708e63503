"""Parses server-sent events from bytes split at any point; no I/O.

The rules, from the HTML standard's event streams:

* a line ends with CRLF, LF or CR; an empty line ends an event; a CR at the end of the input waits for the next byte,
  since an LF may follow;
* ``data:`` lines of one event are joined by LF, and one space after the colon is dropped. A line that starts with a colon
  is a comment. Other fields (``event``, ``id``, ``retry``, anything unknown) are ignored;
* an event without a ``data`` line has no value, but is still returned with its bytes, so that it can be forwarded;
* a byte order mark before the stream is not part of it; an event that never ends is dropped.

Without a fault, the bytes of the returned events, followed by `EventReader.tail`, are the stream, byte for byte.
"""

from __future__ import annotations

import re

from evenstep.errors import EngineError

#: One event: its bytes as they came, the empty line included, and its data; None if it has no data.
Event = tuple[bytes, bytes | None]

_END = re.compile(rb"(?>\r\n|\n|\r)(?>\r\n|\n|\r)")
_LINE = re.compile(rb"\r\n|\n|\r")
_MARK = b"\xef\xbb\xbf"


class EventReader:
    """Splits a byte stream into events, each as soon as it is complete: its bytes and its data, see `Event`.

    Args:
        limit: bytes of the largest event; a larger one sets `fault`, and nothing is read after it.
    """

    __slots__ = ("_begun", "_has_cr", "_limit", "_rest", "_searched", "fault")

    def __init__(self, limit: int = 1 << 20) -> None:
        self.fault: EngineError | None = None
        self._limit = limit
        self._rest = bytearray()
        self._searched = 0  # no event ends within so many first bytes of `_rest`
        self._begun = self._has_cr = False

    @property
    def tail(self) -> bytes:
        """The bytes of an event that has not ended; empty between two events."""
        return bytes(self._rest)

    @property
    def is_between(self) -> bool:
        """True if the next byte begins a new event, and at least one event has been read."""
        return self._begun and not self._rest and self.fault is None

    def passed(self) -> None:
        """Note that the caller has parsed the first event itself and does not feed it; for `is_between`."""
        self._begun = True

    def feed(self, data: bytes) -> list[Event]:
        """Take bytes of the stream; returns the events that they complete, oldest first.

        It never raises. An event beyond the limit sets `fault`, and every later call returns an empty list.
        """
        is_first = not (self._begun or self._rest) and data[:6] == b"data: "
        if (is_first or self.is_between) and 13 not in data and len(data) <= self._limit:  # the common case: no pieces
            if data[:6] == b"data: " and data.find(b"\n") == len(data) - 2 and data[-1] == 10:
                self._begun = True
                return [(data, data[6:-2])]
            pieces = data.split(b"\n\n")
            self._begun = self._begun or len(pieces) > 1
            self._rest += pieces.pop()
            self._searched = max(0, len(self._rest) - 3)
            return [_plain(piece) for piece in pieces]
        return self._search(data, ended=False)

    def end(self) -> list[Event]:
        """The events that the end of the stream completes: at most one that waited for an LF after its CR; usually empty.

        Call it once after the last `feed`. An event without its empty line is dropped; its bytes stay in `tail`.
        """
        return self._search(b"", ended=True)

    def _search(self, data: bytes, ended: bool) -> list[Event]:
        """The events that `data` completes, found in any layout; `ended` = no more bytes come, so a last CR ends a line."""
        events: list[Event] = []
        if self.fault is not None:
            return events
        self._rest += data
        self._has_cr = self._has_cr or 13 in data
        start = 0
        while (stop := self._end(max(start, self._searched))) > 0:
            if stop == len(self._rest) and self._rest[stop - 1] == 13 and not ended:
                break
            if stop - start > self._limit:
                break
            raw = bytes(self._rest[start:stop])
            is_plain = not self._has_cr and raw.startswith(b"data: ")
            events.append(_plain(raw[:-2]) if is_plain else (raw, _data(raw, first=not self._begun)))
            self._begun, self._searched, start = True, 0, stop
        del self._rest[:start]
        if len(self._rest) > self._limit:
            said = f"longer than {self._limit} bytes; expected at most that many."
            self.fault = EngineError(f"engine: an event of its stream is {said}")
        self._searched = max(0, len(self._rest) - 3)
        return events

    def _end(self, at: int) -> int:
        """The index in the buffer after the next event that ends after `at`; 0 = no event ends."""
        if not self._has_cr:
            place = self._rest.find(b"\n\n", at)
            return place + 2 if place >= 0 else 0
        found = _END.search(self._rest, at)
        return found.end() if found is not None else 0


def _plain(piece: bytes) -> Event:
    """The event made of `piece`, its bytes without the empty line; its lines end with LF."""
    raw = piece + b"\n\n"
    return raw, piece[6:] if piece[:6] == b"data: " and 10 not in piece else _data(raw, first=False)


def _data(raw: bytes, first: bool) -> bytes | None:
    """The data of an event, its ``data:`` lines joined by LF; None without such a line. `first`: drop a byte order mark."""
    if first and raw.startswith(_MARK):
        raw = raw[3:]
    found: list[bytes] = []
    for line in _LINE.split(raw):
        name, _, value = line.partition(b":")
        if name == b"data":
            found.append(value[1:] if value[:1] == b" " else value)
    return b"\n".join(found) if found else None
