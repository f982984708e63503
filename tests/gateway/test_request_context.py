"""What follows from a head."""

from __future__ import annotations

import pytest

from evenstep.gateway.config.config import GatewayConfig
from evenstep.gateway.config.sections import ApiKey, RequestClass
from evenstep.gateway.connections.callers import ANONYMOUS, Callers
from evenstep.gateway.connections.request_context import RequestContext, cached, context_of
from evenstep.http.head import read_request_head

KEYS = GatewayConfig(keys=[ApiKey("sesame", "us", ["fast"])], classes={"fast": RequestClass(), "slow": RequestClass()})


def context(*lines: str, config: GatewayConfig = KEYS, path: str = "/v1/completions"):
    head = "\r\n".join((f"POST {path} HTTP/1.1", "Host: a", *lines, "", "")).encode()
    return context_of(read_request_head(head), Callers(config), ("x-session",))


def test_a_head_says_who_asks_for_what():
    found = context(
        "Authorization: Bearer sesame",
        "X-Request-Id: r-1",
        "X-Session: s",
        "X-Evenstep-Task: t",
        "X-Evenstep-Expected-Tokens: 9",
        "traceparent: 00-aa",
    )
    assert found.caller is not None and found.caller.tenant == "us" and found.refusal is None
    assert (found.name, found.kind, found.number, found.expected) == ("r-1", "completions", 1, 9)
    assert (found.session, found.task, found.traceparent) == ("s", "t", "00-aa")
    assert found.credentials is None and found.carried == b"traceparent: 00-aa\r\n"


def test_what_may_not_be_is_refused_and_says_why():
    assert context().caller is None and context().refusal.status == 401
    for line, code in (("X-Evenstep-Class: slow", 403), ("X-Evenstep-Expected-Tokens: 0", 400)):
        found = context("Authorization: Bearer sesame", line)
        assert found.caller is not None and found.refusal.status == code


def test_without_keys_everybody_may_and_a_key_is_the_engines():
    found = context("Authorization: Bearer own", "X-Request-Id: a b", config=GatewayConfig(), path="/v1/models")
    assert found.caller.tenant == ANONYMOUS
    assert (found.credentials, found.carried) == (b"authorization: Bearer own\r\n", b"")
    assert (found.name, found.kind) == ("", "other")
    assert context(config=GatewayConfig()).credentials == b"", "it sent none"


TRACES = [f"00-{number:032x}-00f067aa0ba902b7-01" for number in range(3)]


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/models"])
@pytest.mark.parametrize(
    "lines",
    [
        ("traceparent: {}",),
        ("Traceparent: {}", "tracestate: a=b"),
        ("tracestate: a=b", "TRACEPARENT: {}", "Authorization: Bearer sesame"),
        ("traceparent: {}", "traceparent: {}"),
        ("traceparent: {}", "traceparent: other"),
        ("traceparent:{}",),
        ("x: traceparent: {}",),
        ("tracestate: a=b",),
    ],
)
@pytest.mark.parametrize("config", [KEYS, GatewayConfig()])
def test_a_head_that_differs_in_its_traceparent_asks_for_what_it_would_alone(path, lines, config):
    callers = Callers(config)

    def read(head: bytes) -> tuple[RequestContext, int, bool]:
        found = read_request_head(head)
        asked = context_of(found, callers, ())
        return asked, found.length, asked.caller is not None

    heads = cached(read)
    for trace in [*TRACES, "", "00-AA", *TRACES]:
        for length in (3, 12):
            shown = [line.replace("{}", trace) for line in (*lines, f"Content-Length: {length}")]
            head = "\r\n".join((f"POST {path} HTTP/1.1", "Host: a", *shown, "", "")).encode()
            (found, found_length), (alone, alone_length, _) = heads(head), read(head)
            assert (found_length, found.caller) == (alone_length, alone.caller) == (length, alone.caller)
            for name in ("name", "kind", "number", "carried", "credentials", "traceparent"):
                assert getattr(found, name) == getattr(alone, name)


def test_heads_that_differ_in_their_traceparent_are_parsed_once():
    parsed: list[bytes] = []

    def read(head: bytes) -> tuple[RequestContext, int, bool]:
        parsed.append(head)
        return context_of(read_request_head(head), Callers(GatewayConfig()), ()), 0, True

    heads = cached(read)
    for trace in TRACES:
        head = f"POST /v1/completions HTTP/1.1\r\nHost: a\r\ntraceparent: {trace}\r\nContent-Length: 0\r\n\r\n"
        assert heads(head.encode())[0].traceparent == trace
    assert len(parsed) == 1


@pytest.mark.parametrize(("value", "said"), [("-2.5", -2.5), ("", 0.0), ("1e3", 1000.0)])
def test_a_priority_is_a_finite_number(value: str, said: float):
    assert context("Authorization: Bearer sesame", f"X-Evenstep-Priority: {value}").priority == said


@pytest.mark.parametrize("value", ["high", "nan", "inf"])
def test_a_priority_that_is_no_number_is_refused(value: str):
    found = context("Authorization: Bearer sesame", f"X-Evenstep-Priority: {value}")
    assert found.refusal is not None and found.refusal.status == 400 and found.priority == 0.0


def test_a_traceparent_that_names_the_session_counts_in_every_request():
    headers = ("traceparent",)

    def read(head: bytes) -> tuple[RequestContext, int, bool]:
        return context_of(read_request_head(head), Callers(GatewayConfig()), headers), 0, True

    heads = cached(read, headers)
    for trace in TRACES:
        head = f"POST /v1/completions HTTP/1.1\r\nHost: a\r\ntraceparent: {trace}\r\nContent-Length: 0\r\n\r\n"
        assert heads(head.encode())[0].session == trace
