"""Asking another engine for the rest of an answer."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from evenstep.engines.requests.bodies import upstream
from evenstep.engines.requests.continuation import can_break, continuation, goes_on
from evenstep.engines.requests.parsing import read_request
from evenstep.engines.streams.usage import SoFar
from evenstep.engines.view import Dialect

BY_IDS = Dialect(chat_from_ids=True)
BEFORE = SoFar(b'"1"', b"1", 2, 3, b"[1, 2]", (3, 4, 5), "abc", True)
TEXT_ONLY = SoFar(b'"1"', b"1", 2, 3, b"", (), "é\n", True)


def completions(**more):
    return read_request("completions", json.dumps({"model": "m", "prompt": "p", "max_tokens": 9} | more).encode())


def chat(**more):
    return read_request("chat", json.dumps({"model": "m", "messages": [{"role": "user", "content": "p"}]} | more).encode())


def go_on(request, before=BEFORE, dialect=BY_IDS):
    return continuation(request, upstream(request, dialect)[0], before, dialect)


def test_a_completion_goes_on_from_its_ids_with_lower_limits():
    found = go_on(completions(min_tokens=5, top_k=1))
    assert found.ids and not found.why_not and not found.spent
    assert json.loads(found.body) == {
        "model": "m",
        "prompt": [1, 2, 3, 4, 5],
        "max_tokens": 6,
        "min_tokens": 2,
        "top_k": 1,
    }


def test_a_limit_nobody_gave_is_still_kept():
    request = read_request("completions", b'{"model":"m","prompt":"p"}')
    assert json.loads(go_on(request).body)["max_tokens"] == 13
    assert "max_tokens" not in json.loads(go_on(chat()).body)
    both = json.loads(go_on(chat(max_tokens=20, max_completion_tokens=10)).body)
    assert (both["max_tokens"], both["max_completion_tokens"]) == (7, 7)


def test_a_chat_goes_on_from_its_ids_where_the_engine_can():
    body = json.loads(go_on(chat()).body)
    assert body["kv_transfer_params"] == {"prompt_token_ids": [1, 2, 3, 4, 5]}
    assert body["messages"] == [{"role": "user", "content": "p"}]
    assert "cannot continue a chat" in go_on(chat(), dialect=Dialect()).why_not
    assert "told no token ids" in go_on(chat(), TEXT_ONLY).why_not


def test_without_ids_a_text_prompt_is_joined_as_text_and_says_it_is_not_exact():
    found = go_on(completions(), TEXT_ONLY)
    assert not found.ids and not found.why_not
    assert json.loads(found.body)["prompt"] == "pé\n"
    assert "token ids" in go_on(completions(prompt=[1, 2]), TEXT_ONLY).why_not


def test_stop_strings_hold_text_back_so_only_text_is_joined():
    found = go_on(completions(stop=["x"]))
    assert not found.ids and json.loads(found.body)["prompt"] == "pabc"
    assert json.loads(go_on(completions(prompt=["p"], stop="x")).body)["prompt"] == "pabc"
    assert "stop strings" in go_on(chat(stop="x")).why_not


def test_a_completion_that_cannot_be_joined_names_what_is_in_the_way():
    silent = replace(TEXT_ONLY, text="")
    assert go_on(completions(), silent).why_not.startswith("no text of the answer has come")
    assert go_on(completions(stop="x"), silent).why_not.startswith("its stop strings hold text back")
    assert go_on(completions(prompt=[1, 2], stop="x")).why_not.startswith("its stop strings hold text back")


def test_an_answer_with_all_its_tokens_is_spent():
    assert go_on(completions(max_tokens=3)).spent
    assert not go_on(completions(max_tokens=4)).spent
    far = SoFar(b'"1"', b"1", 2, 20, b"[1, 2]", (5,) * 20, "a" * 20, True)
    assert not go_on(completions(max_tokens=None), far).spent  # with null, vLLM goes on to the end of the context


def test_nothing_produced_is_the_same_request_again():
    nothing = SoFar(b"", b"", -1, 0, b"", (), "", True)
    request = completions(n=2)
    body = upstream(request, BY_IDS)[0]
    assert continuation(request, body, nothing, BY_IDS).body is body


@pytest.mark.parametrize(
    "more",
    [
        {"n": 2},
        {"logprobs": 0},
        {"echo": True},
        {"truncate_prompt_tokens": 4},
        {"suffix": "x"},
        {"frequency_penalty": 0.1},
        {"presence_penalty": -1},
        {"seed": 0, "temperature": 0.7},
        {"seed": 1},
        {"response_format": {"type": "json_object"}},
        {"guided_json": {"a": 1}},
        {"structured_outputs": {"regex": "a"}},
        {"tools": [{"type": "function"}]},
        {"prompt": ["a", "b"]},
        {"prompt_logprobs": 1},
    ],
)
def test_what_cannot_be_joined_says_why(more):
    request = completions(**more)
    found = go_on(request)
    assert found.why_not and not found.body and not found.spent
    assert not can_break(request)


@pytest.mark.parametrize(
    "more",
    [
        {"logprobs": None},
        {"echo": False},
        {"frequency_penalty": 0},
        {"seed": 1, "temperature": 0},
        {"repetition_penalty": 1.2},
        {"response_format": {"type": "text"}},
        {"tools": [{"type": "function"}], "tool_choice": "none"},
        {"temperature": 1.0},
    ],
)
def test_what_can_be_joined_is(more):
    request = completions(**more)
    assert not go_on(request).why_not and can_break(request)


@pytest.mark.parametrize("value", ["1e999", 500 * "[" + 500 * "]"], ids=["number", "depth"])
@pytest.mark.parametrize("name", ["seed", "echo", "frequency_penalty", "logprobs"])
def test_a_value_that_only_an_engine_can_judge_does_not_join(name, value):
    request = read_request("completions", b'{"model":"m","prompt":"a","%b":%b}' % (name.encode(), value.encode()))
    assert not can_break(request)


@pytest.mark.parametrize(
    ("part", "joins"),
    [
        ({"type": "text", "text": 'say "type": "image_url"'}, True),
        ({"text": "a"}, True),
        ({"type": "thinking", "thinking": "a"}, True),
        ({"type": "image_url", "image_url": {"url": "http://x"}}, False),
        ({"image_url": "http://x"}, False),
        ({"type": "text", "text": "a", "image_embeds": "AA"}, False),
        ({"type": "input_audio", "input_audio": {}}, False),
        ({"type": "file"}, False),
        ({"type": None}, False),
        ("text", True),
        (1, False),
    ],
)
@pytest.mark.parametrize("more", [{}, {"tools": []}])
def test_a_chat_with_pictures_or_sounds_is_not_joined_since_vllm_ignores_the_ids_then(part, joins, more):
    messages = [{"role": "system"}, {"role": "user", "content": [{"type": "text", "text": "a"}, part]}]
    request = chat(messages=[*messages, {"role": "tool", "content": None}], **more)
    assert can_break(request) == joins and bool(go_on(request).body) == joins
    assert joins or "more than text" in go_on(request).why_not


def test_more_than_text_cannot_be_joined():
    before = SoFar(b'"1"', b"1", 2, 3, b"[1,2]", (3,), "a", False)
    assert "more than text" in go_on(chat(), before).why_not


def test_what_is_left_of_a_limit_is_not_guessed_where_events_bring_several_tokens():
    before = SoFar(b'"1"', b"1", -1, 3, b"", (), "a b c", True, bundled=True)
    assert "limit is unknown" in go_on(completions(), before).why_not
    unsaid = read_request("completions", b'{"model": "m", "prompt": "p"}')
    assert go_on(unsaid, before).why_not  # a completion without max_tokens has 16
    assert not go_on(completions(max_tokens=None), before).why_not


def test_another_engine_may_continue_a_chat_from_ids_where_this_one_cannot():
    assert go_on(chat(), dialect=Dialect()).is_engines
    assert not go_on(chat(), TEXT_ONLY).is_engines
    assert go_on(chat()).ids == b"[1, 2,3,4,5]" and not go_on(completions(), TEXT_ONLY).ids


@pytest.mark.parametrize(
    ("told", "prompt_tokens", "found"),
    [
        (b"[1,2,3]", 9, True),
        (b"[ 1,\n2, 3 ]", -1, True),
        (b"[1,2]", 3, False),
        (b"", 3, True),
        (b"", 2, False),
        (b"", -1, None),
    ],
)
def test_an_engine_goes_on_where_its_prompt_is_the_one_it_was_given(told, prompt_tokens, found):
    assert goes_on(b"[1, 2,3]", told, prompt_tokens) is found
