"""Decodes one chunk of a stream to the fields a router needs; other fields are only checked to be JSON."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import msgspec

from evenstep.errors import EngineError

#: The data of the event that ends a stream.
DONE = b"[DONE]"
#: finish_reasons of a choice that the engine gave up.
GAVE_UP = frozenset(("abort", "error"))

_NOTHING = msgspec.Raw()
#: Largest token count accepted from an engine: no context is longer, and sums of such counts stay bounded.
Tokens: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=1 << 24)]


class Usage(msgspec.Struct, gc=False):
    """Token counts of an engine: in a chunk with choices those of its choice so far, at the end those of all choices.

    A count below 0 or above 2**24 is invalid.
    """

    prompt_tokens: Tokens = 0
    completion_tokens: Tokens | None = 0


class Delta(msgspec.Struct, gc=False):
    """The part of the message that a chat chunk adds. Only `content` can be appended to a prompt as text."""

    role: str | None = None
    content: str | None = None
    tool_calls: msgspec.Raw = _NOTHING
    function_call: msgspec.Raw = _NOTHING
    reasoning: str | None = None
    reasoning_content: str | None = None
    refusal: str | None = None


class Choice(msgspec.Struct, gc=False):
    """One choice of a chunk: `text` in a completion, `delta` in a chat.

    `finish_reason` is None until the choice ends. `token_ids` are the new output tokens, None = not reported. A `Raw` field
    is the value's JSON, empty if the key is missing.
    """

    index: int = 0
    text: str | None = None
    delta: Delta | None = None
    finish_reason: str | None = None
    stop_reason: int | str | None = None
    token_ids: list[int] | None = None
    prompt_token_ids: msgspec.Raw = _NOTHING
    logprobs: msgspec.Raw = _NOTHING

    @property
    def content(self) -> str:
        """The text that the choice adds, from `delta` in a chat, else from `text`; empty if it adds no text."""
        return (self.text if self.delta is None else self.delta.content) or ""

    @property
    def others(self) -> bool:
        """True if its delta has reasoning, a refusal, or a tool or function call; a role does not count."""
        delta = self.delta
        if delta is None or delta.reasoning or delta.reasoning_content or delta.refusal:
            return delta is not None
        return is_given(delta.tool_calls) or is_given(delta.function_call)

    @property
    def is_silent(self) -> bool:
        """True if it has token ids, but no finish_reason or log probabilities; the caller checks that its delta is empty."""
        return self.finish_reason is None and self.token_ids is not None and not is_given(self.logprobs)

    @property
    def is_role(self) -> bool:
        """True if its delta has a role but no text, and it has no finish_reason, as in the first chunk of a chat."""
        return bool(self.delta and self.delta.role) and not self.content and self.finish_reason is None


class Chunk(msgspec.Struct, gc=False):
    """One chunk of a stream, or an error in place of a chunk: then ``error`` is given, or ``object`` is ``error``.

    ``choices`` is None if the key is missing; an empty list comes with the usage at the end.
    """

    choices: list[Choice] | None = None
    usage: Usage | None = None
    prompt_token_ids: msgspec.Raw = _NOTHING
    error: Any = None
    object: str | None = None


class Head(msgspec.Struct, gc=False):
    """The fields that all chunks of a stream share, each as its JSON; empty if the key is missing."""

    id: msgspec.Raw = _NOTHING
    created: msgspec.Raw = _NOTHING
    model: msgspec.Raw = _NOTHING
    system_fingerprint: msgspec.Raw = _NOTHING


_CHUNK = msgspec.json.Decoder(Chunk)
_HEAD = msgspec.json.Decoder(Head)


def read_chunk(data: bytes) -> Chunk:
    """Parse the data of one event other than ``[DONE]``; an error object is returned as a `Chunk`, not raised.

    Raises:
        EngineError: the data is not UTF-8 or not a JSON object, or a field has another type or range than in the protocol.
    """
    try:
        if not data.isascii():  # skipped texts are not validated either
            data.decode()
        return _CHUNK.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise EngineError(f"engine: a chunk of its stream cannot be read; expected JSON. {error}.") from None


def read_head(data: bytes) -> Head:
    """Id, time, model and fingerprint of a chunk that `read_chunk` has accepted, each as its JSON.

    Raises:
        EngineError: the chunk is not a JSON object, or one of its keys is not valid text.
    """
    try:
        return _HEAD.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise EngineError(f"engine: a chunk of its stream cannot be read; expected JSON. {error}.") from None


def is_given(value: msgspec.Raw) -> bool:
    """True if a field is present, and neither null nor an empty list."""
    return bytes(value) not in {b"", b"null", b"[]"}
