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
    """A cache of parsed heads, of at most 2 KiB each. When 512 are kept, it is emptied.

    Args:
        make: parses a head up to and including its empty line. It returns the value without the length, the body length,
            and whether to cache the result. It raises if a head breaks a rule, so an invalid head is never cached.
        splits: whether `read` remembers the last head for `split`; without it, `split` always returns None.
    """

    def __init__(self, make: Callable[[bytes], tuple[T, int, bool]], splits: bool = False) -> None:
        self._make, self._splits = make, splits
        # Two caches: a head that lacks the digits must not be found as one of which they were taken away.
        self._without: dict[bytes, T] = {}  # by the head without the digits of its length
        self._whole: dict[bytes, tuple[T, int]] = {}
        self._last: tuple[bytes, bytes, T] | None = None

    def split(self, data: bytes) -> tuple[T, int, int] | None:
        """Recognise the head at the start of these bytes, if it equals the last one except for its Content-Length.

        The last head is the one of the last `read` that had a plain Content-Length and was cached. Returns the head's value,
        the length of the body, and the offset where the body begins; None if the head differs or is not whole.
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
        if place is not None:
            at, stop = place
            key = head[:at] + head[stop:]
            found = self._without.get(key)
            if found is not None:
                if self._splits:
                    self._last = head[:at], head[stop:], found
                return found, int(head[at:stop])
            made, length, is_kept = self._make(head)
            if is_kept and length >= 0:
                _remember(self._without, key, made)
                if self._splits:
                    self._last = head[:at], head[stop:], made
            return made, length
        known = self._whole.get(head)
        if known is not None:
            return known
        made, length, is_kept = self._make(head)
        if is_kept:
            _remember(self._whole, head, (made, length))
        return made, length


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


def _remember(known: dict[bytes, T], key: bytes, made: T) -> None:
    """Cache `made`, unless its key is too long; a full cache is emptied first."""
    if len(key) <= _LONGEST:
        if len(known) >= _MOST:
            known.clear()
        known[key] = made


def response_heads() -> Heads[ResponseHead]:
    """A `Heads` for one server's answers: parses all, caches those of status 200, can `split`. Not for answers to HEAD."""

    def make(head: bytes) -> tuple[ResponseHead, int, bool]:
        found = read_response_head(head)
        return found, found.length, found.status == 200

    return Heads(make, splits=True)
