"""Decodes one chunk of a stream to the fields a router needs; other fields are only checked to be JSON."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import msgspec

from evenstep.errors import EngineError

#: The data of the event that ends a stream.
DONE = b"[DONE]"

_NOTHING = msgspec.Raw()
#: Largest token count accepted from an engine: no context is longer, and sums of such counts stay bounded.
Tokens: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=1 << 24)]


class CachedTokens(msgspec.Struct, gc=False):
    """The member ``prompt_tokens_details`` of a usage object."""

    cached_tokens: int | None = None


class Usage(msgspec.Struct, gc=False):
    """Token counts reported by an engine; in a chunk, those of its choice so far."""

    prompt_tokens: Tokens = 0
    completion_tokens: Tokens | None = 0
    prompt_tokens_details: CachedTokens | None = None


class Delta(msgspec.Struct, gc=False):
    """The content a chat chunk adds; `others` (tools, reasoning) cannot be joined to a prompt as text."""

    role: str | None = None
    content: str | None = None
    tool_calls: msgspec.Raw = _NOTHING
    function_call: msgspec.Raw = _NOTHING
    reasoning: str | None = None
    reasoning_content: str | None = None
    refusal: str | None = None

    @property
    def others(self) -> bool:
        """Whether the delta has more than content."""
        if self.reasoning or self.reasoning_content or self.refusal:
            return True
        return is_given(self.tool_calls) or is_given(self.function_call)


class Choice(msgspec.Struct, gc=False):
    """One choice of a chunk."""

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
        """The text that the choice adds."""
        if self.delta is not None:
            return self.delta.content or ""
        return self.text or ""


class Chunk(msgspec.Struct, gc=False):
    """One chunk, or an error in its place: it has ``error``, or its ``object`` is ``error``.

    ``choices`` is None if the key is missing.
    """

    choices: list[Choice] | None = None
    usage: Usage | None = None
    prompt_token_ids: msgspec.Raw = _NOTHING
    error: Any = None
    object: str | None = None


class Head(msgspec.Struct, gc=False):
    """The fields that all chunks of a stream share."""

    id: msgspec.Raw = _NOTHING
    created: msgspec.Raw = _NOTHING
    model: msgspec.Raw = _NOTHING
    system_fingerprint: msgspec.Raw = _NOTHING


_CHUNK = msgspec.json.Decoder(Chunk)
_HEAD = msgspec.json.Decoder(Head)


def read_chunk(data: bytes) -> Chunk:
    """Parse the data of one event other than ``[DONE]``.

    Raises:
        EngineError: not JSON, or a field of another type than the protocol's.
    """
    try:
        if not data.isascii():  # skipped texts are not validated either
            data.decode()
        return _CHUNK.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise EngineError(f"engine: a chunk of its stream cannot be read; expected JSON. {error}.") from None


def read_head(data: bytes) -> Head:
    """Id, time and model of a chunk that `read_chunk` has read, each as its bytes.

    Raises:
        EngineError: a key is no text.
    """
    try:
        return _HEAD.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise EngineError(f"engine: a chunk of its stream cannot be read; expected JSON. {error}.") from None


def is_given(value: msgspec.Raw) -> bool:
    """Whether a field is present, and neither null nor an empty list."""
    return bytes(value) not in {b"", b"null", b"[]"}


def is_silent(choices: list[Choice]) -> bool:
    """Whether a chat chunk, whose delta is empty, is there only for token ids: it has no end and no log probabilities."""
    choice = choices[0]
    return choice.finish_reason is None and choice.token_ids is not None and not is_given(choice.logprobs)


def is_role(choice: Choice) -> bool:
    """Whether this is the first chunk of a chat: a role, no text."""
    delta = choice.delta
    return delta is not None and bool(delta.role) and not choice.content and choice.finish_reason is None
