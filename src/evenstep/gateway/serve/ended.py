"""The summary of a finished request, for the access log, the targets of classes (`Attainment`) and the spans.

It contains no text of prompts or answers.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias

import msgspec

from evenstep.dispatch.log.meters import tpot_s
from evenstep.gateway.config.sections import RequestClass
from evenstep.gateway.connections.request_context import RequestContext

_WRONG = {400, 413, 422}  # statuses of a request that no engine can serve, such as one with too long a prompt
Outcome: TypeAlias = Literal["complete", "error", "cancelled", "refused"]


class Ended(msgspec.Struct, gc=False):
    """The summary of a request: `begun` when it arrives, filled in by its methods, and given to the sinks at its end."""

    request_id: str  # the id given by the client, or ours
    #: ``complete`` (with all its tokens), ``error`` (before or after its first token; also if no engine was free in time),
    #: ``cancelled`` (its client left) or ``refused``: for its key, form, size, path or model, at a limit, or while the
    #: gateway starts or drains
    outcome: Outcome
    status: int  # HTTP status the client saw, that of its head if a stream broke off; 0 = it saw no answer
    path: str = ""  # of the request, without query
    #: the model it asks for; an unknown name is cut to 120 characters. Empty if it names none, or was refused before its
    #: body was read.
    model: str = ""
    tenant: str = ""  # of its caller; empty if its key is missing or wrong
    request_class: int = 0  # number of its class, from 1; 0 = no class
    worker: str = ""  # the last worker it was sent to; empty if it was never sent
    prompt_tokens: int = 0  # as an engine counted them, else as estimated; 0 without either
    output_tokens: int = 0  # as an engine counted them, else as estimated; 0 without either
    tries: int = 0  # legs begun for it, those to prefillers included
    continued: bool = False  # whether a further leg began after its first token
    #: monotonic time, in seconds, at which it was read whole, or refused before. This and the times below are nan if it
    #: never happened.
    arrived_s: float = math.nan
    sent_s: float = math.nan  # of its last dispatch to a worker
    first_s: float = math.nan  # of its first token, its whole answer, or the first byte of a forwarded answer
    ended_s: float = math.nan  # of its end
    traceparent: str = ""  # W3C trace context as the client sent it; empty = it sent no such header
    tracestate: str = ""  # W3C trace context as the client sent it; empty = it sent no such header
    class_name: str = ""  # name of its class when it came; empty = no class
    #: number of sequences that its answer streams side by side; 0 = it does not stream; 1 if no pool had it
    sequences: int = 1
    method: str = "POST"  # HTTP method
    sinks: tuple[Sink, ...] = ()  # get it at the end, and only read it

    @property
    def ttft_s(self) -> float:
        """Seconds from arrival to the first token, or to the end of an answer that does not stream; nan if neither came."""
        return self.first_s - self.arrived_s

    @property
    def tpot_s(self) -> float:
        """Seconds per further token of each sequence, from the first token to the end; nan without any (`meters.tpot_s`)."""
        return tpot_s(self.ended_s - self.first_s, self.output_tokens, self.sequences)

    def sent(self, worker: str) -> None:
        """Note that a leg goes to this worker now: one more try, and a continuation if the first token has come."""
        self.continued |= not math.isnan(self.first_s)
        self.worker, self.tries, self.sent_s = worker, self.tries + 1, time.monotonic()

    def started(self) -> None:
        """Note that the first token, or the whole answer, came now; only the first call counts."""
        if math.isnan(self.first_s):
            self.first_s = time.monotonic()

    def ended(self, outcome: Outcome, status: int) -> None:
        """Note that the request ends now, and give this summary to all sinks. Set `output_tokens` before; call it once."""
        self.outcome, self.status, self.ended_s = outcome, status, time.monotonic()
        for sink in self.sinks:
            sink(self)


#: Takes the summary of each request that ended. It runs on the data path, so it must be quick and never wait.
Sink: TypeAlias = Callable[[Ended], None]


def begun(
    sinks: tuple[Sink, ...],
    name: str,
    context: RequestContext,
    arrived_s: float,
    model: str = "",
    prompt_tokens: int = 0,
    request_class: int = 0,
    sequences: int = 1,
) -> Ended:
    """The summary of a request that arrives; kept only while there are sinks.

    `name` is the request's id, `context` its parsed head, `arrived_s` in seconds of `time.monotonic`, and `prompt_tokens` an
    estimate: set the field once an engine counts them. The other arguments are as in `Ended`.
    """
    caller = context.caller
    classes = caller.classes.items() if caller else ()
    return Ended(
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
        tracestate=context.head.headers.get("tracestate", ""),
        class_name=next((name for name, number in classes if number == request_class), ""),
        sequences=sequences,
        method=context.head.method,
        sinks=sinks,
    )


class Attainment:
    """Counts of requests that met the targets of their class, and of requests that did not; `classes`: name -> class.

    A request that was refused or ended with an error missed its targets. A request is not counted if its client left, if it
    has no class, if it was refused before it reached a pool, or if the answer is that the request itself is wrong (400, 413,
    422). A target of 0 is met by every complete one. The target on further tokens applies only to requests with more than
    one token.

    Attributes:
        counted: number of requests by (class name, whether they met its targets).
    """

    def __init__(self, classes: Mapping[str, RequestClass]) -> None:
        self._classes = classes
        self.counted: Counter[tuple[str, bool]] = Counter()

    def reload(self, classes: Mapping[str, RequestClass]) -> None:
        """Use other classes and targets from now on. Counts are kept by class name."""
        self._classes = classes

    def ended(self, one: Ended) -> None:
        """Count a request that ended, by the targets of its class in force now. It serves as a `Sink`.

        The class is looked up by its name, because a reload may have given its number to another one.
        """
        kind = self._classes.get(one.class_name)
        if kind is None or one.outcome == "cancelled" or one.status in _WRONG:
            return
        late_to_start = kind.ttft_s > 0 and not one.ttft_s <= kind.ttft_s
        slow_to_go_on = kind.tpot_s > 0 and one.tpot_s > kind.tpot_s
        self.counted[one.class_name, one.outcome == "complete" and not (late_to_start or slow_to_go_on)] += 1

    def weights(self) -> dict[str, float]:
        """The weight of each class in the config now in force, by its name, also of those without a counted request."""
        return {name: kind.weight for name, kind in self._classes.items()}

    def counts(self) -> list[dict[str, object]]:
        """For each class in force two entries: ``class``, ``met`` ("true", then "false") and ``value``, a request count."""
        return [
            {"class": name, "met": "true" if met else "false", "value": self.counted[name, met]}
            for name in self._classes
            for met in (True, False)
        ]
