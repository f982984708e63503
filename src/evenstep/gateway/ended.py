"""What is known of a request when it is over: one value for the access log, the classes' targets and the traces.

There is no text of prompts or answers in it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

#: How a request ended. ``complete``: with all its tokens. ``error``: with an error, before or after its first token.
#: ``cancelled``: its client left. ``refused``: turned away before any engine was asked.
Outcome: TypeAlias = Literal["complete", "error", "cancelled", "refused"]


@dataclass(frozen=True, slots=True)
class Ended:
    """One request.

    Args:
        request_id: as the client or we called it.
        outcome: see `Outcome`.
        status: HTTP status the client saw; 0 = none.
        path: of the request, without query.
        model: served model; empty where it was turned away before that was known.
        tenant: who pays.
        request_class: number of its class.
        worker: the last one it was sent to; empty where it never was.
        prompt_tokens, output_tokens: as last counted.
        tries: legs that were sent for it.
        continued: whether it went on elsewhere after its first token.
        arrived_s, sent_s, first_s, ended_s: monotonic clock; its head, the last time it was sent to a worker, its first
            token, its end; nan = never.
        traceparent: W3C trace context as the client sent it; empty = none.
    """

    request_id: str
    outcome: Outcome
    status: int
    path: str = ""
    model: str = ""
    tenant: str = ""
    request_class: int = 0
    worker: str = ""
    prompt_tokens: int = 0
    output_tokens: int = 0
    tries: int = 0
    continued: bool = False
    arrived_s: float = math.nan
    sent_s: float = math.nan
    first_s: float = math.nan
    ended_s: float = math.nan
    traceparent: str = ""

    @property
    def ttft_s(self) -> float:
        """Seconds from its arrival to its first token; nan = there was none."""
        return self.first_s - self.arrived_s

    @property
    def tpot_s(self) -> float:
        """Seconds a further token; nan = there was none."""
        further = self.output_tokens - 1
        return (self.ended_s - self.first_s) / further if further > 0 else math.nan


#: Takes each request that is over; runs on the data path, so it is quick and never waits.
Sink: TypeAlias = Callable[[Ended], None]
