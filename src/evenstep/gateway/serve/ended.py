"""The summary of a finished request: one value for the access log, the classes' targets and the traces.

It contains no text of prompts or answers.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Literal, TypeAlias

import msgspec

from evenstep.dispatch.log.meters import tpot_s
from evenstep.gateway.connections.request_context import RequestContext

#: How a request ended. ``complete``: with all its tokens. ``error``: with an error, before or after its first token, also if
#: no engine was free in time. ``cancelled``: its client left. ``refused``: for its key, form or size, or at a limit.
Outcome: TypeAlias = Literal["complete", "error", "cancelled", "refused"]


class Ended(msgspec.Struct, gc=False):
    """The summary of a request that ended, for logs, spans and classes; a `Story` fills it in, and sinks only read it.

    Args:
        request_id: the id given by the client, or ours.
        outcome: ``complete``, ``error``, ``cancelled`` or ``refused``; see `Outcome`.
        status: HTTP status the client saw, that of its head if a stream broke off; 0 = it saw no answer.
        path: of the request, without query.
        model: the model it asks for, as written, but of one that is unknown 120 characters at most; empty if it names none,
            or was refused before it was read.
        tenant: the tenant to charge.
        request_class: number of its class, from 1; 0 = no class.
        worker: the last worker it was sent to; empty if it was never sent.
        prompt_tokens, output_tokens: as an engine counted them; without a count, the prompt's as estimated, and 0.
        tries: legs begun for it, those to prefillers included.
        continued: whether a further leg began after its first token.
        arrived_s: monotonic time at which it was read whole, in seconds. This and the times below are nan if it never
            happened.
        sent_s: of its last dispatch to a worker.
        first_s: of its first token, or of its whole answer.
        ended_s: of its end.
        traceparent: W3C trace context as the client sent it; empty = it sent no header.
        class_name: name of its class when it came; empty = no class.
        sequences: number of sequences that its answer streams side by side; 0 = the answer does not stream.
        method: of HTTP.
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
    class_name: str = ""
    sequences: int = 1
    method: str = "POST"

    @property
    def ttft_s(self) -> float:
        """Seconds from arrival to the first token, or to the end of an answer that does not stream; nan if neither came."""
        return self.first_s - self.arrived_s

    @property
    def tpot_s(self) -> float:
        """Seconds per further token of each sequence, as `meters.tpot_s` computes them from the first token to the end."""
        return tpot_s(self.ended_s - self.first_s, self.output_tokens, self.sequences)


#: Takes each request that is over; runs on the data path, so it is quick and never waits.
Sink: TypeAlias = Callable[[Ended], None]


class Story:
    """Notes about a running request; kept only while a sink is present. Call `ended` once; then the sinks get `told`.

    Args:
        sinks: take the summary at the end.
        name: its id.
        context: its head and what follows from it.
        arrived_s: arrival time, in seconds of `time.monotonic`.
        model: the model it asks for; empty if unknown.
        prompt_tokens: as estimated.
        request_class: number of its class, for a token generation; 0 = no class.
        sequences: as in `Ended`.

    Attributes:
        told: the summary so far; set its ``prompt_tokens`` once an engine counts them, and ``output_tokens`` before `ended`.
    """

    __slots__ = ("_sinks", "told")

    def __init__(
        self,
        sinks: tuple[Sink, ...],
        name: str,
        context: RequestContext,
        arrived_s: float,
        model: str = "",
        prompt_tokens: int = 0,
        request_class: int = 0,
        sequences: int = 1,
    ) -> None:
        caller = context.caller
        classes = caller.classes.items() if caller else ()
        self._sinks = sinks
        self.told = Ended(
            name,
            "error",
            0,
            context.head.path,
            model,
            caller.tenant if caller else "",
            request_class,
            prompt_tokens=prompt_tokens,
            arrived_s=arrived_s,
            traceparent=context.traceparent,
            class_name=next((name for name, number in classes if number == request_class), ""),
            sequences=sequences,
            method=context.head.method,
        )

    def sent(self, worker: str) -> None:
        """Note that a call goes to a worker now: a further try."""
        told = self.told
        told.continued |= not math.isnan(told.first_s)  # its first token was there
        told.worker, told.tries, told.sent_s = worker, told.tries + 1, time.monotonic()

    def started(self) -> None:
        """Note that the first token came now, or the whole answer; only the first call counts."""
        if math.isnan(self.told.first_s):
            self.told.first_s = time.monotonic()

    def ended(self, outcome: Outcome, status: int) -> None:
        """Report the request, which ends now, to all sinks; `status` is what the client saw, 0 = nothing."""
        told = self.told
        told.outcome, told.status, told.ended_s = outcome, status, time.monotonic()
        for sink in self._sinks:
            sink(told)
