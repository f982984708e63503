"""The summary of a finished request, for the access log, the targets of classes and the spans.

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
    """The summary of a request that ended. A `Story` fills it in; sinks only read it.

    Args:
        request_id: the id given by the client, or ours.
        outcome: ``complete``, ``error`` (also if no engine was free in time), ``cancelled`` (its client left) or ``refused``
            (for its key, form or size, or at a limit).
        status: HTTP status the client saw, that of its head if a stream broke off; 0 = it saw no answer.
        path: of the request, without query.
        model: the model it asks for; an unknown name is cut to 120 characters. Empty if it names none, or was refused before
            its body was read.
        tenant: tenant of its key; empty without a valid key.
        request_class: number of its class, from 1; 0 = no class.
        worker: the last worker it was sent to; empty if it was never sent.
        prompt_tokens, output_tokens: as an engine counted them; without a count, an estimate for the prompt, and 0.
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
        method: HTTP method.
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
        """Seconds per further token of each sequence, from the first token to the end; nan without any (`meters.tpot_s`)."""
        return tpot_s(self.ended_s - self.first_s, self.output_tokens, self.sequences)


#: Takes the summary of each request that ended. It runs on the data path, so it must be quick and never wait.
Sink: TypeAlias = Callable[[Ended], None]


class Story:
    """Fills in the summary of a running request; kept only while there are sinks. At its end call `ended`, once.

    Args:
        sinks: get the summary at the end.
        name: the request's id.
        context: its parsed head.
        arrived_s: in seconds of `time.monotonic`.
        prompt_tokens: as estimated.
        model, request_class, sequences: for the fields of `Ended` with these names.

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
        """Note that a leg goes to this worker now: one more try, and a continuation if the first token has come."""
        told = self.told
        told.continued |= not math.isnan(told.first_s)  # its first token has come
        told.worker, told.tries, told.sent_s = worker, told.tries + 1, time.monotonic()

    def started(self) -> None:
        """Note that the first token, or the whole answer, came now; only the first call counts."""
        if math.isnan(self.told.first_s):
            self.told.first_s = time.monotonic()

    def ended(self, outcome: Outcome, status: int) -> None:
        """Note that the request ends now, and give its summary to all sinks; `outcome` and `status` as in `Ended`."""
        told = self.told
        told.outcome, told.status, told.ended_s = outcome, status, time.monotonic()
        for sink in self._sinks:
            sink(told)
