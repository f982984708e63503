# pyright: basic
"""JSON as compiled code reads it: where a value ends, for values that any reader takes for the same.

Strict, and stricter than it need be where readers differ: numbers with an exponent or many digits, halves of surrogate
pairs and deep nesting are for somebody else to judge.
"""

from __future__ import annotations

import numpy as np

from evenstep.compiled import jit, seen_as

_QUOTE, _BACKSLASH, _COMMA, _COLON, _U = 34, 92, 44, 58, 117
_OPEN, _CLOSE, _OPEN_LIST, _CLOSE_LIST = 123, 125, 91, 93
_DEEPEST, _MOST_DIGITS = 32, 15
_ONES, _HIGHS = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
_SPACES, _QUOTES, _BACKSLASHES = (np.uint64(one * 0x0101010101010101) for one in (32, _QUOTE, _BACKSLASH))
_WORDS = (b"true", b"false", b"null")
_TRUE, _FALSE, _NULL = (np.frombuffer(word, np.uint8) for word in _WORDS)
#: 1 for what may follow a backslash, but for ``u``.
_ESCAPES = np.array([byte in b'"\\/bfnrt' for byte in range(256)], np.uint8)
#: Worth of a hexadecimal digit, 255 for any other byte.
_HEX = np.array(
    [int(chr(byte), 16) if chr(byte) in "0123456789abcdefABCDEF" else 255 for byte in range(256)], np.uint8
)


@jit
def same(data, at, stop, other):
    """Whether these bytes stand at a place."""
    if at < 0 or at + other.size > stop:
        return False
    for i in range(other.size):  # noqa: SIM110  # it is compiled
        if data[at + i] != other[i]:
            return False
    return True


@jit
def spaces(data, at, stop):
    """The first place from here on that is no white space."""
    while at < stop and (data[at] == 32 or data[at] == 10 or data[at] == 13 or data[at] == 9):
        at += 1
    return at


@jit
def _odd(word):
    """Bytes of a word that are no plain letters of a text, and maybe others above them: not 0 where there is one."""
    quotes, backslashes = word ^ _QUOTES, word ^ _BACKSLASHES
    return ((word - _SPACES) | (quotes - _ONES) | (backslashes - _ONES) | word) & _HIGHS


@jit
def _plain(data, at, stop):
    """A place up to which, from here on, there are only plain letters of a text; the next one is less than 8 bytes on, or is
    one that has to be looked at.
    """
    words, i = seen_as(data, at, (stop - at) // 8, np.uint64), np.uint64(0)
    all_of = np.uint64(words.size)
    while i < all_of and _odd(words[i]) == 0:
        i += np.uint64(1)
        while i & np.uint64(7) == 0 and i + np.uint64(8) <= all_of:  # a long text
            found = np.uint64(0)
            for j in range(np.uint64(8)):  # without a branch: many at a time
                found |= _odd(words[i + j])
            if found != 0:
                break
            i += np.uint64(8)
    return at + 8 * np.int64(i)


@jit
def _letter(data, at, stop):
    """Where a letter of more than one byte ends, as UTF-8 has it; -1 where it is none."""
    first, low, high = data[at], 0x80, 0xBF
    if 0xC2 <= first <= 0xDF:
        more = 1
    elif 0xE0 <= first <= 0xEF:
        more, low, high = 2, (0xA0 if first == 0xE0 else 0x80), (0x9F if first == 0xED else 0xBF)
    elif 0xF0 <= first <= 0xF4:
        more, low, high = 3, (0x90 if first == 0xF0 else 0x80), (0x8F if first == 0xF4 else 0xBF)
    else:
        return -1
    if at + more >= stop:
        return -1
    for i in range(1, more + 1):
        if data[at + i] < low or data[at + i] > high:
            return -1
        low, high = 0x80, 0xBF
    return at + more + 1


@jit
def _code(data, at, stop):
    """What the four digits behind ``\\u`` say; -1 where they are none."""
    if at + 4 > stop:
        return -1
    found = 0
    for i in range(4):
        digit = np.int64(_HEX[data[at + i]])
        if digit == 255:
            return -1
        found = 16 * found + digit
    return found


@jit
def _escape(data, at, stop):
    """Where an escape ends whose backslash is here; -1 where it is none."""
    if at + 1 >= stop:
        return -1
    if _ESCAPES[data[at + 1]] == 1:
        return at + 2
    if data[at + 1] != _U:
        return -1
    code = _code(data, at + 2, stop)
    if 0xD800 <= code <= 0xDFFF:
        if code >= 0xDC00 or at + 8 > stop or data[at + 6] != _BACKSLASH or data[at + 7] != _U:
            return -1
        low = _code(data, at + 8, stop)
        return at + 12 if 0xDC00 <= low <= 0xDFFF else -1
    return at + 6 if code >= 0 else -1


@jit
def end_of_text(data, at, stop):
    """Behind the closing quote of a text whose first letter is here; -1 where it has none, or is no JSON."""
    while at < stop:
        byte = data[at]
        if byte == _QUOTE:
            return at + 1
        if byte == _BACKSLASH:
            at = _escape(data, at, stop)
        elif byte >= 0x80:
            at = _letter(data, at, stop)
        elif byte < 32:
            return -1
        else:
            at = _plain(data, at + 1, stop)
        if at < 0:
            return -1
    return -1


@jit
def end_of_number(data, at, stop):
    """Behind a number without an exponent; -1 where there is none, or one that is long."""
    begin = at
    if at < stop and data[at] == 45:
        at += 1
    first = at
    while at < stop and 48 <= data[at] <= 57:
        at += 1
    if at == first or (data[first] == 48 and at > first + 1):
        return -1
    if at < stop and data[at] == 46:
        first = at + 1
        at = first
        while at < stop and 48 <= data[at] <= 57:
            at += 1
        if at == first:
            return -1
    if at - begin > _MOST_DIGITS or (at < stop and (data[at] == 101 or data[at] == 69)):
        return -1
    return at


@jit
def end_of_plain(data, at, stop):
    """Behind a text, a number or a word; -1 where there is none."""
    if at >= stop:
        return -1
    if data[at] == _QUOTE:
        return end_of_text(data, at + 1, stop)
    if same(data, at, stop, _TRUE) or same(data, at, stop, _NULL):
        return at + 4
    if same(data, at, stop, _FALSE):
        return at + 5
    return end_of_number(data, at, stop)


@jit
def value_of(data, at, stop):
    """Where the value of a member begins whose key's quote is here; -1 where it has none."""
    if at >= stop or data[at] != _QUOTE:
        return -1
    at = end_of_text(data, at + 1, stop)
    if at < 0:
        return -1
    at = spaces(data, at, stop)
    return spaces(data, at + 1, stop) if at < stop and data[at] == _COLON else -1


@jit
def end_of_value(data, at, stop):
    """Behind a value; -1 where none begins here, or one that is for somebody else to judge."""
    depth, objects = 0, 0  # bit k of `objects`: what is open at depth k is an object
    while True:
        if at >= 0 and at < stop and (data[at] == _OPEN or data[at] == _OPEN_LIST):
            is_object = data[at] == _OPEN
            if depth == _DEEPEST:
                return -1
            objects = (objects << 1) | (1 if is_object else 0)
            depth += 1
            at = spaces(data, at + 1, stop)
            if at < stop and data[at] != (_CLOSE if is_object else _CLOSE_LIST):
                at = value_of(data, at, stop) if is_object else at
                continue
        else:
            at = end_of_plain(data, at, stop) if at >= 0 else -1
            if at < 0:
                return -1
        while depth > 0:  # a value is over, or an empty one is about to be
            at = spaces(data, at, stop)
            if at >= stop:
                return -1
            if data[at] == _COMMA:
                at = spaces(data, at + 1, stop)
                at = value_of(data, at, stop) if objects & 1 else at
                break
            if data[at] != (_CLOSE if objects & 1 else _CLOSE_LIST):
                return -1
            objects >>= 1
            depth -= 1
            at += 1
        else:
            return at
