"""The last events of an answer whose engine was lost before it sent them."""

from __future__ import annotations

import msgspec

from evenstep.engines.streams.chunks import Head
from evenstep.engines.streams.usage import SoFar

_NULL = msgspec.Raw(b"null")


def closing(before: SoFar, *, chat: bool, model: str, usage: bool) -> bytes:
    """The events for the client that end an answer at its token limit: finish_reason ``length``, usage, ``[DONE]``.

    Args:
        before: the part that the client has, with id, time and counts for the events.
        model: the model's name, as the request has it.
        usage: the client asked for a usage object at the end; it gets none if no engine has reported the prompt's tokens.
    """
    told = (before.request_id or b'""', before.created or b"0", msgspec.json.encode(model))
    head = Head(*map(msgspec.Raw, told))
    text = {"delta": {}} if chat else {"text": ""}
    out = _event(head, chat, {"choices": [{"index": 0, **text, "logprobs": None, "finish_reason": "length"}]})
    if usage and before.prompt_tokens >= 0:
        out += usage_event(head, before.prompt_tokens, before.produced, chat=chat)
    return out + b"data: [DONE]\n\n"


def usage_event(head: Head, prompt_tokens: int, produced: int, *, chat: bool) -> bytes:
    """The event that reports the usage of a whole answer, with id, time and model of its chunks (`head`)."""
    usage = {"prompt_tokens": prompt_tokens, "total_tokens": prompt_tokens + produced, "completion_tokens": produced}
    return _event(head, chat, {"choices": [], "usage": usage})


def _event(head: Head, chat: bool, rest: dict[str, object]) -> bytes:
    """A server-sent event with the members of all chunks, from `head`, and those in `rest`."""
    kind = "chat.completion.chunk" if chat else "text_completion"
    told = {"id": head.id or _NULL, "object": kind, "created": head.created or _NULL, "model": head.model or _NULL}
    return b"data: " + msgspec.json.encode(told | rest) + b"\n\n"
