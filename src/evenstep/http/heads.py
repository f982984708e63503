"""Caches parsed heads: clients and engines send the same head again and again, except for the length of the body.

A strict parse costs more than the rest of a request's handling. So its result is cached by the head's bytes without the
digits of its ``Content-Length``. A head that gives its length in another form is cached under all of its bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from evenstep.http.head import ResponseHead, read_response_head

_FIRST, _SECOND = b"\r\nContent-Length: ", b"\r\ncontent-length: "
_WIDTH = len(_FIRST)
_DIGITS = 18  #: of a length at most, as in `head`
_MOST = 512
_LONGEST = 2048  # most bytes of a cached head

T = TypeVar("T")


class Heads(Generic[T]):
    """A cache of parsed heads, of at most 2 KiB each. With 512 kept, it is emptied before the next.

    Args:
        make: parses a head up to and including its empty line. It returns the value without the length, the body length,
            and whether to cache the result. It raises if a head breaks a rule, so an invalid head is never cached.
        splits: whether `read` remembers the last head for `split`; without it, `split` always returns None.
    """

    def __init__(self, make: Callable[[bytes], tuple[T, int, bool]], splits: bool = False) -> None:
        self._make, self._splits = make, splits
        self._known: dict[bytes, tuple[T, int]] = {}  # by the head without the digits of its length; with the first length
        self._last: tuple[bytes, bytes, T] | None = None

    def split(self, data: bytes) -> tuple[T, int, int] | None:
        """Recognise the head at the start of these bytes, if it equals the last one except for its Content-Length.

        The last head is the one of the last `read` that had a plain Content-Length and that `make` lets be cached. Returns
        the head's value, the length of the body, and the offset where the body begins; None if the head differs or is not
        whole.
        """
        if self._last is None:
            return None
        before, after, found = self._last
        if data.startswith(before):
            start, size = len(before), len(after)
            stop = data.find(after, start, start + _DIGITS + size)
            if stop > start:
                digits = data[start:stop]
                if digits.isdigit():
                    return found, int(digits), stop + size
        return None

    def read(self, head: bytes) -> tuple[T, int]:
        """Parse a whole head, or find one in the cache that differs in length alone; returns value and body length.

        The length is in bytes, `CHUNKED` or `UNTIL_CLOSED`. It raises what `make` raises.
        """
        place = _length_at(head)
        key = head if place is None else head[: place[0]] + head[place[1] :]
        known = self._known.get(key)
        if known is None:
            made, length, is_kept = self._make(head)
            if not is_kept:
                return made, length
            known = made, length
            if len(key) <= _LONGEST:
                if len(self._known) >= _MOST:
                    self._known.clear()
                self._known[key] = known
        if place is None:
            return known
        at, stop = place
        if self._splits:
            self._last = head[:at], head[stop:], known[0]
        return known[0], int(head[at:stop])


def _length_at(head: bytes) -> tuple[int, int] | None:
    """Where the digits of a plain Content-Length begin and end; None if the head has no such header."""
    at = head.rfind(_FIRST)  # it mostly comes late in a head
    if at < 0:
        at = head.rfind(_SECOND)
        if at < 0:
            return None
    at += _WIDTH
    stop = head.find(b"\r\n", at)
    digits = head[at:stop]
    return (at, stop) if digits.isdigit() and len(digits) <= _DIGITS else None


def response_heads() -> Heads[ResponseHead]:
    """A `Heads` for one server's answers: parses all, caches those of status 200, can `split`. Not for answers to HEAD."""

    def make(head: bytes) -> tuple[ResponseHead, int, bool]:
        found = read_response_head(head)
        return found, found.length, found.status == 200

    return Heads(make, splits=True)
