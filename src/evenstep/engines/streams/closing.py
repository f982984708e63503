"""Ends an answer whose engine was lost between its last token and the final event."""

from __future__ import annotations

import msgspec

from evenstep.engines.streams.usage import SoFar


def closing(before: SoFar, *, chat: bool, model: str, usage: bool) -> bytes:
    """The events for the client that end an answer at its token limit: finish_reason ``length``, usage, ``[DONE]``.

    Args:
        before: the part that the client has; id, time and counts of the events are taken from it.
        chat: chat completions, else completions.
        model: the model's name, as the request has it.
        usage: the client asked for a usage object at the end.
    """
    choice = {
        "index": 0,
        **({"delta": {}} if chat else {"text": ""}),
        "logprobs": None,
        "finish_reason": "length",
    }
    out = _event(before, chat, model, {"choices": [choice]})
    if usage:
        prompt = max(0, before.prompt_tokens)
        counts = {
            "prompt_tokens": prompt,
            "total_tokens": prompt + before.produced,
            "completion_tokens": before.produced,
        }
        out += _event(before, chat, model, {"choices": [], "usage": counts})
    return out + b"data: [DONE]\n\n"


def _event(before: SoFar, chat: bool, model: str, rest: dict[str, object]) -> bytes:
    head = {
        "id": msgspec.Raw(before.request_id or b'""'),
        "object": "chat.completion.chunk" if chat else "text_completion",
        "created": msgspec.Raw(before.created or b"0"),
        "model": model,
    }
    return b"data: " + msgspec.json.encode(head | rest) + b"\n\n"
