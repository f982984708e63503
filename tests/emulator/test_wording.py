from __future__ import annotations

import json

import pytest

from evenstep.emulator import tokens
from evenstep.emulator.emulated_request import asked
from evenstep.emulator.wording import Choice, Wording, error_body, error_event, models_body

WORD = 3  # " bab"


def wording(dialect="vllm", *, chat=False, answer_id="cmpl-1", **body):
    base = {"messages": [{"role": "user", "content": "hi"}]} if chat else {"prompt": "hi"}
    read = asked(json.dumps({**base, **body}).encode(), chat=chat, model="m", longest=999, sglang=True)
    return Wording(read, dialect, answer_id, 17, "m")


def read(event):
    assert event.startswith(b"data: ")
    assert event.endswith(b"\n\n")
    return json.loads(event[6:])


def test_a_token_of_a_completion_is_one_event():
    assert read(wording().event(Choice(0, [WORD], ""))) == {
        "id": "cmpl-1",
        "object": "text_completion",
        "created": 17,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "text": " bab",
                "logprobs": None,
                "finish_reason": None,
                "stop_reason": None,
                "prompt_token_ids": None,
                "token_ids": None,
            }
        ],
    }


def test_a_token_of_a_chat_is_a_delta_after_a_role():
    made = wording(chat=True, return_token_ids=True)
    first, second = (
        read(made.role_event(Choice(0, [], prompt=[7]))),
        read(made.event(Choice(0, [WORD], "", prompt_tokens=1, produced=1))),
    )
    assert first["object"] == second["object"] == "chat.completion.chunk"
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert first["prompt_token_ids"] == [7]
    assert second["choices"][0]["delta"] == {"content": " bab"}


def test_usage_and_ids_are_there_when_asked_for():
    options = {"include_usage": True, "continuous_usage_stats": True}
    made = wording(stream_options=options, return_token_ids=True)
    found = read(made.event(Choice(0, [WORD, WORD], " bab bab", "length", None, [7], prompt_tokens=1, produced=5)))
    assert found["usage"] == {"prompt_tokens": 1, "total_tokens": 6, "completion_tokens": 5}
    assert found["choices"][0]["token_ids"] == [WORD, WORD]
    assert found["choices"][0]["prompt_token_ids"] == [7]
    assert found["choices"][0]["text"] == " bab bab"
    last = read(made.usage_event(5))
    assert last["choices"] == []
    role = wording(chat=True, stream_options=options).role_event(Choice(0, [], prompt_tokens=7))
    assert read(role)["usage"] == {"prompt_tokens": 7, "total_tokens": 7, "completion_tokens": 0}


@pytest.mark.parametrize(
    ("dialect", "chat", "last", "shown"),
    [
        ("vllm", False, False, "absent"),
        ("vllm", False, True, "absent"),
        ("sglang", False, False, None),
        ("sglang", True, False, "absent"),
    ],
)
def test_usage_that_is_not_told_is_absent_or_null_as_the_engine_has_it(dialect, chat, last, shown):
    made = wording(dialect, chat=chat, stream_options={"include_usage": last})
    assert read(made.event(Choice(0, [WORD], "", prompt_tokens=1, produced=1))).get("usage", "absent") == shown


def test_sglang_names_stops_its_own_way_and_ends_a_chat_apart():
    made = wording("sglang", chat=True, return_token_ids=True)
    _, last = made.events(Choice(0, [], "", "stop", "END", prompt_tokens=1, produced=3))
    found = read(last)["choices"][0]
    assert (found["delta"], found["finish_reason"], found["matched_stop"]) == ({}, "stop", "END")
    assert "token_ids" not in read(made.event(Choice(0, [WORD], "", prompt_tokens=1, produced=1)))["choices"][0]


def test_a_whole_answer_has_all_choices_and_what_they_cost():
    made = wording(n=2, return_token_ids=True)
    choices = [Choice(i, [WORD] * (i + 1), " bab" * (i + 1), "length", None, [7]) for i in (0, 1)]
    found = json.loads(made.whole(choices, {"do_remote_prefill": True}))
    assert [c["text"] for c in found["choices"]] == [" bab", " bab bab"]
    assert found["choices"][1]["token_ids"] == [WORD, WORD]
    assert found["usage"]["completion_tokens"] == 3
    assert found["kv_transfer_params"] == {"do_remote_prefill": True}
    said = json.loads(wording(chat=True).whole([choices[0]], None))["choices"][0]["message"]
    assert said == {"role": "assistant", "content": " bab"}


@pytest.mark.parametrize("ids", [False, True])
def test_vllm_tells_why_a_chat_stopped_only_in_the_event_that_ends_it(ids):
    made = wording(chat=True, return_token_ids=ids)
    for finish, reason in ((None, {}), ("stop", {"stop_reason": "END"})):
        found = read(made.event(Choice(0, [WORD], "", finish, "END" if finish else None)))["choices"][0]
        assert {name: value for name, value in found.items() if name == "stop_reason"} == reason
        assert found["token_ids"] == ([WORD] if ids else None)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_the_likeliest_tokens_are_as_many_as_asked_for_the_chosen_one_first(count):
    for token, text in ((WORD, " bab"), (tokens.END, "")):
        choice = Choice(0, [token], text, "stop", prompt_tokens=1, produced=1)
        made = wording(chat=True, logprobs=True, top_logprobs=count)
        (one,) = read(made.event(choice))["choices"][0]["logprobs"]["content"]
        assert len(one["top_logprobs"]) == count
        assert [top["logprob"] for top in one["top_logprobs"]] == [-0.25, -2.25, -4.25][:count]
        assert all(top["token"] == text for top in (one, *one["top_logprobs"][:1]))
        (top,) = read(wording(logprobs=count).event(choice))["choices"][0]["logprobs"]["top_logprobs"]
        assert len(top) == max(1, count) and next(iter(top)) == text


@pytest.mark.parametrize(("chat", "asks"), [(False, 1), (True, True)])
def test_log_probabilities_have_one_number_a_token(chat, asks):
    made = wording(chat=chat, logprobs=asks)
    found = read(made.event(Choice(0, [WORD, WORD + 1], " bab bad", prompt_tokens=1, produced=2)))["choices"][0]["logprobs"]
    if chat:
        assert [one["token"] for one in found["content"]] == [" bab", " bad"]
    else:
        assert (found["tokens"], found["text_offset"]) == ([" bab", " bad"], [0, 4])


def test_names_with_signs_of_templates_and_json_survive():
    made = wording(answer_id='cmpl-100%d"\\')
    assert read(made.event(Choice(0, [WORD], "", prompt_tokens=1, produced=1)))["id"] == 'cmpl-100%d"\\'
    assert read(made.usage_event(1))["id"] == 'cmpl-100%d"\\'


def test_errors_are_openai_objects():
    found = json.loads(error_body(404, "no such model", "model"))["error"]
    assert found == {"message": "no such model", "type": "NotFoundError", "param": "model", "code": 404}
    assert read(error_event("gone"))["error"]["code"] == 500
    kinds = {401: "BadRequestError", 500: "InternalServerError", 503: "ServiceUnavailableError"}
    assert {status: json.loads(error_body(status, ""))["error"]["type"] for status in kinds} == kinds
    assert json.loads(models_body("m", 5, 17))["data"][0]["max_model_len"] == 5


@pytest.mark.parametrize("chat", [False, True])
@pytest.mark.parametrize("dialect", ["vllm", "sglang"])
@pytest.mark.parametrize("ids", [False, True])
def test_a_whole_answer_has_ids_and_a_hand_over_only_where_the_engine_has_them(dialect, chat, ids):
    choice = Choice(0, [WORD], " bab", "stop", prompt=[7] if ids else None, prompt_tokens=1, produced=1)
    found = json.loads(wording(dialect, chat=chat, return_token_ids=ids).whole([choice], {"remote_port": 9}))
    has_ids = ids and dialect == "vllm"
    told = {"token_ids": [WORD], "prompt_token_ids": [7]} if has_ids else {}
    places = {**found, **found["choices"][0]}
    assert {name: places[name] for name in ("token_ids", "prompt_token_ids") if name in places} == told
    assert ("prompt_token_ids" in found) is (has_ids and chat), "of a chat beside the choices"
    assert found.get("kv_transfer_params", "none") == ({"remote_port": 9} if dialect == "vllm" else "none")


def test_a_chunk_of_a_chat_without_text_is_sent_only_for_its_ids():
    special = Choice(0, [1], "")
    assert wording(chat=True).event(special) == b""
    found = read(wording(chat=True, return_token_ids=True).event(special))
    assert found["choices"][0]["delta"] == {} and found["choices"][0]["token_ids"] == [1]
    assert read(wording().event(special))["choices"][0]["text"] == ""
