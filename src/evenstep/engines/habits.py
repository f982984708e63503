"""What one stream taught about its usual events, as a guess for the next stream of the same engine.

Streams of one kind differ in id, time and length of prompt. With these put in place of the last stream's, a `Quick` fits
from a stream's second event on. A guess that is wrong fits nothing, and the stream learns for itself: what is compared
byte for byte cannot be misread.
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from evenstep.engines.ends import Ends
from evenstep.engines.quick import Quick
from evenstep.engines.quick_kernel import PIECES, PROMPT, REST_0, TAIL

_MOST = 64  # kinds of streams that are known at once


class Habits:
    """How usual events of an engine's streams look, by kind of stream."""

    def __init__(self) -> None:
        self._found: dict[Hashable, tuple[bytes, bytes, Quick, list[bytes]]] = {}
        self._ends: dict[Hashable, Ends] = {}

    def ends(self, kind: Hashable) -> Ends:
        """How streams of this kind end."""
        found = self._ends.get(kind)
        if found is None:
            if len(self._ends) >= _MOST:
                self._ends.clear()
            found = self._ends[kind] = Ends()
        return found

    def keep(self, kind: Hashable, request_id: bytes, created: bytes, quick: Quick) -> None:
        """A stream of this kind looks so.

        Args:
            request_id, created: of the stream, as JSON; only where each is told once, in front of the text, can others be
                put in its place.
        """
        told, prefix = _told(request_id, created), quick.prefix
        if request_id and all(prefix.count(one) == 1 for one in told):
            if len(self._found) >= _MOST:
                self._found.clear()
            ends = np.cumsum(quick.parts[:PIECES]).tolist()
            shape = quick.shape.tobytes()
            pieces = [shape[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]
            self._found[kind] = (*told, quick, pieces)

    def guess(self, kind: Hashable, request_id: bytes, created: bytes, prompt_tokens: int) -> Quick | None:
        """How the usual events of another stream of this kind probably look; None where nobody knows.

        Args:
            prompt_tokens: -1 = not told yet.
        """
        found = self._found.get(kind)
        if found is None or not request_id:
            return None
        last_id, last_created, last, pieces = found
        if last.counts and prompt_tokens < 0:
            return None
        now_id, now_created = _told(request_id, created)
        prefix = last.prefix.replace(last_id, now_id).replace(last_created, now_created)
        rest, parts, pieces = last.rest, last.parts.copy(), [prefix, *pieces[1:]]
        if last.counts and prompt_tokens != last.prompt_tokens:
            before, now = (b'"prompt_tokens":%d,' % tokens for tokens in (last.prompt_tokens, prompt_tokens))
            rest = rest.replace(before, now)
            pieces[REST_0:TAIL] = [piece.replace(before, now) for piece in pieces[REST_0:TAIL]]
            parts[PROMPT] = prompt_tokens
        parts[:PIECES] = [len(piece) for piece in pieces]
        return Quick(
            prefix=prefix,
            lead=last.lead,
            rest=rest,
            counts=last.counts,
            total_first=last.total_first,
            prompt_tokens=prompt_tokens if last.counts else 0,
            tail=last.tail,
            shape=np.frombuffer(b"".join(pieces), np.uint8),
            parts=parts,
        )


def _told(request_id: bytes, created: bytes) -> tuple[bytes, bytes]:
    return b'"id":%b,' % request_id, b'"created":%b,' % created
