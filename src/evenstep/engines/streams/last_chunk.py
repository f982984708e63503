"""Recognises the last chunk of a stream and its usage event, by those of earlier streams of the same kind.

Both equal earlier ones except for id, time, text, token and counts; all of these but text and token are known in advance. So
they are compared, not parsed; a full parse would find the same values, since all other bytes are equal. An event that does
not match is parsed in full.
"""

from __future__ import annotations

from evenstep.engines.streams.template import ChunkTemplate

_MOST = 8  # most forms of last chunks known at once


class LastChunks:
    """Recognises the last chunk and the usage event of an engine's streams of one kind."""

    def __init__(self) -> None:
        self._lasts: dict[tuple[bytes, ...], ChunkTemplate] = {}
        self._usage, self._order, self._fingerprint = b"", list[int](), b""  # the event as a format, its values' order

    def keep_last(self, usual: ChunkTemplate | None, last: ChunkTemplate | None) -> None:
        """Learn from the last chunk of a stream; up to 8 forms are known at once.

        `usual` is the form of the stream's other chunks, `last` that of its last chunk. Nothing is learned if one is None,
        or if their bytes before the text differ.
        """
        if usual is not None and last is not None and usual.prefix == last.prefix:
            if len(self._lasts) >= _MOST:
                self._lasts.clear()
            self._lasts[last.of_stream(b"", 0).pieces] = last.of_stream(b"", last.prompt_tokens)

    def last(self, usual: ChunkTemplate, data: bytes, count: int, kept: bytearray | None) -> tuple[int, bytes]:
        """Recognise a stream's last chunk at the start of `data`, by earlier streams; a usage event after it is left unread.

        Args:
            usual: form of the events before it.
            data: bytes that begin with an event.
            count: tokens of the answer so far; counts in the chunk must be one higher.
            kept: text and token id of the chunk are appended, as by `ChunkTemplate.read`; None = not wanted.

        Returns:
            Size of the chunk's event in bytes, and the bytes for the client; 0 and empty bytes if none matches.
        """
        prefix = usual.prefix
        if data.startswith(prefix):
            stop = data.find(b"\n\n", len(prefix)) + 2
            event = data[len(prefix) : stop]
            for last in self._lasts.values():
                if last.counts and last.prompt_tokens != usual.prompt_tokens:
                    last = last.of_stream(b"", usual.prompt_tokens)
                at, _, out = last.read(event, count, kept)
                if at:
                    return stop, prefix + out
        return 0, b""

    def keep_usage(self, raw: bytes, told: tuple[bytes, ...], fingerprint: bytes) -> None:
        """Learn the form of a usage event.

        Args:
            told: values in the event, as the function `told` gives them; nothing is learned unless each occurs once in it.
            fingerprint: ``system_fingerprint`` of the event, as JSON.
        """
        if raw.startswith(b"data: {") and raw.endswith(b"}\n\n") and all(raw.count(one) == 1 for one in told):
            usage, self._order = raw.replace(b"%", b"%%"), sorted(range(len(told)), key=lambda i: raw.index(told[i]))
            for one in told:
                usage = usage.replace(one.replace(b"%", b"%%"), b"%b")
            self._usage, self._fingerprint = usage, fingerprint

    def usage(self, told: tuple[bytes, ...]) -> tuple[bytes, bytes]:
        """The probable usage event of a stream with the values `told`, to be compared with the bytes that come.

        Returns:
            The event and its ``system_fingerprint`` as JSON; both are empty if no form is known yet.
        """
        return self._usage % tuple([told[i] for i in self._order]), self._fingerprint


def told(request_id: bytes, created: bytes, prompt_tokens: int, produced: int) -> tuple[bytes, ...]:
    """The five members of a usage event that differ from stream to stream, as bytes.

    These are id and created (given as JSON), prompt_tokens, total_tokens (the sum) and completion_tokens (`produced`).
    """
    return (
        b'"id":%b,' % request_id,
        b'"created":%b,' % created,
        b'"prompt_tokens":%d,' % prompt_tokens,
        b'"total_tokens":%d' % (prompt_tokens + produced),
        b'"completion_tokens":%d' % produced,
    )
