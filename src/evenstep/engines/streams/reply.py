"""A streamed answer on its way from engine to client, with shortcuts that give the same result as parsing in full.

Usual events are compared with those before them (`template`), the first and the last ones with those of earlier streams
(`first_chunk`, `last_chunk`); all others are parsed in full (`full_reply`).
"""

from __future__ import annotations

import re

from evenstep.engines.streams.chunks import Choice, Usage, read_head
from evenstep.engines.streams.first_chunk import Start
from evenstep.engines.streams.full_reply import DONE_EVENT, LONG, FullReply
from evenstep.engines.streams.last_chunk import told
from evenstep.engines.streams.sse import Event
from evenstep.engines.streams.template import ChunkTemplate, learned
from evenstep.engines.streams.usual_events import CHUNKED, FRAMED

#: As in `full_reply`, for texts without quotes that are separated by quotes.
_SEVERAL = re.compile(r'[^\s"]\s+[^\s"]')


class ReplyStream(FullReply):
    """One stream from one engine: as `FullReply`, with the same results, but usual events are compared, not parsed."""

    __slots__ = ()

    def feed(self, data: bytes) -> bytes:
        """Take bytes from the engine; returns the bytes for the client, whole events only, maybe empty. It never raises."""
        if self._over:
            return b""
        begun = b""
        if self._is_new:
            self._is_new = False
            begun, data = self._read_start(data)
            if not data:
                return begun
        template = self._template
        if template is None or not self._is_between or len(data) > self._limit:
            return begun + self._read(data)
        repeats = self._repeats and template.is_counted
        is_end = repeats and data.endswith(DONE_EVENT)
        at, out = self._read_end(template, data, 0) if is_end else (0, b"")
        if not at:
            if not self.finished:
                at, count, out = template.read(data, self._counted[0], texts := self._texts_of(template))
                self._passed(template, count, texts)
            if at < len(data) and repeats:
                at, more = self._read_end(template, data, at)
                out += more
        out = begun + out
        return out if at == len(data) else out + self._read(data[at:])

    def feed_chunks(self, data: bytes, is_framed: bool) -> tuple[int, bytes]:
        """Take whole HTTP chunks from the engine while their events match the stream's template.

        The caller passes the other bytes to `feed`, without the chunk sizes.

        Args:
            data: HTTP chunks with their sizes, from the start of a chunk.
            is_framed: return the client's bytes as one HTTP chunk; else bare.

        Returns:
            Number of bytes consumed, and the bytes for the client; 0 and empty without a matching chunk or a template.
        """
        template = self._template
        if template is None or not self._is_between or self.finished:
            return 0, b""
        form = FRAMED if is_framed else CHUNKED
        at, count, out = template.read(data, self._counted[0], texts := self._texts_of(template), form)
        self._passed(template, count, texts)
        return at, out

    def _texts_of(self, template: ChunkTemplate) -> bytearray | None:
        """The buffer to which `ChunkTemplate.read` shall append texts and ids of usual events; None = not wanted."""
        return self._kept if template.is_counted else bytearray()

    def _passed(self, template: ChunkTemplate, count: int, texts: bytearray | None) -> None:
        """Update the token counts after usual events: `count` is the answer's tokens by then.

        If the events report no tokens, these are estimated from `texts` instead; None or empty = no events.
        """
        counted = self._counted
        if not template.is_counted:
            count = counted[0] + (self._estimate_all(texts) if texts else 0)
        self.produced += count - counted[0]
        counted[0] = count

    def _estimate_all(self, texts: bytearray) -> int:
        """Estimated tokens of events without counts, by the `texts` that `ChunkTemplate.read` filled; kept for `so_far`."""
        if self._kept is not None:
            self._kept += texts
        said = [text for text in texts.split(b'""') if text]
        if not said:
            return 0
        self._bundled = self._bundled or _SEVERAL.search(texts.decode()) is not None
        return self._guess(len(said), sum(map(len, said)))

    def _read_start(self, data: bytes) -> tuple[bytes, bytes]:
        """Take a first event like an earlier stream's; returns the client's bytes of it, and the bytes after it.

        Its id, time and prompt, and a guess of the template, are kept. Returns empty bytes and `data` if it is unlike.
        """
        if not self._repeats or len(data) > min(LONG, self._limit):
            return b"", data
        assert self._templates is not None
        start = self._templates.starts.read(data)
        if start is None:
            return b"", data
        self._request_id, self._created, self._prompt_ids = start.request_id, start.created, start.prompt_ids
        self.prompt_tokens = start.prompt_tokens
        self._reader.passed()
        self._is_between = self._has_guessed = True
        self._template = self._templates.guess(start.request_id, start.created, start.prompt_tokens)
        return start.out, data[start.size :]

    def _read_end(self, template: ChunkTemplate, data: bytes, at: int) -> tuple[int, bytes]:
        """Take last events from `at` on that match earlier streams', as a full parse would: count them, end the answer.

        Returns the index after them (`at` if none matches), and the client's bytes of them.
        """
        assert self._templates is not None
        ends, out = self._templates.ends, b""
        if not self.finished:
            size, out = ends.last(template, data[at:], self._counted[0], self._kept)
            if not size:
                return at, b""
            at += size
            self._passed(template, self._counted[0] + 1, None)
            self._open.clear()
            self.finished = self._is_whole = True
            self._final = out[6:-2]
            if self._drop_final:
                out = self._stamped(out)
        if not self._is_told and at < len(data):
            raw, fingerprint = ends.usage(self._what_differs())
            if raw and data.startswith(raw, at):
                at += len(raw)
                self._is_told = True
                if self._drop_final:
                    self.fingerprint = fingerprint or self.fingerprint
                out += self._release() if self._drop_final else self._release() + raw
        if data[at:] == DONE_EVENT:
            at, out = len(data), out + self._ended(DONE_EVENT)
        return at, out

    def _what_differs(self) -> tuple[bytes, ...]:
        """The values of this stream in its usage event, by `last_chunk.told`."""
        return told(self._request_id, self._created, self.prompt_tokens, self.produced)

    def _each(self, events: list[Event]) -> bytes:
        """The bytes for the client of these events; after one that taught a template the others are compared at once."""
        out: list[bytes] = []
        known, place = self._template, 0
        while place < len(events):
            out.append(self._next(*events[place]))
            place += 1
            template = self._template
            if template is not None and template is not known and not (self._over or self.finished):
                known = template
                rest = b"".join([raw for raw, _ in events[place:]])
                _, count, more = template.read(rest, self._counted[0], texts := self._texts_of(template))
                place += count - self._counted[0]
                self._passed(template, count, texts)
                out.append(more)
        return b"".join(out)

    def _next(self, raw: bytes, data: bytes | None) -> bytes:
        """The bytes for the client of one event, compared with the template if one is known, else parsed in full."""
        template = self._template
        if template is None or self._over or self.finished:
            return self._take(raw, data)
        at, count, out = template.read(raw, self._counted[0], texts := self._texts_of(template))
        if not at:
            return self._take(raw, data)
        self._passed(template, count, texts)
        return out

    def _learn(self, raw: bytes, out: bytes, choice: Choice, has_usage: bool) -> None:
        """Learn the form of the next events from one that was parsed in full, or guess it from an earlier stream."""
        request_id, created = self._request_id, self._created
        if self._templates is not None and not self._has_guessed:
            self._has_guessed = True
            is_role_alone = choice.is_role and choice.stop_reason is None and self._plain
            if is_role_alone and not self.produced:
                start = Start(len(raw), request_id, created, self.prompt_tokens, self._prompt_ids, out)
                self._templates.starts.keep(raw, start)
            self._template = self._templates.guess(request_id, created, self.prompt_tokens)
            if self._template is not None:
                return
        content = choice.content
        if content and choice.stop_reason is None and not choice.others:
            self._lessons -= 1
            is_counted = has_usage or choice.token_ids is not None
            self._template = learned(raw, out, content, self._chat, is_counted)
            if self._template is not None and self._templates is not None:
                self._templates.keep(request_id, created, self._template)

    def _keep_last(self, raw: bytes, out: bytes, choice: Choice) -> None:
        """Learn the form of a last chunk that was parsed in full, for later streams."""
        if choice.stop_reason is None and not choice.others:
            assert self._templates is not None
            last = learned(raw, out, choice.content, self._chat)
            self._templates.ends.keep_last(self._template, last)

    def _keep_usage(self, raw: bytes, data: bytes, usage: Usage) -> None:
        """Learn the form of a usage event that was parsed in full, for later streams."""
        if (usage.prompt_tokens, usage.completion_tokens) == (self.prompt_tokens, self.produced):
            assert self._templates is not None
            fingerprint = bytes(read_head(data).system_fingerprint)
            self._templates.ends.keep_usage(raw, self._what_differs(), fingerprint)
