"""A streamed answer on its way from an engine to a client, read the shortest way that finds what reading in full would find.

Usual events are compared with those before them (`quick`), the last ones with those of earlier streams (`ends`); all others
are read in full (`full_reply`).
"""

from __future__ import annotations

from evenstep.engines.chunks import Choice, Usage, read_head
from evenstep.engines.ends import told
from evenstep.engines.full_reply import DONE_EVENT, LESSONS, FullReply
from evenstep.engines.quick import Quick, learned
from evenstep.engines.sse import Event


class ReplyStream(FullReply):
    """One stream from one engine; see `FullReply`."""

    def feed(self, data: bytes) -> bytes:
        """Bytes from the engine; what the client gets for them, whole events only."""
        if self._over:
            return b""
        quick = self._quick
        if quick is None or not self._is_between or len(data) > self._limit:
            return self._read(data)
        at, out = 0, b""
        if not self.finished:
            at, count, out = quick.read(data, self._counted[0], self._kept)
            self.passed(count, b"")
        if at < len(data) and self._repeats:
            at, more = self._read_end(quick, data, at)
            out += more
        return out if at == len(data) else out + self._read(data[at:])

    def feed_chunks(self, data: bytes, is_framed: bool) -> tuple[int, bytes]:
        """HTTP chunks of the engine, as long as what is in them is usual; the rest is for `feed`, without its chunks.

        Args:
            is_framed: what the client gets is an HTTP chunk, too.

        Returns:
            Bytes that were read, and what the client gets for them.
        """
        quick = self._quick
        if quick is None or not self._is_between or self.finished:
            return 0, b""
        counted = self._counted
        at, count, out = quick.read_chunks(data, counted[0], self._kept, is_framed)
        self.produced += count - counted[0]
        counted[0] = count
        return at, out

    @property
    def usual(self) -> Quick | None:
        """How the next event probably looks; None where nobody can tell."""
        return self._quick if self._is_between and not self.finished else None

    @property
    def is_known(self) -> bool:
        """Whether earlier streams have shown how the next event looks."""
        return self.usual is not None and self._lessons == LESSONS

    @property
    def counted(self) -> int:
        """Output tokens of its first choice."""
        return self._counted[0]

    @property
    def keeps(self) -> bool:
        """Whether text and ids of usual events are kept."""
        return self._kept is not None

    def passed(self, count: int, kept: bytes) -> None:
        """Usual events were read elsewhere, by `quick_kernel.read_chunks`.

        Args:
            count: output tokens of its first choice by now.
            kept: their texts and ids.
        """
        self.produced += count - self._counted[0]
        self._counted[0] = count
        if self._kept is not None:
            self._kept += kept

    def _read_end(self, quick: Quick, data: bytes, at: int) -> tuple[int, bytes]:
        """The last events of the stream, from `at` on, as far as they are like those of earlier streams.

        Returns:
            Where they end, and what the client gets.
        """
        assert self._habits is not None
        ends, out = self._habits.ends(self._kind), b""
        if not self.finished:
            size, out = ends.last(quick, data[at:], self._counted[0], self._kept)
            if not size:
                return at, b""
            at += size
            self.passed(self._counted[0] + 1, b"")
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
        return told(self._request_id, self._created, self.prompt_tokens, self.produced)

    def _each(self, events: list[Event]) -> bytes:
        """What the client gets for events: those behind one that was read in full may all be usual ones."""
        out: list[bytes] = []
        known, last = self._quick, len(events) - 1
        for place, (raw, payload) in enumerate(events):
            out.append(self._next(raw, payload))
            quick = self._quick
            if (
                quick is not None
                and quick is not known
                and place < last
                and not (self._over or self.finished)
            ):
                known = quick
                rest = b"".join([raw for raw, _ in events[place + 1 :]])
                read, count, more = quick.read_all(rest, self._counted[0], self._kept)
                if read:
                    self.passed(count, b"")
                    out.append(more)
                    break
        return b"".join(out)

    def _next(self, raw: bytes, data: bytes | None) -> bytes:
        """An event: a usual one needs not be read in full."""
        quick = self._quick
        if quick is None or self._over or self.finished:
            return self._take(raw, data)
        at, count, out = quick.read(raw, self._counted[0], self._kept)
        if not at:
            return self._take(raw, data)
        self.passed(count, b"")
        return out

    def _learn(self, raw: bytes, out: bytes, choice: Choice) -> None:
        """From an event that was read in full, how the next ones probably look."""
        request_id, created = self._request_id, self._created
        if self._habits is not None and not self._has_guessed:
            self._has_guessed = True
            self._quick = self._habits.guess(self._kind, request_id, created, self.prompt_tokens)
            if self._quick is not None:
                return
        content = choice.content
        if content and choice.stop_reason is None and not (choice.delta and choice.delta.others):
            self._lessons -= 1
            self._quick = learned(raw, out, content, self._chat)
            if self._quick is not None and self._habits is not None:
                self._habits.keep(self._kind, request_id, created, self._quick)

    def _keep_last(self, raw: bytes, out: bytes, choice: Choice) -> None:
        """From a last chunk that was read in full, how those of later streams probably look."""
        if choice.stop_reason is None and not (choice.delta and choice.delta.others):
            assert self._habits is not None
            last = learned(raw, out, choice.content, self._chat)
            self._habits.ends(self._kind).keep_last(self._quick, last)

    def _keep_usage(self, raw: bytes, data: bytes, usage: Usage) -> None:
        """From an event with the usage that was read in full, how those of later streams probably look."""
        counts = usage.prompt_tokens, usage.completion_tokens
        if usage.prompt_tokens_details is None and counts == (self.prompt_tokens, self.produced):
            assert self._habits is not None
            fingerprint = bytes(read_head(data).system_fingerprint)
            self._habits.ends(self._kind).keep_usage(raw, self._what_differs(), fingerprint)
