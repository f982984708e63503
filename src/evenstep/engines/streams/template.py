"""A fast path for the usual event of a stream: it equals the previous one except for its text, token and counts.

A `ChunkTemplate` is learned from an event that was parsed in full. It holds the bytes around the text, the token id and the
counts, and the bytes for the client. One token later the counts are known in advance, so a matching event is compared, not
parsed. A full parse would find the same values, since all other bytes are equal. An event that does not match is parsed in
full; so are all events until compiled code is loaded.
"""

from __future__ import annotations

import re
from typing import Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from evenstep import compiled
from evenstep.engines.streams.usual_events import BARE, CHANGES, read_events
from evenstep.late import change
from evenstep.request import I8

_IDS = re.compile(rb'"token_ids":\[(\d+)\]')
_COUNTS = re.compile(rb'"(total|completion)_tokens":(\d{1,18})(?!\d)')
#: Most bytes that are read at once.
_LONGEST = 32 * 1024
_SPACE: NDArray[np.uint8] = np.zeros(8 * _LONGEST, np.uint8)
_HALF = _SPACE.size // 2
_BYTES = _SPACE.data
_read = compiled.entry(read_events)


class ChunkTemplate(msgspec.Struct, frozen=True, eq=False, gc=False):
    """The form of one stream's usual event."""

    #: the bytes of the event up to its text; from the text's end to its one token id (empty without ids); from there to the
    #: end, in three pieces around both counts (without counts, all are in the first); and the bytes for the client after the
    #: text (empty = as the engine sent them)
    pieces: tuple[bytes, ...]
    counts: int  # number of counts: 2 or 0
    total_first: bool  # ``total_tokens`` comes before ``completion_tokens``
    prompt_tokens: int  # ``total_tokens`` minus ``completion_tokens``; 0 without counts
    is_counted: bool  # events of this form report token ids or counts
    shape: bytes  # `pieces`, concatenated
    parts: I8  # int64[10]: the length of each piece, and four numbers, in the order of `usual_events.PREFIX` on

    @classmethod
    def of(cls, pieces: tuple[bytes, ...], counts: int, total_first: bool, prompt_tokens: int, changes: bool) -> Self:
        """Make a template from its `pieces`. `changes` is True if the client gets other bytes than the engine sent."""
        parts = np.array([*map(len, pieces), counts, total_first, prompt_tokens, changes], np.int64)
        is_counted = bool(pieces[1] or counts)
        return cls(pieces, counts, total_first, prompt_tokens, is_counted, b"".join(pieces), parts)

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
    def prefix(self) -> bytes:
        """The bytes of an event up to its text."""
        return self.pieces[0]

    def read(self, data: bytes, count: int, kept: bytearray | None, form: int = BARE) -> tuple[int, int, bytes]:
        """Read the events at the start of `data`, up to the first that does not match; each counts one token.

        Until compiled code is loaded it reads nothing. It reads at most 32 KiB.

        Args:
            data: bytes that begin with an event, or with the size of an HTTP chunk.
            count: tokens of the answer so far.
            kept: the text and the token id of each event are appended, each followed by a quote; None = not wanted.
            form: bare events (`BARE`), or whole HTTP chunks that hold nothing else, with the client's bytes bare (`CHUNKED`)
                or as one HTTP chunk (`FRAMED`).

        Returns:
            The length in bytes that was read, the tokens of the answer after it, and the bytes for the client; 0, `count`
            and no bytes if nothing was read.
        """
        if not change.is_compiled:
            return 0, count, b""
        size = len(data) if len(data) < _LONGEST else _LONGEST
        at, count, begin, end, stop = _read(data, 0, size, form, self.shape, self.parts, count, _SPACE)
        if kept is not None:
            kept += _BYTES[_HALF:stop]
        return at, count, _BYTES[begin:end].tobytes()


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
    """Load or compile `usual_events.read_events`, by reading one made-up event."""
    event = b'data: {"choices":[{"index":0,"text":" a","token_ids":[5]}]}\n\n'
    template = learned(event, event, " a", chat=False)
    assert template is not None
    template.read(event, 0, None)
