"""Learns the form of one engine's streams, as a guess for the next one.

Streams of one kind differ in id, time and length of prompt. With these values replaced, the last stream's `ChunkTemplate`
fits from a stream's second event on. A wrong guess matches no event, and the stream then learns its own form.
"""

from __future__ import annotations

from collections.abc import Hashable

from evenstep.engines.streams.first_chunk import FirstChunks
from evenstep.engines.streams.last_chunk import LastChunks
from evenstep.engines.streams.template import ChunkTemplate

_MOST = 64  # most kinds of streams known at once


class StreamTemplates:
    """Guesses events of a stream by the last stream of its kind: usual ones, first ones (`starts`), last ones (`ends`)."""

    def __init__(self) -> None:
        self.starts, self.ends = FirstChunks(), LastChunks()
        self._usual: ChunkTemplate | None = None
        self._told = b"", b""

    def keep(self, request_id: bytes, created: bytes, template: ChunkTemplate) -> None:
        """Learn the form of a stream's usual events, in place of the stream before.

        `request_id` and `created` of the stream are JSON. Nothing is learned unless each occurs once before the text.
        """
        told, prefix = _told(request_id, created), template.prefix
        if request_id and all(prefix.count(one) == 1 for one in told):
            self._told, self._usual = told, template

    def guess(self, request_id: bytes, created: bytes, prompt_tokens: int) -> ChunkTemplate | None:
        """Guess the form of another stream's usual events: the last stream's, with this id, time and prompt length.

        `request_id` and `created` are JSON. None if nothing was learned, if the id is empty, or if events report counts and
        `prompt_tokens` is -1 (not known yet).
        """
        last = self._usual
        if last is None or not request_id or (last.counts and prompt_tokens < 0):
            return None
        (last_id, last_created), (now_id, now_created) = self._told, _told(request_id, created)
        return last.of_stream(last.prefix.replace(last_id, now_id).replace(last_created, now_created), prompt_tokens)


class TemplateCache(dict[Hashable, StreamTemplates]):
    """The `StreamTemplates` of one engine, by kind of stream: its dialect, protocol and options.

    A missing one is made, empty, when it is asked for; all others are dropped before a 65th is made.
    """

    def __missing__(self, kind: Hashable) -> StreamTemplates:
        if len(self) >= _MOST:
            self.clear()
        found = self[kind] = StreamTemplates()
        return found


def _told(request_id: bytes, created: bytes) -> tuple[bytes, bytes]:
    """The members for id and time, as they stand in an event."""
    return b'"id":%b,' % request_id, b'"created":%b,' % created
