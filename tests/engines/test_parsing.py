"""What is read of a client's request, and what is refused."""

from __future__ import annotations

import json

import pytest

from evenstep.engines.requests.continuation import can_break
from evenstep.engines.requests.parsing import kind_of, read_request
from evenstep.engines.view import UsageOptions
from evenstep.errors import InputError

CHAT = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}]}
PROMPT = {"model": "tiny", "prompt": "hi"}


def read(kind: str, body: dict):
    return read_request(kind, json.dumps(body).encode())


def test_only_posts_to_the_two_endpoints_generate():
    assert kind_of("POST", "/v1/chat/completions?x=1") == "chat"
    assert kind_of("POST", "/v1/completions") == "completions"
    for method, target in (
        ("GET", "/v1/completions"),
        ("POST", "/v1/embeddings"),
        ("POST", "/v1/completions/x"),
    ):
        assert kind_of(method, target) == "other"


def test_a_bare_request_has_the_protocols_defaults():
    chat = read("chat", CHAT)
    assert (chat.model, chat.stream, chat.n, chat.slots, chat.max_tokens, chat.prompts) == (
        "tiny",
        False,
        1,
        1,
        -1,
        1,
    )
    assert chat.asked == UsageOptions() and chat.chat and chat.user == ""
    assert json.loads(chat.value("messages")) == CHAT["messages"]
    assert read("completions", PROMPT).max_tokens == 16
    assert read("completions", PROMPT | {"max_tokens": None}).max_tokens == -1


def test_what_is_given_is_read():
    request = read(
        "chat",
        CHAT
        | {
            "stream": True,
            "n": 2,
            "max_tokens": 9,
            "max_completion_tokens": 7,
            "min_tokens": 3,
            "user": "u",
            "return_token_ids": True,
        }
        | {"stream_options": {"include_usage": True, "continuous_usage_stats": True, "other": 1}},
    )
    assert (request.n, request.slots, request.max_tokens, request.min_tokens) == (2, 2, 7, 3)
    assert request.user == "u"
    assert request.asked == UsageOptions(usage=True, continuous=True, token_ids=True)
    assert request.value("max_tokens") == b"9" and request.value("nothing") == b""


def test_continuous_usage_alone_is_noted_since_some_engines_give_it():
    assert read("chat", CHAT | {"stream_options": {"continuous_usage_stats": True}}).asked == UsageOptions(continuous=True)


@pytest.mark.parametrize(
    ("prompt", "prompts", "tokens"),
    [("hi", 1, -1), ([1, 2, 3], 1, 3), (["a, b", "c"], 2, -1), ([[1, 2], [3]], 2, 3), ("", 1, -1)],
)
def test_prompts_come_in_four_forms(prompt, prompts, tokens):
    request = read("completions", PROMPT | {"prompt": prompt, "n": 2, "best_of": 3})
    assert (request.prompts, request.prompt_tokens, request.slots) == (prompts, tokens, 3 * prompts)


@pytest.mark.parametrize(
    ("more", "prompts"),
    [
        ({"prompt_embeds": "AAAA"}, 1),
        ({"prompt": None, "prompt_embeds": ["AAAA", "BB=="]}, 2),
        ({"prompt": ["a", "b"], "prompt_embeds": "AAAA"}, 3),
        ({"prompt": [], "prompt_embeds": "AAAA"}, 1),
        ({"prompt": "", "prompt_embeds": "AAAA"}, 1),
        ({"prompt": None, "prompt_embeds": []}, None),
        ({"prompt_embeds": None}, None),
    ],
)
def test_prompts_may_come_as_embeddings(more, prompts):
    if prompts is None:
        with pytest.raises(InputError, match="prompt"):
            read("completions", {"model": "m"} | more)
        return
    request = read("completions", {"model": "m", "stream": True} | more)
    assert (request.prompts, request.prompt_tokens, request.prompt_bytes) == (prompts, -1, 0)
    assert not can_break(request)


def test_a_whole_number_may_have_a_decimal_point():
    request = read("completions", PROMPT | {"max_tokens": 16.0, "n": 2.0, "min_tokens": 0.0})
    assert (request.max_tokens, request.n, request.min_tokens) == (16, 2, 0)
    assert request.body.count(b"16.0") == 1  # engines get it as it is
    with pytest.raises(InputError, match=r"max_tokens is '16.5'; expected an integer"):
        read("completions", PROMPT | {"max_tokens": 16.5})
    for written, number in (("1e2", 100), ("0.5E+1", 5), ("1.0", 1)):
        body = b'{"model":"m","prompt":"x","max_tokens":%b}' % written.encode()
        assert read_request("completions", body).max_tokens == number
    for written in ("1e-1", "1e400", "1e300", "-1e2"):
        with pytest.raises(InputError, match="max_tokens is '?-?1"):
            read_request("completions", b'{"model":"m","prompt":"x","max_tokens":%b}' % written.encode())
    with pytest.raises(InputError, match=r"stream is '1.0'; expected true or false"):
        read("completions", PROMPT | {"stream": 1.0})


def test_null_is_as_good_as_absent_in_a_chat():
    nothing = dict.fromkeys(["n", "max_tokens", "stream", "stream_options", "user", "min_tokens"])
    assert read("chat", CHAT | nothing).slots == 1


@pytest.mark.parametrize(
    ("kind", "body", "field"),
    [
        ("chat", {"messages": []}, "model"),
        ("chat", {"model": "m"}, "messages"),
        ("chat", {"model": "m", "messages": []}, "messages"),
        ("chat", {"model": "m", "messages": "hi"}, "messages"),
        ("chat", CHAT | {"model": 3}, "model"),
        ("chat", CHAT | {"n": 0}, "n"),
        ("chat", CHAT | {"n": True}, "n"),
        ("chat", CHAT | {"n": 1e3}, "n"),
        ("chat", CHAT | {"n": 129}, "n"),
        ("completions", PROMPT | {"prompt": ["a"] * 129}, "prompt"),
        ("chat", CHAT | {"max_tokens": -1}, "max_tokens"),
        ("chat", CHAT | {"max_completion_tokens": "7"}, "max_completion_tokens"),
        ("chat", CHAT | {"max_tokens": 2**40}, "max_tokens"),
        ("chat", CHAT | {"stream": "yes"}, "stream"),
        ("chat", CHAT | {"n": 10**30}, "n"),
        ("chat", CHAT | {"stream_options": {"include_usage": 1}}, "stream_options"),
        ("chat", CHAT | {"user": "\ud800"}, "body"),
        ("chat", CHAT | {"stream_options": []}, "stream_options"),
        ("completions", {"model": "m"}, "prompt"),
        ("completions", PROMPT | {"prompt": []}, "prompt"),
        ("completions", PROMPT | {"prompt": 3}, "prompt"),
        ("completions", PROMPT | {"prompt": [["a"]]}, "prompt"),
        ("completions", PROMPT | {"prompt": ["a", 5]}, "prompt"),
        ("completions", PROMPT | {"prompt": [1, "b"]}, "prompt"),
        ("completions", PROMPT | {"prompt": [1, 2.5]}, "prompt"),
        ("completions", PROMPT | {"prompt": [[1], [2, "b"]]}, "prompt"),
        ("completions", PROMPT | {"prompt": [[1], "b"]}, "prompt"),
        ("completions", PROMPT | {"n": 3, "best_of": 2}, "best_of"),
    ],
)
def test_a_field_of_no_use_is_named(kind, body, field):
    with pytest.raises(InputError) as caught:
        read(kind, body)
    assert caught.value.field == field


def test_another_fault_before_half_of_a_pair_is_named():
    with pytest.raises(InputError, match="byte 28"):
        read_request("chat", rb'{"model":"m","messages":[{"\q":"\ud800"}]}')


def test_a_key_given_twice_in_the_options_of_a_stream_is_named():
    with pytest.raises(InputError, match="x is 'there twice'"):
        read_request("chat", b'{"model":"m","messages":[{}],"stream_options":{"x":1,"x":1}}')


@pytest.mark.parametrize(
    "text",
    [
        rb'{"model":"m","prompt":"\ud800"}',
        rb'{"model":"m","prompt":"\ud800 and more, so that the text goes on"}',
        rb'{"model":"m","prompt":"\uDC00\ud800"}',
        rb'{"model":"m","prompt":["\ud83d\ude00 \ud83d\u0041"]}',
        rb'{"model":"m","prompt":"a","stop":"\\\ud83d"}',
        rb'{"model":"m","prompt":"a","\ud83dx":1}',
    ],
)
def test_half_of_a_surrogate_pair_is_refused_with_its_place(text):
    """JSON's grammar has it, but no engine can serve it: the package tokenizers, which vLLM uses, takes only whole text."""
    with pytest.raises(InputError, match="half of a surrogate pair at byte") as caught:
        read_request("completions", text)
    at = int(caught.value.value.rpartition(" ")[2])
    assert caught.value.field == "body" and text[at : at + 2] == rb"\u" and text[at + 2] in b"dD"
    assert "expected JSON of whole characters" in str(caught.value)


@pytest.mark.parametrize("text", [rb"\ud83d\ude00", rb"\\ud83d", rb"\uD83D\uDE00\\\\udc00"])
def test_a_whole_pair_and_an_escaped_backslash_are_text(text):
    assert read_request("completions", b'{"model":"m","prompt":"%b"}' % text).prompt_bytes == len(text) + 2


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        b'{"model":"a","model":"b"}',
        b'{"model":"\xff"}',
        b'{"a":' + b"[" * 100_000,
        b'{"model":"m"} x',
    ],
)
def test_what_is_no_object_is_refused(body):
    with pytest.raises(InputError):
        read_request("chat", body)


def test_other_requests_are_not_read():
    with pytest.raises(ValueError, match="only requests for tokens"):
        read_request("other", b"{}")
