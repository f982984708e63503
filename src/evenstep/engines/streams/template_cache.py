"""Learns the form of one engine's streams, as a guess for the next one.

Streams of one kind differ in id, time and length of prompt. With these values replaced, the last stream's `ChunkTemplate`
fits from a stream's second event on. A wrong guess matches nothing, and the stream learns its own form: a byte-for-byte
comparison cannot misread an event.
"""

from __future__ import annotations

from collections.abc import Hashable

import msgspec
import numpy as np

from evenstep.engines.streams.first_chunk import FirstChunks
from evenstep.engines.streams.last_chunk import LastChunks
from evenstep.engines.streams.template import ChunkTemplate
from evenstep.engines.streams.template_kernel import PIECES, PROMPT, REST_0, TAIL

_MOST = 64  # kinds of streams that are known at once


class StreamTemplates:
    """Guesses the usual events of a stream from the last stream of the same kind.

    Attributes:
        starts: recognises their first chunks.
        ends: recognises their last chunks and usage events.
    """

    def __init__(self) -> None:
        self.starts, self.ends = FirstChunks(), LastChunks()
        self._usual: ChunkTemplate | None = None
        self._told, self._pieces = (b"", b""), list[bytes]()

    def keep(self, request_id: bytes, created: bytes, template: ChunkTemplate) -> None:
        """Learn from the usual events of a stream, in place of the stream before.

        Args:
            request_id, created: of the stream, as JSON; other values can replace them only if each occurs once, before the
                text.
        """
        told, prefix = _told(request_id, created), template.prefix
        if request_id and all(prefix.count(one) == 1 for one in told):
            ends = np.cumsum(template.parts[:PIECES]).tolist()
            self._pieces = [template.shape[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]
            self._told, self._usual = told, template

    def guess(self, request_id: bytes, created: bytes, prompt_tokens: int) -> ChunkTemplate | None:
        """The probable form of another stream's usual events: that of the last stream, with these values put in.

        None if nothing was learned, if the id is empty, or if events report counts and the prompt's tokens are unknown.

        Args:
            request_id, created: of the other stream, as JSON.
            prompt_tokens: of the other stream; -1 = not known yet.
        """
        last = self._usual
        if last is None or not request_id or (last.counts and prompt_tokens < 0):
            return None
        (last_id, last_created), (now_id, now_created) = self._told, _told(request_id, created)
        prefix = last.prefix.replace(last_id, now_id).replace(last_created, now_created)
        rest, parts, pieces = last.rest, last.parts.copy(), self._pieces.copy()
        pieces[0], parts[0] = prefix, len(prefix)
        if last.counts and prompt_tokens != last.prompt_tokens:
            before, now = (b'"prompt_tokens":%d,' % tokens for tokens in (last.prompt_tokens, prompt_tokens))
            rest = rest.replace(before, now)
            pieces[REST_0:TAIL] = [piece.replace(before, now) for piece in pieces[REST_0:TAIL]]
            parts[REST_0:TAIL] = [len(piece) for piece in pieces[REST_0:TAIL]]
            parts[PROMPT] = prompt_tokens
        return msgspec.structs.replace(
            last,
            prefix=prefix,
            rest=rest,
            prompt_tokens=prompt_tokens if last.counts else 0,
            shape=b"".join(pieces),
            parts=parts,
        )


class TemplateCache:
    """The recognisers of one engine's streams, by kind of stream: its dialect, protocol and options."""

    def __init__(self) -> None:
        self._of: dict[Hashable, StreamTemplates] = {}

    def of(self, kind: Hashable) -> StreamTemplates:
        """The recogniser of streams of this kind, new and empty at the first call. All are dropped before a 65th is made."""
        found = self._of.get(kind)
        if found is None:
            if len(self._of) >= _MOST:
                self._of.clear()
            found = self._of[kind] = StreamTemplates()
        return found


def _told(request_id: bytes, created: bytes) -> tuple[bytes, bytes]:
    return b'"id":%b,' % request_id, b'"created":%b,' % created
