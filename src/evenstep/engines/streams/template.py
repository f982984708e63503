"""A fast path for the usual event of a stream: it equals the previous one except for its text, token and counts.

A `ChunkTemplate` is learned from an event that was parsed in full. It holds the bytes before the text, the bytes after it
with the counts left open, and the bytes for the client. One token later the counts are known in advance, so a matching event
is compared, not parsed. A full parse would find the same values, since all other bytes are equal. An event that does not
match is parsed in full.

`ChunkTemplate.read` is written to be read; `ChunkTemplate.read_chunks` is its compiled twin, which takes HTTP chunks as they
come from an engine and writes them for the client, in one pass.
"""

from __future__ import annotations

import re
from typing import Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from evenstep import compiled
from evenstep.engines.streams.template_kernel import CHANGES, read_chunks
from evenstep.late import change
from evenstep.request import I8

_IDS = re.compile(rb'"token_ids":\[(\d+)\]')
_COUNTS = re.compile(rb'"(total|completion)_tokens":(\d{1,18})(?!\d)')
#: Most bytes of one read of a connection for the compiled reader.
_LONGEST = 32 * 1024
_SPACE: NDArray[np.uint8] = np.zeros(8 * _LONGEST, np.uint8)
_HALF = _SPACE.size // 2
_BYTES = _SPACE.data
_read = compiled.entry(read_chunks)


class ChunkTemplate(msgspec.Struct, frozen=True, eq=False, gc=False):
    """The form of one stream's usual event.

    Args:
        prefix: bytes of the event up to its text.
        lead: bytes from the end of the text to its one token id; empty if no ids are reported.
        rest: bytes from there to the end of the event, as a ``%`` format with places for both counts.
        counts: number of counts in `rest`: 2 or 0.
        total_first: ``total_tokens`` comes before ``completion_tokens``.
        prompt_tokens: ``total_tokens`` minus ``completion_tokens``; 0 without counts.
        tail: the bytes for the client after the text; empty = as the engine sent them.
        pieces: `prefix`, `lead`, `rest` in three pieces around its counts, and `tail`.
        shape: for the compiled reader: `pieces`, concatenated.
        parts: int64[10]: the length of each piece, and four numbers, in the order of `template_kernel.PREFIX` on.
    """

    prefix: bytes
    lead: bytes
    rest: bytes
    counts: int
    total_first: bool
    prompt_tokens: int
    tail: bytes
    pieces: tuple[bytes, ...]
    shape: bytes
    parts: I8

    @classmethod
    def of(cls, pieces: tuple[bytes, ...], counts: int, total_first: bool, prompt_tokens: int, changes: bool) -> Self:
        """Make a template from its `pieces`. `changes` is True if the client gets other bytes than the engine sent."""
        prefix, lead, *ends, tail = pieces
        rest = b"%d".join([end.replace(b"%", b"%%") for end in ends]) if counts else ends[0]
        parts = np.array([*map(len, pieces), counts, total_first, prompt_tokens, changes], np.int64)
        return cls(prefix, lead, rest, counts, total_first, prompt_tokens, tail, pieces, b"".join(pieces), parts)

    def of_stream(self, prefix: bytes, prompt_tokens: int) -> Self:
        """The same template for another stream: with its `prefix`, and its `prompt_tokens` if events report counts."""
        _, lead, *ends, tail = self.pieces
        if not self.counts:
            prompt_tokens = 0
        elif prompt_tokens != self.prompt_tokens:
            before, now = (b'"prompt_tokens":%d,' % tokens for tokens in (self.prompt_tokens, prompt_tokens))
            ends = [end.replace(before, now) for end in ends]
        pieces, changes = (prefix, lead, *ends, tail), bool(self.parts[CHANGES])
        return self.of(pieces, self.counts, self.total_first, prompt_tokens, changes)

    @property
    def is_counted(self) -> bool:
        """True if events of this form report token ids or counts."""
        return bool(self.lead or self.counts)

    def read_chunks(self, data: bytes, count: int, kept: bytearray | None, is_framed: bool) -> tuple[int, int, bytes]:
        """Read HTTP chunks with their sizes, up to the first chunk that holds an event of another form or is not whole.

        Arguments and result are those of `read`; the length returned includes the sizes. Before compiled code is loaded, or
        for more than 32 KiB, it reads nothing and returns 0, `count` and no bytes. With `is_framed` the client's bytes are
        one HTTP chunk; else bare.
        """
        if not change.is_compiled or len(data) > _LONGEST:
            return 0, count, b""
        at, count, begin, end, stop = _read(data, 0, len(data), self.shape, self.parts, count, is_framed, _SPACE)
        if kept is not None:
            kept += _BYTES[_HALF:stop]
        return at, count, _BYTES[begin:end].tobytes()

    def read_all(self, data: bytes, count: int, kept: bytearray | None) -> tuple[int, int, bytes]:
        """Read all events of `data` as `read` does; 0, `count` and no bytes if one differs or `read_chunks` cannot read."""
        return self.read_chunks(b"%x\r\n%b\r\n" % (len(data), data), count, kept, is_framed=False)

    def read(self, data: bytes, count: int, kept: bytearray | None) -> tuple[int, int, bytes]:
        """Read the events at the start of `data`, up to the first that does not match; each counts one token.

        Args:
            data: bytes that begin with an event.
            count: tokens of the answer so far.
            kept: the text and the token id of each event are appended, each followed by a quote; None = not wanted.

        Returns:
            Their length in bytes, the tokens of the answer after them, and the bytes for the client.
        """
        prefix, lead, rest, tail = self.prefix, self.lead, self.rest, self.tail
        find, starts, size = data.find, data.startswith, len(prefix)
        at, number, out = 0, b"", b""
        while starts(prefix, at):
            text_end = find(b'"', at + size)
            text = data[at + size : text_end]
            try:
                if 92 in text or text_end < 0 or not text.decode().isprintable():
                    break
            except UnicodeDecodeError:
                break
            stop = text_end
            if lead:
                if not starts(lead, stop):
                    break
                start = stop + len(lead)
                stop = find(b"]", start)
                number = data[start:stop]
                if not number.isdigit() or (number[0] == 48 and len(number) > 1):
                    break
            end_of_it = rest
            if self.counts:
                total = self.prompt_tokens + count + 1
                end_of_it = rest % ((total, count + 1) if self.total_first else (count + 1, total))
            if not starts(end_of_it, stop):
                break
            count += 1
            if kept is not None:
                kept += b'%b"%b"' % (text, number)
            stop += len(end_of_it)
            out += data[at:text_end] + tail if tail else data[at:stop]
            at = stop
        return at, count, out


def learned(raw: bytes, out: bytes, content: str, chat: bool, is_counted: bool = True) -> ChunkTemplate | None:
    """The probable form of the events after this one; None if it cannot be derived.

    Args:
        raw: an event with one choice, as it came.
        out: the bytes that the client gets for the event.
        content: the event's parsed text.
        is_counted: the event reports token ids or counts; else tokens of such events are estimated from their texts.
    """
    key = b'"content":"' if chat else b'"text":"'
    if not raw.startswith(b'data: {"') or not raw.endswith(b"}\n\n") or raw.count(key) != 1:
        return None
    start = raw.index(key) + len(key)
    end = raw.find(b'"', start)
    text = raw[start:end]
    if 92 in text or text != content.encode() or not content.isprintable():
        return None
    lead, rest = b"", raw[end:]
    if ids := _IDS.search(rest):
        lead, rest = rest[: ids.start(1)], rest[ids.end(1) :]
    found = _COUNTS.findall(rest)
    if _COUNTS.search(lead) or len(found) not in (0, 2) or is_counted != bool(lead or found):
        return None
    counts = {name: int(value) for name, value in found}
    if found and len(counts) != 2:
        return None
    if out != raw and (not out.startswith(raw[:end]) or _COUNTS.search(out, end) or _IDS.search(out, end)):
        return None
    total_first = bool(found) and found[0][0] == b"total"
    prompt_tokens = counts[b"total"] - counts[b"completion"] if found else 0
    pieces = _COUNTS.split(rest)  # name and number of each count are between the pieces
    names = [b'"%b_tokens":' % name for name, _ in found] or [b"", b""]
    ends = [pieces[0] + names[0], pieces[3] + names[1], pieces[6]] if found else [rest, b"", b""]
    tail = b"" if out == raw else out[end:]
    return ChunkTemplate.of((raw[:start], lead, *ends, tail), len(found), total_first, prompt_tokens, out != raw)


def warm() -> None:
    """Load the compiled reader of `read_chunks`, or compile it, by reading one made-up event."""
    event = b'data: {"choices":[{"index":0,"text":" a","token_ids":[5]}]}\n\n'
    template = learned(event, event, " a", chat=False)
    assert template is not None
    template.read_chunks(b"%x\r\n%b\r\n" % (len(event), event), 0, None, is_framed=True)
