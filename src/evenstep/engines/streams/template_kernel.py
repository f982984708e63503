# pyright: basic
"""The compiled twin of `template.ChunkTemplate.read`, for bodies that are still in HTTP chunks: one pass over the bytes.

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


@compiled.declared(compiled.signature(tuple[int, int, int, int, int], bytes, int, int, bytes, Ints, int, bool, Octets))
def read_chunks(data, begin, end, shape, parts, count, is_framed, out):
    """Read HTTP chunks at the start of ``data[begin:end]``, while they hold only usual events.

    Args:
        data: bytes from the engine; `begin` is at the size of an HTTP chunk.
        shape, parts: see `ChunkTemplate`.
        count: tokens of the answer so far.
        is_framed: the client's bytes are written as one HTTP chunk; else bare.
        out: uint8[n], written: the client's bytes in its first half; in its second the text and the token id of each event,
            each followed by a quote.

    Returns:
        Five numbers: the end of the chunks read in `data`, `begin` if none was; tokens of the answer after them; begin and
        end of the client's bytes in `out`; the end of texts and ids in `out`, which begin at n // 2.
    """
    start, size, half = max(begin, 0), min(end, len(data)), out.size // 2
    lead, rest = parts[PREFIX], parts[PREFIX] + parts[LEAD]
    tail = rest + parts[REST_0] + parts[REST_1] + parts[REST_2]
    done, tokens, done_w, done_k = start, count, _FRAME, half
    if tail + parts[TAIL] != len(shape) or half < _FRAME:
        size = start
    while done < size:
        at, length, w, k, n = done, 0, done_w, done_k, tokens
        while at < size and at - done < 8:  # the size of this chunk
            digit = data[at]
            if 48 <= digit <= 57:
                digit -= 48
            elif 97 <= digit <= 102 or 65 <= digit <= 70:
                digit = (digit | 32) - 87
            else:
                break
            length = 16 * length + digit
            at += 1
        stop = at + 2 + length
        if length == 0 or stop + 2 > size or data[at] != 13 or data[at + 1] != 10:
            break
        if data[stop] != 13 or data[stop + 1] != 10 or w + 2 * length + tail > half or k + length > out.size:
            break
        at += 2
        while 0 <= at < stop:
            first, text = at, _same(data, at, stop, shape, 0, parts[PREFIX])
            if text < 0:
                at = -1
                break
            text_end = _text_end(data, text, stop)
            number, number_end = text_end, text_end
            if text_end >= 0 and parts[LEAD] > 0:
                number = _same(data, text_end, stop, shape, lead, parts[LEAD])
                number_end = _digits_end(data, number, stop) if number >= 0 else -1
            if number_end < 0:
                at = -1
                break
            at = _counts_end(data, number_end, stop, shape, rest, parts, n + 1)
            if at <= first:
                at = -1
                break
            n += 1
            upto = text_end if parts[CHANGES] == 1 else at
            held = text_end - text + number_end - number + 2
            if w + upto - first + parts[TAIL] + 2 > half or k + held > out.size:
                at = -1
                break
            w = _copied(data, first, upto - first, out, w)
            w = _copied(shape, tail, parts[TAIL], out, w)
            k = _copied(data, text, text_end - text, out, k)
            out[k] = 34
            k = _copied(data, number, number_end - number, out, k + 1)
            out[k] = 34
            k += 1
        if at != stop:
            break
        done, tokens, done_w, done_k = stop + 2, n, w, k
    begin = _FRAME
    if is_framed and done > start:
        left = done_w - _FRAME
        out[done_w], out[done_w + 1], done_w = 13, 10, done_w + 2
        out[begin - 2], out[begin - 1], begin = 13, 10, begin - 2
        while left > 0:
            begin -= 1
            out[begin] = left % 16 + (48 if left % 16 < 10 else 87)
            left //= 16
    return done, tokens, begin, done_w, done_k
