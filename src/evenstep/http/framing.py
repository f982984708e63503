"""Finds the length of a body (RFC 9112 section 6.3), and parses chunked bodies strictly (section 7.1).

Each of the three framings takes bytes in any pieces and returns the part that belongs to the body. A chunk's size is at most
eight hexadecimal digits. An extension (section 7.1.1) has no control characters but tabs and is ignored. Lines end with
CRLF. Trailers (section 7.1.2) are checked and dropped. Sizes, extensions and trailers are bounded, so a peer cannot send
them for ever without a growing body.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Protocol

from evenstep.http.errors import HttpError
from evenstep.http.head import CHUNKED, UNTIL_CLOSED

_SIZE = re.compile(rb"([0-9A-Fa-f]{1,8})(?:;[\t\x20-\x7e\x80-\xff]*+)?")
_TRAILER = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[\t\x20-\x7e\x80-\xff]*+")
_END = b"0\r\n\r\n"  # the end of most bodies
_LONGEST_LINE = 4096
_MOST_TRAILERS = 64

_AT_SIZE, _IN_DATA, _AT_END, _AT_TRAILER, _OVER = range(5)


class Framing(Protocol):
    """Finds the end of one body.

    Attributes:
        is_between: the next byte begins a chunk; always False where a body has no chunks.
        over: the body has ended: feed no more.
        rest: once `over`, the bytes of the last `feed` that follow the body.
        announced: bytes that the peer has promised and not sent yet, of a chunked body those of the current chunk; 0
            between chunks.
        ends_with_connection: the end of the connection ends the body; `over` stays False.
        feed: takes the next bytes, cut anywhere; returns those of the body, maybe none, unframed. May raise HttpError.
    """

    is_between: bool
    over: bool
    rest: bytes
    announced: int
    ends_with_connection: bool

    def feed(self, data: bytes) -> bytes: ...


def framing_of(length: int) -> Framing:
    """A new framing for a body of `length` bytes, `CHUNKED` or `UNTIL_CLOSED`."""
    if length == CHUNKED:
        return Chunked()
    return UntilClosed() if length == UNTIL_CLOSED else Sized(length)


class Sized:
    """The framing of a body of `length` bytes, as Content-Length gives them; with 0 it is `over` from the start."""

    __slots__ = ("announced", "over", "rest")
    is_between = ends_with_connection = False

    def __init__(self, length: int) -> None:
        self.announced, self.over, self.rest = length, not length, b""

    def feed(self, data: bytes) -> bytes:
        """The part of these bytes that belongs to the body, at most `announced`; the others are `rest`. Never raises."""
        left = self.announced
        if len(data) < left:
            self.announced = left - len(data)
            return data
        self.announced, self.over = 0, True
        self.rest = data[left:]
        return data if len(data) == left else data[:left]


class UntilClosed:
    """The framing of a body that ends with its connection (RFC 9112 section 6.3, rule 8)."""

    __slots__ = ()
    is_between, over, rest, announced, ends_with_connection = False, False, b"", 0, True

    def feed(self, data: bytes) -> bytes:
        """Returns `data`: all bytes belong to the body. Never raises."""
        return data


@lru_cache(maxsize=4096)
def _length(line: bytes) -> int:
    """The number of bytes that a chunk's size line states; also 0 if the line is invalid. Cached, since sizes repeat."""
    size = _SIZE.fullmatch(line)
    return int(size[1], 16) if size is not None else 0


class Chunked:
    """The framing of a chunked body, which ends after its trailers. Sizes have at most eight hexadecimal digits."""

    ends_with_connection = False
    __slots__ = ("_line", "_state", "_trailers", "announced", "is_between", "over", "rest")

    def __init__(self) -> None:
        self.is_between, self.over, self.rest = True, False, b""
        self._state = _AT_SIZE
        self.announced = self._trailers = 0
        self._line = b""  # the start of a line (size, end or trailer) that is not whole yet

    def feed(self, data: bytes) -> bytes:
        """The data of the chunks in these bytes, cut anywhere, joined and without chunk framing. Trailers are dropped.

        Raises HttpError for an invalid size, chunk end or trailer, a line of over 4096 bytes, or over 64 trailers.
        """
        if not self.is_between:
            return self._all(data)
        stop = data.find(b"\r\n", 0, 12)
        length = _length(data[:stop]) if stop > 0 else 0
        if length and stop + 4 + length == len(data) and data.endswith(b"\r\n"):
            return data[stop + 2 : -2]  # the common case: one whole chunk
        out, at, size = b"", 0, len(data)  # whole chunks and a plain end; anything else is left to `_all`
        while at < size:
            stop = data.find(b"\r\n", at, at + 12)
            length = _length(data[at:stop]) if stop > 0 else 0
            end = stop + 2 + length
            if not length or not data.startswith(b"\r\n", end):
                if data[at:] == _END:
                    self._state, self.over, self.is_between = _OVER, True, False
                    return out
                return out + self._all(data[at:])
            out = out + data[stop + 2 : end] if out else data[stop + 2 : end]
            at = end + 2
        return out

    def _all(self, data: bytes) -> bytes:
        """`feed` for bytes cut anywhere, and for trailers; sets `is_between`, `over` and `rest`."""
        out: list[bytes] = []
        if self._line:
            data, self._line = self._line + data, b""
        at, end = 0, len(data)
        while at < end and self._state != _OVER:
            if self._state == _IN_DATA:
                stop = min(end, at + self.announced)
                out.append(data[at:stop])
                self.announced -= stop - at
                at = stop
                if not self.announced:
                    self._state = _AT_END
                continue
            stop = data.find(b"\r\n", at)
            if stop < 0:
                self._wait(data[at:])
                break
            self._take(data[at:stop])
            at = stop + 2
        if self._state == _OVER:
            self.rest += data[at:]
        self.is_between = self._state == _AT_SIZE and not self._line
        return b"".join(out)

    def _wait(self, line: bytes) -> None:
        """Keep a line that is not whole yet; raises HttpError if it is too long or invalid (a trailer: a bare CR or LF)."""
        whole = line.removesuffix(b"\r")
        if self._state == _AT_END:
            good = not whole
        elif self._state == _AT_SIZE:
            good = not whole or _SIZE.fullmatch(whole) is not None
        else:
            good = b"\n" not in whole and b"\r" not in whole
        if not good or len(line) > _LONGEST_LINE:
            raise HttpError("A chunk of the body is not framed as it has to be.")
        self._line = line

    def _take(self, line: bytes) -> None:
        """Parse a whole line, without its CRLF: a chunk's size or end, or a trailer. Raises HttpError if it is invalid."""
        if self._state == _AT_END:
            if line:
                raise HttpError("A chunk of the body is longer than its size.")
            self._state = _AT_SIZE
            return
        if len(line) > _LONGEST_LINE:
            raise HttpError("A chunk of the body is not framed as it has to be.")
        if self._state == _AT_SIZE:
            size = _SIZE.fullmatch(line)
            if size is None:
                raise HttpError("The size of a chunk is no hexadecimal number.")
            self.announced = int(size[1], 16)
            self._state = _IN_DATA if self.announced else _AT_TRAILER
            return
        if not line:
            self._state, self.over = _OVER, True
            return
        self._trailers += 1
        if self._trailers > _MOST_TRAILERS or _TRAILER.fullmatch(line) is None:
            raise HttpError("What follows the last chunk is no trailer.")


def framed(data: bytes, last: bool = False) -> bytes:
    """`data` as one HTTP chunk, followed by the end of the body if `last`. Empty data makes no chunk."""
    if not data:
        return _END if last else b""
    return b"%x\r\n%b\r\n0\r\n\r\n" % (len(data), data) if last else b"%x\r\n%b\r\n" % (len(data), data)
