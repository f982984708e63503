from __future__ import annotations

import json

import pytest

from evenstep.emulator.emulated_request import RefusedError, asked
from evenstep.emulator.tokens import WORDS, tokenise


def completion(**body):
    return asked(json.dumps({"prompt": "one two", **body}).encode(), chat=False, model="m", longest=100)


def chat(**body):
    body = {"messages": [{"role": "user", "content": "hello"}], **body}
    return asked(json.dumps(body).encode(), chat=True, model="m", longest=100)


def test_a_completion_has_16_tokens_unless_told_and_a_chat_all_that_fits():
    assert completion().max_tokens == (16,)
    read = chat()
    assert read.max_tokens == (100 - read.prompt_tokens,)
    assert chat(max_tokens=9, max_completion_tokens=7).max_tokens == (7,)
    assert completion(max_tokens=None).max_tokens == (100 - completion().prompt_tokens,)
    assert completion(max_tokens=7.0).max_tokens == (7,)


def test_an_answer_ends_where_the_context_does_and_sglang_refuses_one_that_would_not_fit():
    body = json.dumps({"prompt": [5] * 90, "max_tokens": 30}).encode()
    assert asked(body, chat=False, model="m", longest=100).max_tokens == (10,)
    with pytest.raises(RefusedError, match="maximum context length is 100"):
        asked(body, chat=False, model="m", longest=100, sglang=True)


def test_a_long_prompt_cuts_no_answer_but_its_own():
    assert completion(prompt=[[5] * 90, [5]], max_tokens=30).max_tokens == (10, 30)
    assert completion(prompt=[[5] * 90, [5]]).max_tokens == (10, 16)


@pytest.mark.parametrize(
    ("prompt", "wanted"),
    [
        ("one two", [tokenise("one two")]),
        ([5, 6], [[5, 6]]),
        (["one", "two"], [tokenise("one"), tokenise("two")]),
        ([[5], [6, 7]], [[5], [6, 7]]),
    ],
)
def test_prompts_are_texts_or_ids_one_or_many(prompt, wanted):
    assert [ids.tolist() for ids in completion(prompt=prompt).prompts] == wanted


def test_a_chat_continued_by_its_last_message_has_the_ids_of_the_prompt_and_the_answer_so_far():
    messages = [{"role": "user", "content": "hello"}]
    so_far = [*messages, {"role": "assistant", "content": " bab dok"}]
    begun = chat(messages=messages).prompts[0].tolist()
    gone_on = chat(messages=so_far, continue_final_message=True, add_generation_prompt=False)
    assert gone_on.prompts[0].tolist() == begun + tokenise(" bab dok")


def test_a_chat_takes_ids_in_place_of_its_template():
    assert chat(kv_transfer_params={"prompt_token_ids": [7, 8, 9]}).prompts[0].tolist() == [7, 8, 9]


def test_text_parts_are_joined():
    parts = [{"type": "text", "text": "he"}, {"type": "text", "text": "llo"}]
    read = chat(messages=[{"role": "user", "content": parts}])
    assert read.prompts[0].tolist() == chat().prompts[0].tolist()


def test_usage_in_each_event_needs_usage_at_the_end_except_where_it_stands_alone():
    def told(sglang=False, **options):
        body = json.dumps({"prompt": "x", "stream": True, "stream_options": options}).encode()
        read = asked(body, chat=False, model="m", longest=100, sglang=sglang)
        return read.usage_last, read.usage_each

    assert told() == (False, False)
    assert told(include_usage=True) == (True, False)
    assert told(include_usage=True, continuous_usage_stats=True) == (True, True)
    assert told(continuous_usage_stats=True) == (False, False)
    assert told(sglang=True, continuous_usage_stats=True) == (False, True)


def test_a_seed_counts_where_something_is_drawn():
    assert completion(seed=5).seed == 5
    assert completion(seed=5, temperature=0).seed is None


def test_fields_of_real_engines_that_change_nothing_here_are_ignored():
    assert completion(top_p=0.3, presence_penalty=1, tools=[], vllm_xargs={"a": 1}).n == 1


@pytest.mark.parametrize(
    ("body", "status", "param"),
    [
        ({"model": "other"}, 404, "model"),
        ({"prompt": 5}, 400, "prompt"),
        ({"prompt": []}, 400, "prompt"),
        ({"prompt": ""}, 400, "prompt"),
        ({"prompt": ["x", 5]}, 400, "prompt"),
        ({"prompt": [99999999]}, 400, "prompt"),
        ({"max_tokens": 0}, 400, "max_tokens"),
        ({"max_tokens": 101}, 400, "max_tokens"),
        ({"prompt": [5] * 100}, 400, "max_tokens"),
        ({"max_tokens": "many"}, 400, "max_tokens"),
        ({"n": 0}, 400, "n"),
        ({"n": 2, "temperature": 0}, 400, "n"),
        ({"min_tokens": -1}, 400, "min_tokens"),
        ({"min_tokens": 17}, 400, "min_tokens"),
        ({"stream_options": {"include_usage": True}}, 400, "stream_options"),
        ({"stop": ["a", ""]}, 400, "stop"),
        ({"echo": True}, 400, "echo"),
        ({"best_of": 3}, 400, "best_of"),
        ({"logprobs": -1}, 400, "logprobs"),
        ({"logprobs": 21}, 400, "logprobs"),
    ],
)
def test_a_bad_field_is_refused_with_its_name(body, status, param):
    with pytest.raises(RefusedError) as error:
        completion(**body)
    assert (error.value.status, error.value.param) == (status, param)


@pytest.mark.parametrize(
    "body",
    [
        {"messages": []},
        {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
        {"kv_transfer_params": {"prompt_token_ids": "x"}},
        {"logprobs": True, "top_logprobs": 21},
        {"top_logprobs": 1},
        {"messages": "hello"},
    ],
)
def test_a_bad_chat_is_refused(body):
    with pytest.raises(RefusedError) as error:
        chat(**body)
    assert error.value.status == 400


def test_sglang_has_no_bounds_of_likely_tokens():
    def told(chat, **options):
        body = json.dumps({"prompt": "x", "messages": [{"role": "user", "content": "x"}], **options}).encode()
        read = asked(body, chat=chat, model="m", longest=100, sglang=True)
        return read.logprobs, read.top_logprobs

    assert told(False, logprobs=21) == (True, 21)
    assert told(False, logprobs=-1) == (True, 0)
    assert told(True, logprobs=True, top_logprobs=10**9) == (True, WORDS)
    assert told(True, top_logprobs=5)[0] is False


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff\xfe", b'{"prompt": "\xff"}', b'{"tools":' + b"[" * 100_000])
def test_what_is_no_json_object_is_refused(body):
    with pytest.raises(RefusedError):
        asked(body, chat=False, model="m", longest=100)
