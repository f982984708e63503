"""Chunked bodies, strictly: bytes in any pieces to the bytes they carry; no I/O.

A size is hexadecimal digits, at most eight; an extension has no control characters and is not read; lines end with CRLF;
trailers are skipped. All of it together is bounded, so that nothing can be sent for ever without a body growing.
"""

from __future__ import annotations

import re
from functools import lru_cache

from evenstep.gateway.connections.head import HeadError

_SIZE = re.compile(rb"([0-9A-Fa-f]{1,8})(?:;[\t\x20-\x7e\x80-\xff]*+)?")
_TRAILER = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[\t\x20-\x7e\x80-\xff]*+")
_END = b"0\r\n\r\n"  # as most bodies end
_LONGEST_LINE = 4096
_MOST_TRAILERS = 64

_AT_SIZE, _IN_DATA, _AT_END, _AT_TRAILER, _OVER = range(5)


@lru_cache(maxsize=4096)
def _length(line: bytes) -> int:
    """The length in a size line; 0 if the line has an unusual form. Sizes repeat, since chunks of a stream are alike."""
    size = _SIZE.fullmatch(line)
    return int(size[1], 16) if size is not None else 0


class Chunked:
    """One chunked body.

    Attributes:
        is_between: what comes next begins a chunk.
        over: it has ended; `rest` is what followed it.
    """

    __slots__ = ("_left", "_line", "_state", "_trailers", "is_between", "over", "rest")

    def __init__(self) -> None:
        self.is_between, self.over = True, False
        self.rest = b""
        self._state = _AT_SIZE
        self._left = 0
        self._line = b""  # of a size, an end or a trailer that is not whole
        self._trailers = 0

    @property
    def announced(self) -> int:
        """Bytes of the chunk at hand that have not come."""
        return self._left

    def feed(self, data: bytes) -> bytes:
        """What these bytes carry.

        Raises:
            HeadError: they break a rule.
        """
        out, at, size = b"", 0, len(data)
        if self.is_between:  # the common case: whole chunks, and then the end
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
        return self._all(data)

    def _all(self, data: bytes) -> bytes:
        out = self._each(data)
        self.is_between = self._state == _AT_SIZE and not self._line
        return out

    def _each(self, data: bytes) -> bytes:
        out: list[bytes] = []
        if self._line:
            data, self._line = self._line + data, b""
        at, end = 0, len(data)
        while at < end and self._state != _OVER:
            if self._state == _IN_DATA:
                stop = min(end, at + self._left)
                out.append(data[at:stop])
                self._left -= stop - at
                at = stop
                if not self._left:
                    self._state = _AT_END
                continue
            stop = data.find(b"\r\n", at)
            if stop < 0:
                self._wait(data[at:])
                return b"".join(out)
            self._take(data[at:stop])
            at = stop + 2
        if self._state == _OVER:
            self.rest += data[at:]
        return b"".join(out)

    def _wait(self, line: bytes) -> None:
        """A line that is not whole: as much of it as is there must be right."""
        whole = line[:-1] if line.endswith(b"\r") else line
        if self._state == _AT_END:
            good = not whole
        elif self._state == _AT_SIZE:
            good = not whole or _SIZE.fullmatch(whole) is not None
        else:
            good = b"\n" not in whole and b"\r" not in whole
        if not good or len(line) > _LONGEST_LINE:
            raise HeadError("A chunk of the body is not framed as it has to be.")
        self._line = line

    def _take(self, line: bytes) -> None:
        if self._state == _AT_END:
            if line:
                raise HeadError("A chunk of the body is longer than its size.")
            self._state = _AT_SIZE
            return
        if len(line) > _LONGEST_LINE:
            raise HeadError("A chunk of the body is not framed as it has to be.")
        if self._state == _AT_SIZE:
            size = _SIZE.fullmatch(line)
            if size is None:
                raise HeadError("The size of a chunk is no hexadecimal number.")
            self._left = int(size[1], 16)
            self._state = _IN_DATA if self._left else _AT_TRAILER
            return
        if not line:
            self._state, self.over = _OVER, True
            return
        self._trailers += 1
        if self._trailers > _MOST_TRAILERS or _TRAILER.fullmatch(line) is None:
            raise HeadError("What follows the last chunk is no trailer.")


def framed(data: bytes, last: bool = False) -> bytes:
    """Bytes as a chunk; `last` ends the body with it."""
    if not data:
        return _END if last else b""
    return b"%x\r\n%b\r\n0\r\n\r\n" % (len(data), data) if last else b"%x\r\n%b\r\n" % (len(data), data)
