"""Recognises the first chunk of a stream, in a chat the role, by those of earlier streams of the same kind.

It equals earlier ones except for id, time, and the prompt's token ids and their number. So it is compared, not parsed; a
full parse would find the same values, since all other bytes are equal. A chunk that does not match is parsed in full.
"""

from __future__ import annotations

import re

import msgspec

_NUMBER = rb"0|[1-9]\d{0,14}+"
_TOKENS = rb"0|[1-9]\d{0,6}+"  # below the maximum of `chunks.Tokens`
#: Values that differ from stream to stream: the format of the member, and the pattern of its value.
_OPEN = {
    "id": (b'"id":%b,', rb'(?P<id>"[ !#-\[\]-~]*+")'),
    "created": (b'"created":%b,', b"(?P<created>%b)" % _NUMBER),
    "tokens": (b'"prompt_tokens":%b,', b"(?P<tokens>%b)" % _TOKENS),
    "total": (b'"total_tokens":%b', b"(?P=tokens)"),
    "ids": (b'"prompt_token_ids":%b', rb"(?P<ids>\[[\d, ]++\])"),
}
_JSON = msgspec.json.Decoder(msgspec.Raw)


class Start(msgspec.Struct, frozen=True, gc=False):
    """The first chunk of a stream; it carries no output token."""

    size: int  # length of its event in bytes, the empty line included
    request_id: bytes  # the stream's ``id``, as JSON
    created: bytes  # the stream's ``created`` time, as JSON
    prompt_tokens: int  # tokens of the prompt; -1 = not reported
    prompt_ids: bytes  # token ids of the prompt, a JSON list; empty = not reported
    out: bytes  # the bytes for the client


class FirstChunks:
    """Recognises the first chunk of an engine's streams of one kind, by the form that it learned last."""

    def __init__(self) -> None:
        self._pattern: re.Pattern[bytes] | None = None
        self._out = b""  # a format for the client's bytes; empty = the engine's bytes

    def keep(self, raw: bytes, start: Start) -> None:
        """Learn the form of a first chunk, in place of the one before; `start` is the result of its full parse.

        Nothing is learned from an event of several lines, without an id, or in which a value that differs from stream to
        stream occurs more than once.
        """
        prompt = b"%d" % start.prompt_tokens if start.prompt_tokens >= 0 else b""
        values = start.request_id, start.created, prompt, prompt, start.prompt_ids
        told = {name: _OPEN[name][0] % value for name, value in zip(_OPEN, values, strict=True) if value}
        is_plain = raw.find(b"\n") == len(raw) - 2 and raw.startswith(b"data: ") and b"\r" not in raw
        if not is_plain or "id" not in told or any(raw.count(text) != 1 for text in told.values()):
            return
        before = self._pattern, self._out
        pattern, out = re.escape(raw), start.out.replace(b"%", b"%%")
        for name, text in told.items():
            key, value = _OPEN[name]
            pattern = pattern.replace(re.escape(text), re.escape(key) % value)
            out = out.replace(text, key % b"%%(%b)b" % name.encode())
        lacking = b"".join(b"(?P<%b>)" % name.encode() for name in _OPEN if name not in told and name != "total")
        try:
            self._pattern, self._out = re.compile(pattern + lacking), b"" if start.out == raw else out
        except re.error:  # the total comes before the value it is compared with
            return
        if self.read(raw) != start:
            self._pattern, self._out = before

    def read(self, data: bytes) -> Start | None:
        """Parse the first chunk at the start of `data`; None if no form is known or these bytes have another form.

        The chunk may differ from the learned one only in id, time, and the prompt's token ids and their number.
        """
        found = self._pattern.match(data) if self._pattern is not None else None
        if found is None:
            return None
        request_id, created, tokens, ids = found.group("id", "created", "tokens", "ids")
        if ids:
            try:
                _JSON.decode(ids)
            except msgspec.MsgspecError:
                return None
        out = found[0]
        if self._out:
            told = {b"id": request_id, b"created": created, b"tokens": tokens, b"total": tokens, b"ids": ids}
            out = self._out % told
        return Start(found.end(), request_id, created, int(tokens) if tokens else -1, ids, out)
