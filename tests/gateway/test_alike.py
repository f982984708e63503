"""Requests that are known by what the last one said around its prompt."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from evenstep.engines.requests import read_request
from evenstep.errors import InputError
from evenstep.gateway.alike import alike_of
from evenstep.gateway.asking import asking_of
from evenstep.gateway.callers import Callers
from evenstep.gateway.config import GatewayConfig
from evenstep.gateway.head import HeadError, read_request_head
from evenstep.gateway.heads import Heads
from evenstep.gateway.sections import Limits

CALLERS = Callers(GatewayConfig())
PATHS = {"chat": "/v1/chat/completions", "completions": "/v1/completions"}
TEXTS = st.text(st.sampled_from('aé"\\\n,:]}{[😀 '), max_size=12)
#: Bytes where a prompt stands: prompts, and what is none or more than one.
PLACES = st.one_of(
    TEXTS.map(json.dumps), TEXTS.map(lambda text: json.dumps(text, ensure_ascii=False)),
    TEXTS.map(lambda text: json.dumps([{"role": "user", "content": text}])),
    st.lists(st.integers(0, 9), max_size=3).map(json.dumps),
    st.sampled_from(['"a","stream":true,"user":"b"', '"', '""x"', "[{]", '[{}],"n":"2"', "null", "", ' "a"', '"a" ', '"\\q"']),
).map(lambda text: text.encode("utf-8", "surrogatepass"))  # fmt: skip
LIMITS = Limits(body_bytes=400, head_bytes=300)


def whole(kind: str, prompt: bytes, name: bytes, more: int = 0, lines: str = "") -> bytes:
    body = b'{"model":"m",%b:%b,"max_tokens":7}' % (name, prompt)
    head = f"POST {PATHS[kind]} HTTP/1.1\r\nHost: h\r\n{lines}Content-Length: {len(body) + more}\r\nAccept: */*\r\n\r\n"
    return head.encode() + body


def parted(data: bytes) -> tuple[bytes, bytes]:
    head, _, body = data.partition(b"\r\n\r\n")
    return head + b"\r\n\r\n", body


def learned(data: bytes, kind: str):
    head, body = parted(data)
    asking = asking_of(read_request_head(head), CALLERS, ())
    heads = Heads(lambda one: (asking, read_request_head(one).length, True))
    return alike_of(head, read_request(kind, body), asking, heads, LIMITS)


@given(
    st.sampled_from(list(PATHS)), st.lists(PLACES, min_size=1, max_size=6), st.sampled_from((0, 0, 0, 1, -1))
)
def test_what_is_known_of_a_request_like_the_last_is_what_reading_it_finds(kind, prompts, more):
    name = b'"messages"' if kind == "chat" else b'"prompt"'
    first = b'[{"role":"user","content":"x"}]' if kind == "chat" else b'"x"'
    alike = learned(whole(kind, first, name), kind)
    assert alike is not None
    taken = 0
    for prompt in (*prompts, first):
        data = whole(kind, prompt, name, more)
        found = alike.split(data)
        if found is None:
            continue
        taken += 1
        head, body = parted(data)
        try:
            expected, length = read_request(kind, body), read_request_head(head).length
        except (InputError, HeadError) as error:
            raise AssertionError(f"{data!r} was taken") from error
        assert found == (body, expected.prompt)
        assert length == len(body) <= LIMITS.body_bytes
        assert (expected.model, expected.max_tokens, expected.stream) == ("m", 7, False)
    assert taken or more


def test_a_request_that_says_anything_else_is_not_taken_for_one_like_the_last():
    data = whole("completions", b'"x"', b'"prompt"')
    alike = learned(data, "completions")
    assert alike is not None
    assert alike.split(data) is not None
    others = (
        data.replace(b"Host: h", b"Host: i"), data.replace(b": 7", b": 8"), data.replace(b"7}", b"8}"), data[:-1],
        data + b"G", data.replace(b"Content-Length: ", b"Content-Length: +"), data.replace(b"\r\n\r\n", b"\r\nX: y\r\n\r\n"),
        data.replace(b'"x"', b'"' + b"x" * 400 + b'"'), whole("completions", b'"' + b"x" * 400 + b'"', b'"prompt"'),
    )  # fmt: skip
    assert [alike.split(other) for other in others if other != data] == [None] * sum(
        o != data for o in others
    )


def test_a_request_with_an_id_of_its_own_says_nothing_of_the_next():
    assert (
        learned(whole("completions", b'"x"', b'"prompt"', lines="X-Request-Id: abc\r\n"), "completions")
        is None
    )


def test_where_the_length_is_said_in_another_way_nothing_is_known_of_the_next():
    data = whole("completions", b'"x"', b'"prompt"').replace(b"Content-Length", b"CONTENT-LENGTH")
    assert learned(data, "completions") is None
