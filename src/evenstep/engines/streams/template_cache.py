"""Learns the form of one engine's streams, as a guess for the next one.

Streams of one kind differ in id, time and length of prompt. With these values replaced, the last stream's `ChunkTemplate`
fits from a stream's second event on. A wrong guess matches nothing, and the stream learns its own form: a byte-for-byte
comparison cannot misread an event.
"""

from __future__ import annotations

from collections.abc import Hashable

from evenstep.engines.streams.first_chunk import FirstChunks
from evenstep.engines.streams.last_chunk import LastChunks
from evenstep.engines.streams.template import ChunkTemplate

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
        self._told = b"", b""

    def keep(self, request_id: bytes, created: bytes, template: ChunkTemplate) -> None:
        """Learn from the usual events of a stream, in place of the stream before.

        Args:
            request_id, created: of the stream, as JSON; other values can replace them only if each occurs once, before the
                text.
        """
        told, prefix = _told(request_id, created), template.prefix
        if request_id and all(prefix.count(one) == 1 for one in told):
            self._told, self._usual = told, template

    def guess(self, request_id: bytes, created: bytes, prompt_tokens: int) -> ChunkTemplate | None:
        """The probable form of another stream's usual events: that of the last stream, with these values put in.

        None if nothing was learned, if the id is empty, or if events report counts and the prompt's tokens are unknown.

        Args:
            prompt_tokens: of the other stream; -1 = not known yet.
        """
        last = self._usual
        if last is None or not request_id or (last.counts and prompt_tokens < 0):
            return None
        (last_id, last_created), (now_id, now_created) = self._told, _told(request_id, created)
        return last.of_stream(last.prefix.replace(last_id, now_id).replace(last_created, now_created), prompt_tokens)


class TemplateCache(dict[Hashable, StreamTemplates]):
    """The recognisers of one engine's streams, by kind of stream: its dialect, protocol and options.

    One that is asked for and missing is made, empty; all others are dropped before a 65th is made.
    """

    def __missing__(self, kind: Hashable) -> StreamTemplates:
        if len(self) >= _MOST:
            self.clear()
        found = self[kind] = StreamTemplates()
        return found


def _told(request_id: bytes, created: bytes) -> tuple[bytes, bytes]:
    return b'"id":%b,' % request_id, b'"created":%b,' % created
