# pyright: basic
"""Reads usual events of a stream by their template, in one pass over the bytes; written to be compiled.

The checked build (``EVENSTEP_CHECKED=1``) verifies every index.
"""

from __future__ import annotations

import numpy as np

from evenstep import compiled
from evenstep.compiled import Ints, Octets, jit

#: Indices into `ChunkTemplate.parts`: lengths of the pieces of `ChunkTemplate.shape`, in order; number of counts in an
#: event (0 or 2); 1 if ``total_tokens`` is first; prompt tokens; 1 if the client gets other bytes.
PREFIX, LEAD, REST_0, REST_1, REST_2, TAIL, COUNTS, TOTAL_FIRST, PROMPT, CHANGES = range(10)
PIECES, PARTS = 6, 10
#: What `read_events` reads and writes.
BARE, CHUNKED, FRAMED = range(3)
_FRAME = 16  # room before the written bytes for the size of an HTTP chunk
_MOST_DIGITS = 18


@jit
def _same(data, at, stop, shape, start, size):
    """The index in `data` after a copy of ``shape[start : start + size]`` at `at`; -1 if other bytes are there."""
    if at < 0 or at + size > stop:
        return -1
    other, begin, found = (
        np.uint64(at),
        np.uint64(start),
        np.uint8(0),
    )  # unsigned: compared many bytes at a time
    for i in range(np.uint64(size)):
        found |= data[other + i] ^ shape[begin + i]
    return at + size if found == 0 else -1


@jit
def _copied(data, at, size, out, to):
    """Copy ``data[at : at + size]`` to `out` from index `to` on; returns the index after the copy."""
    begin, other = np.uint64(at), np.uint64(to)
    for i in range(np.uint64(size)):
        out[other + i] = data[begin + i]
    return to + size


@jit
def _text_end(data, at, stop):
    """The index of the quote that ends a JSON string from `at` on; -1 at an escape, a control character or bad UTF-8."""
    need, low, high = 0, 0x80, 0xBF
    while at < stop:
        byte = data[at]
        if need > 0:
            if byte < low or byte > high:
                return -1
            need, low, high = need - 1, 0x80, 0xBF
        elif byte == 34:
            return at
        elif byte < 32 or byte == 92:
            return -1
        elif byte >= 0x80:
            if 0xC2 <= byte <= 0xDF:
                need = 1
            elif 0xE0 <= byte <= 0xEF:
                need, low, high = 2, (0xA0 if byte == 0xE0 else 0x80), (0x9F if byte == 0xED else 0xBF)
            elif 0xF0 <= byte <= 0xF4:
                need, low, high = 3, (0x90 if byte == 0xF0 else 0x80), (0x8F if byte == 0xF4 else 0xBF)
            else:
                return -1
        at += 1
    return -1


@jit
def _digits_end(data, at, stop):
    """The index after a whole number of JSON at `at`; -1 without one, or for more than 18 digits."""
    end = at
    while end < stop and 48 <= data[end] <= 57:
        end += 1
    if end == at or end - at > _MOST_DIGITS or (data[at] == 48 and end - at > 1):
        return -1
    return end


@jit
def _counts_end(data, at, stop, shape, rest, parts, count):
    """The index after the pieces of `shape` from `rest` on, with the counts of token `count` between; -1 if bytes differ."""
    at = _same(data, at, stop, shape, rest, parts[REST_0])
    if parts[COUNTS] == 0:
        return at
    for which in range(2):
        if at < 0:
            return -1
        end = _digits_end(data, at, stop)
        if end < 0:
            return -1
        value = 0
        for i in range(at, end):
            value = 10 * value + data[i] - 48
        is_total = (parts[TOTAL_FIRST] == 1) == (which == 0)
        if value != count + (parts[PROMPT] if is_total else 0):
            return -1
        start = rest + parts[REST_0] + (parts[REST_1] if which == 1 else 0)
        at = _same(data, end, stop, shape, start, parts[REST_1 + which])
    return at


@jit
def _events(data, at, stop, shape, parts, out, so_far):
    """Read usual events from `at` on, up to the first other one or `stop`; returns the index after them, and `so_far` then.

    `so_far` has the tokens of the answer, the place in `out` for the client's bytes, in its first half, and that for texts
    and ids. It ends early before an event for which `out` has no room.
    """
    count, to, kept = so_far
    lead, rest = parts[PREFIX], parts[PREFIX] + parts[LEAD]
    tail, half = rest + parts[REST_0] + parts[REST_1] + parts[REST_2], out.size // 2
    while at < stop:
        text = _same(data, at, stop, shape, 0, parts[PREFIX])
        text_end = _text_end(data, text, stop) if text >= 0 else -1
        number, number_end = text_end, text_end
        if text_end >= 0 and parts[LEAD] > 0:
            number = _same(data, text_end, stop, shape, lead, parts[LEAD])
            number_end = _digits_end(data, number, stop) if number >= 0 else -1
        end = _counts_end(data, number_end, stop, shape, rest, parts, count + 1) if number_end >= 0 else -1
        upto = text_end if parts[CHANGES] == 1 else end
        held = text_end - text + number_end - number + 2
        if end <= at or to + upto - at + parts[TAIL] + 2 > half or kept + held > out.size:
            break
        to = _copied(data, at, upto - at, out, to)
        to = _copied(shape, tail, parts[TAIL], out, to)
        kept = _copied(data, text, text_end - text, out, kept)
        out[kept] = 34
        kept = _copied(data, number, number_end - number, out, kept + 1)
        out[kept] = 34
        at, count, kept = end, count + 1, kept + 1
    return at, (count, to, kept)


@jit
def _chunk_at(data, at, end):
    """Begin and end of the bytes of the HTTP chunk whose size is at `at`; -1, -1 if it is empty, or not whole by `end`."""
    begin, length = at, 0
    while begin < end and begin - at < 8:
        digit = data[begin]
        if 48 <= digit <= 57:
            digit -= 48
        elif 97 <= digit <= 102 or 65 <= digit <= 70:
            digit = (digit | 32) - 87
        else:
            break
        length = 16 * length + digit
        begin += 1
    begin += 2
    stop = begin + length
    if length == 0 or stop + 2 > end or data[begin - 2] != 13 or data[begin - 1] != 10:
        return -1, -1
    if data[stop] != 13 or data[stop + 1] != 10:
        return -1, -1
    return begin, stop


@compiled.declared(compiled.signature(tuple[int, int, int, int, int], bytes, int, int, int, bytes, Ints, int, Octets))
def read_events(data, begin, end, form, shape, parts, count, out):
    """Read usual events at the start of ``data[begin:end]``: bare, or HTTP chunks that hold nothing else.

    Args:
        data: bytes from the engine; `begin` is at an event, or at the size of an HTTP chunk.
        form: `BARE` events; `CHUNKED`: whole HTTP chunks; `FRAMED`: these, and the client's bytes are one HTTP chunk.
        shape, parts: see `ChunkTemplate`.
        count: tokens of the answer so far.
        out: uint8[n], written: the client's bytes in its first half; in its second the text and the token id of each event,
            each followed by a quote.

    Returns:
        Five numbers: the end of what was read in `data`, `begin` if nothing was; tokens of the answer after it; begin and
        end of the client's bytes in `out`; the end of texts and ids in `out`, which begin at n // 2.
    """
    start, size, total = max(begin, 0), min(end, len(data)), 0
    for piece in range(PIECES):
        total += parts[piece]
    if total != len(shape) or out.size // 2 < _FRAME:
        size = start
    done, so_far = start, (count, _FRAME, out.size // 2)
    if form == BARE and size > start:
        done, so_far = _events(data, start, size, shape, parts, out, so_far)
    while form != BARE and done < size:
        first, stop = _chunk_at(data, done, size)
        if first < 0:
            break
        at, by_then = _events(data, first, stop, shape, parts, out, so_far)
        if at != stop:
            break
        done, so_far = stop + 2, by_then
    tokens, to, kept = so_far
    first = _FRAME
    if form == FRAMED and done > start:
        left = to - _FRAME
        out[to], out[to + 1], to = 13, 10, to + 2
        out[first - 2], out[first - 1], first = 13, 10, first - 2
        while left > 0:
            first -= 1
            out[first] = left % 16 + (48 if left % 16 < 10 else 87)
            left //= 16
    return done, tokens, first, to, kept
