"""OpenTelemetry: one span for each finished request that is sampled, built outside the data path and exported in batches.

A span is a child of the client's span if there is a ``traceparent``; sampling follows the client's decision, or else
the configured share. Spans hold numbers and names, never text of a prompt or an answer.
"""

from __future__ import annotations

import math
import time
from threading import Thread
from typing import TYPE_CHECKING

from evenstep.errors import InputError
from evenstep.gateway.config.sections import Traces
from evenstep.gateway.serve.ended import Ended
from evenstep.wording import install_extra

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

_NS = 1_000_000_000
_STOP_S = 3.0
_OURS = 500  # from this status on the span of a server is an error, by OpenTelemetry's conventions
#: Paths that name a span. Clients may send any other, and names must be few (OpenTelemetry's conventions).
_NAMES = {
    *("/tokenize", "/detokenize", "/pooling", "/classify", "/score", "/rerank", "/v2/rerank", "/v2/embed"),
    *("/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages", "/v1/embeddings", "/v1/rerank"),
    *("/v1/score", "/v1/audio/transcriptions", "/v1/audio/translations", "/v1/audio/speech", "/v1/images/generations"),
}


class Spans:
    """Makes spans of requests; a thread of the OpenTelemetry package exports them in batches.

    `exporter` takes the spans; left out = they go to the collector of `traces`. Raises InputError if the package is missing.
    """

    def __init__(self, traces: Traces, exporter: SpanExporter | None = None) -> None:
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
            from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
            from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
        except ModuleNotFoundError as error:
            expected = f"the package of {error.name}"
            raise InputError("traces", "endpoint", traces.endpoint, expected, install_extra("otel")) from None

        self._provider = TracerProvider(
            sampler=ParentBased(TraceIdRatioBased(traces.share)),
            resource=Resource.create({"service.name": traces.service}),
            shutdown_on_exit=False,
        )
        sender = exporter or OTLPSpanExporter(endpoint=traces.endpoint)
        self._provider.add_span_processor(BatchSpanProcessor(sender))
        self._tracer = self._provider.get_tracer("evenstep")
        self._propagator = TraceContextTextMapPropagator()

    def ended(self, one: Ended) -> None:
        """Make the span of a request that ended, if it is sampled. Call it outside the data path, since it takes long."""
        from opentelemetry.trace import SpanKind, Status, StatusCode

        ahead_ns = time.time_ns() - time.monotonic_ns()
        carrier = {"traceparent": one.traceparent, "tracestate": one.tracestate}
        parent = self._propagator.extract(carrier) if one.traceparent else None
        span = self._tracer.start_span(
            one.path if one.path in _NAMES else one.method,
            context=parent,
            kind=SpanKind.SERVER,
            start_time=_ns(one.arrived_s, ahead_ns),
            attributes=_attributes(one),
        )
        for name, at_s in (("sent", one.sent_s), ("first token", one.first_s)):
            if not math.isnan(at_s):
                span.add_event(name, timestamp=_ns(at_s, ahead_ns))
        if one.outcome == "error" or one.status >= _OURS:
            span.set_status(Status(StatusCode.ERROR))
        span.end(_ns(one.ended_s, ahead_ns))

    def close(self) -> None:
        """Send the spans not yet sent, and stop; blocks for 3 seconds at most. Later requests get no span."""
        sending = Thread(target=self._provider.shutdown, daemon=True)  # shutdown ignores its own time limit
        sending.start()
        sending.join(_STOP_S)


def _attributes(one: Ended) -> dict[str, str | int | float | bool]:
    """The attributes of a request's span, under OpenTelemetry's names where they exist; unknown times are left out."""
    found: dict[str, str | int | float | bool] = {
        "http.request.method": one.method,
        "http.response.status_code": one.status,
        "url.path": one.path,
        "gen_ai.request.model": one.model,
        "gen_ai.usage.input_tokens": one.prompt_tokens,
        "gen_ai.usage.output_tokens": one.output_tokens,
        "evenstep.request_id": one.request_id,
        "evenstep.tenant": one.tenant,
        "evenstep.class": one.request_class,
        "evenstep.worker": one.worker,
        "evenstep.outcome": one.outcome,
        "evenstep.tries": one.tries,
        "evenstep.continued": one.continued,
    }
    times = {"wait_s": one.sent_s - one.arrived_s, "ttft_s": one.ttft_s, "tpot_s": one.tpot_s}
    return found | {f"evenstep.{name}": seconds for name, seconds in times.items() if not math.isnan(seconds)}


def _ns(at_s: float, ahead_ns: int) -> int:
    """Convert seconds of the monotonic clock to nanoseconds since 1970. `ahead_ns`: system clock minus monotonic clock."""
    return int(at_s * _NS) + ahead_ns
