"""Combines the token counts of a request that ran on several engines into those of one."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from evenstep.engines.streams import splice
from evenstep.engines.streams.chunks import Usage


@dataclass(frozen=True, slots=True)
class SoFar:
    """The part of a broken stream that reached the client, as needed to continue it."""

    request_id: bytes  # the ``id`` that the client has seen, as JSON; empty before the first chunk
    created: bytes  # the ``created`` time that the client has seen, as JSON; empty before the first chunk
    prompt_tokens: int  # tokens of the client's prompt; -1 if the engine has not reported them
    produced: int  # number of output tokens the client has. If it gets no token ids, a token counts once its text was sent.
    prompt_ids: bytes  # token ids of the prompt, as the engine's JSON list; empty if not reported
    ids: tuple[int, ...]  # the output as token ids; empty if not reported
    text: str  # the output as text
    plain: bool  # nothing but text has come (no tool call, no reasoning)
    #: the engine reported no counts, so events were counted, but an event carried several tokens: `produced` is too low
    bundled: bool = False


def joined(usage: bytes, before: SoFar) -> bytes:
    """The usage object (JSON) of a continued stream, with token counts as if one engine had run all of it.

    `usage` is the object of the last engine, whose prompt includes the earlier output. The prompt, completion and total
    counts are replaced; its other members stay.
    """
    told = msgspec.json.decode(usage, type=Usage)
    prompt = before.prompt_tokens if before.prompt_tokens >= 0 else told.prompt_tokens - before.produced
    completion = before.produced + (told.completion_tokens or 0)
    return splice.replaced(
        usage,
        {
            "prompt_tokens": b"%d" % prompt,
            "completion_tokens": b"%d" % completion,
            "total_tokens": b"%d" % (prompt + completion),
        },
        "engine",
    )


def rewritten(data: bytes, before: SoFar) -> bytes:
    """The chunk `data` of the next engine, with the id and time that the client has seen, and its usage `joined`."""
    spans = splice.members(data, "engine")
    seen = {"id": before.request_id, "created": before.created}
    changes: dict[str, bytes | None] = {name: value for name, value in seen.items() if name in spans and value}
    if "usage" in spans:
        value = data[spans["usage"][1] : spans["usage"][2]]
        if value != b"null":
            changes["usage"] = joined(value, before)
    return splice.replaced(data, changes, "engine")
