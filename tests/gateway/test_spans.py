"""One span a request, with what was decided about it."""

from __future__ import annotations

import asyncio
import gzip
import sys
import threading
import time

import aiohttp
import pytest
from aiohttp import web
from msgspec.structs import replace
from tests.emulator.running import running, url
from tests.gateway.operating import BODY, beside
from tests.gateway.running import base, until

from evenstep.errors import InputError
from evenstep.gateway.config.config import GatewayConfig
from evenstep.gateway.config.sections import Traces
from evenstep.gateway.connections.callers import Callers
from evenstep.gateway.connections.request_context import context_of
from evenstep.gateway.operate.spans import Spans
from evenstep.gateway.serve.ended import Ended, begun
from evenstep.http.head import read_request_head

HERE = "http://127.0.0.1:4318/v1/traces"
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-{flag}"


def spans_of(*ended: Ended, **settings):
    exporter = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter").InMemorySpanExporter()
    spans = Spans(Traces(HERE, **settings), exporter)
    for one in ended:
        spans.ended(one)
    spans.close()
    return exporter.get_finished_spans()


def one(**more) -> Ended:
    now_s = time.monotonic()
    known = {
        "request_id": "r",
        "outcome": "complete",
        "status": 200,
        "path": "/v1/completions",
        "model": "m",
        "tenant": "t",
        "worker": "w",
        "prompt_tokens": 7,
        "output_tokens": 3,
        "tries": 2,
        "arrived_s": now_s - 3.0,
        "sent_s": now_s - 2.0,
        "first_s": now_s - 1.0,
        "ended_s": now_s,
    }
    return Ended(**{**known, **more})


def test_names_of_spans_are_few_whatever_paths_clients_send():
    paths = ("/v1/chat/completions", "/tokenize", "/v1/responses/resp_81f0", "/wp-login.php", "")
    spans = spans_of(*(one(path=path, method="GET" if "_" in path else "POST") for path in paths))
    assert [span.name for span in spans] == ["/v1/chat/completions", "/tokenize", "GET", "POST", "POST"]
    assert [span.attributes["url.path"] for span in spans] == list(paths)


@pytest.mark.slow
def test_a_span_lasts_as_long_as_the_request_and_tells_what_was_decided():
    (span,) = spans_of(one(), service="edge")
    assert span.name == "/v1/completions" and span.resource.attributes["service.name"] == "edge"
    assert (span.end_time - span.start_time) / 1e9 == pytest.approx(3.0, abs=1e-3)
    assert abs(span.end_time - time.time_ns()) < 60e9
    assert [event.name for event in span.events] == ["sent", "first token"]
    found = span.attributes
    assert (found["evenstep.worker"], found["evenstep.tries"], found["gen_ai.usage.output_tokens"]) == (
        "w",
        2,
        3,
    )
    assert found["evenstep.wait_s"] == pytest.approx(1.0) and found["evenstep.tpot_s"] == pytest.approx(0.5)
    assert span.status.status_code.name == "UNSET"
    assert found["http.request.method"] == "POST"


@pytest.mark.slow
def test_a_span_is_the_child_of_the_clients_and_follows_its_decision():
    kept = PARENT.format(flag="01")
    (span,) = spans_of(one(traceparent=kept), one(traceparent=PARENT.format(flag="00")), share=0.0)
    assert f"{span.context.trace_id:032x}" == kept.split("-")[1]
    assert f"{span.parent.span_id:016x}" == kept.split("-")[2]
    (alone,) = spans_of(one(traceparent="nonsense"))
    assert alone.parent is None


@pytest.mark.slow
def test_a_span_keeps_the_clients_trace_state():
    head = (
        f"POST /v1/completions HTTP/1.1\r\nHost: a\r\ntraceparent: {PARENT.format(flag='01')}\r\ntracestate: a=1,b=2\r\n\r\n"
    )
    context = context_of(read_request_head(head.encode()), Callers(GatewayConfig()), ())
    (span,) = spans_of(replace(begun((), "r", context, time.monotonic()), ended_s=time.monotonic()))
    assert span.context.trace_state.to_header() == "a=1,b=2"
    (span,) = spans_of(one(traceparent=PARENT.format(flag="01"), tracestate="not, a state"))
    assert not span.context.trace_state


@pytest.mark.slow
def test_only_a_share_of_the_rest_is_kept():
    assert spans_of(*(one() for _ in range(20)), share=0.0) == ()
    assert len(spans_of(*(one() for _ in range(20)))) == 20


@pytest.mark.slow
def test_an_error_is_one_and_what_never_was_is_left_out():
    nan = float("nan")
    (span,) = spans_of(one(outcome="error", status=502, sent_s=nan, first_s=nan))
    assert span.status.status_code.name == "ERROR" and not span.events
    assert not {"evenstep.wait_s", "evenstep.ttft_s", "evenstep.tpot_s"} & set(span.attributes)
    said = [span.status.status_code.name for span in spans_of(*(one(outcome="refused", status=it) for it in (429, 503)))]
    assert said == ["UNSET", "ERROR"]


@pytest.mark.slow
def test_a_collector_that_hangs_holds_nobody_at_the_end(monkeypatch):
    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

    asked, may_end = threading.Event(), threading.Event()

    class Hanging(SpanExporter):
        def export(self, _):
            asked.set()
            may_end.wait(60.0)
            return SpanExportResult.SUCCESS

    monkeypatch.setattr("evenstep.gateway.operate.spans._STOP_S", 0.1)
    spans = Spans(Traces(HERE), Hanging())
    spans.ended(one())
    before_s = time.monotonic()
    spans.close()
    assert asked.wait(30.0) and time.monotonic() - before_s < 20.0
    may_end.set()


def test_what_is_missing_is_said_with_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(InputError, match=r"pip install 'evenstep\[otel\]'"):
        Spans(Traces(HERE))


@pytest.mark.slow
def test_a_collector_gets_the_span_of_a_request_that_the_gateway_served():
    async def story():
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        got: list[bytes] = []

        async def collect(request: web.Request) -> web.Response:
            body = await request.read()
            got.append(gzip.decompress(body) if request.headers.get("Content-Encoding") == "gzip" else body)
            return web.Response()

        app = web.Application()
        app.router.add_post("/v1/traces", collect)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        endpoint = f"http://127.0.0.1:{runner.addresses[0][1]}/v1/traces"
        async with (
            running(slots=4, speed=20.0) as emulator,
            beside({"traces.endpoint": endpoint}, url(emulator)) as (server, _),
        ):
            await until(lambda: not server.gateway.front.not_ready())
            async with aiohttp.ClientSession(base(server), headers={"X-Request-Id": "mine"}) as asker:
                assert (await asker.post("/v1/completions", json=BODY)).status == 200
        await runner.cleanup()  # operation has ended, and sent what waited
        sent = ExportTraceServiceRequest.FromString(b"".join(got))
        (span,) = [span for of in sent.resource_spans for scope in of.scope_spans for span in scope.spans]
        found = {one.key: one.value for one in span.attributes}
        assert found["evenstep.request_id"].string_value == "mine"
        assert found["gen_ai.usage.output_tokens"].int_value == 5
        assert found["gen_ai.request.model"].string_value == "emulated"

    asyncio.run(asyncio.wait_for(story(), 60))
