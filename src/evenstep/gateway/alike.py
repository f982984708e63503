"""Requests that are alike: the next one is known by what the last one said around its prompt.

The last one is that of the same connection; of a new one, that of any other. A client writes the same head and the same
members of a body around prompt after prompt. Two requests whose bytes agree in front of the length, from the length to the
prompt, and behind the prompt, and whose prompts are one JSON value of one kind each, differ in length and prompt alone: what
was made of the one holds for the other.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from evenstep.engines.requests import Frame, GenerationRequest
from evenstep.gateway.asking import Asking
from evenstep.gateway.heads import DIGITS, Heads, length_at
from evenstep.gateway.sections import Limits

_DECODE = msgspec.json.Decoder(msgspec.Raw).decode
_CLOSINGS = b'"', b"]"
_LONGEST = 2048  # bytes around a prompt, head included


@dataclass(frozen=True, slots=True)
class Alike:
    """What a request says beside its length and its prompt.

    Args:
        heads: the memory its head was read by; what follows from a head holds as long as that is in use.
        body_bytes: the longest body that is allowed.
        before: its head up to the digits of its length.
        after: from behind these digits to its prompt.
        head_more: bytes of `after` that are of the head.
        behind: what is behind its prompt.
        opening: how its prompt begins: ``"`` or ``[{``.
        asking: what follows from its head.
        frame: what its body says beside its prompt.
    """

    heads: Heads[Asking]
    body_bytes: int
    before: bytes
    after: bytes
    head_more: int
    behind: bytes
    opening: bytes
    asking: Asking
    frame: Frame

    def split(self, data: bytes) -> tuple[bytes, bytes] | None:
        """Body and prompt of bytes that are one whole request like this; None where they are anything else."""
        before, after, behind, size = self.before, self.after, self.behind, len(data)
        start = len(before)
        stop = data.find(b"\r", start, start + DIGITS + 1)
        if not (data.startswith(after, stop) and data.endswith(behind) and data.startswith(before)):
            return None
        digits, at = data[start:stop], stop + self.head_more
        if not digits.isdigit() or int(digits) != size - at or size - at > self.body_bytes:
            return None
        prompt = data[stop + len(after) : size - len(behind)]
        if not prompt.startswith(self.opening) or not prompt.endswith(_CLOSINGS):
            return None
        try:
            _DECODE(prompt)
            if not prompt.isascii():
                prompt.decode()
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None  # not one JSON value, or no UTF-8
        return data[at:], prompt


def alike_of(
    head: bytes, request: GenerationRequest, asking: Asking, heads: Heads[Asking], limits: Limits
) -> Alike | None:
    """By what to know requests like this one; None where more than length and prompt will differ.

    Args:
        head: its head.
        request: what was made of its body.
        asking: what follows from its head.
        heads: the memory by which it was read.
        limits: what is allowed while that is in use.
    """
    place, opening = length_at(head), b"[{" if request.chat else b'"'
    if asking.name or place is None or not request.prompt.startswith(opening):
        return None
    at, stop = place
    _, begin, end = request.fields["messages" if request.chat else "prompt"]
    after, behind = head[stop:] + request.body[:begin], request.body[end:]
    if at + len(after) + len(behind) > _LONGEST or len(head) + DIGITS > limits.head_bytes:
        return None
    return Alike(
        heads, limits.body_bytes, head[:at], after, len(head) - stop, behind, opening, asking, request.frame
    )
