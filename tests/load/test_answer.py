"""What an answer brings: good ones counted, and every way of losing something seen."""

from __future__ import annotations

import json
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenstep.load.answer import Answer, Meters

DONE = b"data: [DONE]\n\n"


def event(text=None, tokens=None, finish=None, ids=None, **more):
    choice = {"index": 0, "text": text or "", "finish_reason": finish}
    if ids is not None:
        choice["token_ids"] = ids
    value = {"choices": [choice], **more}
    if tokens is not None:
        value["usage"] = {"prompt_tokens": 7, "completion_tokens": tokens}
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def handed_back(text, tokens):
    return event(text, tokens, "stop").replace(b'"finish_reason"', b'"stop_reason": "recomputed", "finish_reason"')


def last_usage(tokens):
    usage = {"prompt_tokens": 7, "completion_tokens": tokens}
    return b"data: " + json.dumps({"choices": [], "usage": usage}).encode() + b"\n\n"


def chat(delta, finish=None, tokens=None):
    value = {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
    if tokens is not None:
        value["usage"] = {"prompt_tokens": 7, "completion_tokens": tokens}
    return b"data: " + json.dumps(value).encode() + b"\n\n"


GOOD = [event(" a", 1), event(" b c", 3), event("", 4, "length"), last_usage(4), DONE]


def answered(events, max_tokens=4):
    meters = Meters(100.0, 1.0)
    answer = Answer(max_tokens, meters)
    for place, one in enumerate(events):
        answer.feed(one, 101.0 + place)
    answer.end(101.0 + len(events))
    return answer, meters


def test_a_token_that_only_the_usage_at_the_end_tells_has_a_time():
    answer, meters = answered([chat({"role": "assistant"}), chat({}, "stop"), last_usage(1), DONE])
    assert (answer.error, answer.tokens, answer.counting) == ("", 1, "usage")
    assert (answer.first_s, answer.last_s, meters.tokens) == (103.0, 103.0, [0, 0, 0, 1])


def test_a_token_id_of_more_than_64_bits_is_counted_like_any_other():
    answer, _ = answered([event(" a", ids=[2**64 + 5, 6]), event("", finish="stop", ids=[]), DONE])
    assert (answer.error, answer.tokens, answer.counting) == ("", 2, "ids")


def test_tokens_are_counted_by_the_usage_in_each_chunk():
    answer, meters = answered(GOOD)
    assert (answer.error, answer.tokens, answer.prompt_tokens, answer.counting) == ("", 4, 7, "usage")
    assert (answer.first_s, answer.last_s) == (101.0, 103.0)
    assert meters.tokens == [0, 1, 2, 1]
    assert list(meters.gaps_s) == [1.0, 1.0]
    assert answer.crc == zlib.crc32(b" a b c")


def test_ids_count_as_well_and_are_held_against_the_usage():
    events = [event(" a", 1, ids=[5]), event(" b c", 4, "length", [6, 7, 8]), last_usage(4), DONE]
    answer, _ = answered(events)
    assert (answer.error, answer.tokens, answer.counting) == ("", 4, "ids")
    lost = [event(" a", 1, ids=[5]), event(" c", 4, "length", [7, 8]), last_usage(4), DONE]
    assert answered(lost)[0].error == "tokens-missing"
    twice = [event(" a", 1, ids=[5]), event(" a b", 2, ids=[5, 6]), event("", 4, "length", [7, 8]), DONE]
    assert answered(twice)[0].error == "tokens-twice"


def test_with_usage_at_the_end_alone_events_are_counted_until_it_comes():
    answer, meters = answered([event(" a"), event(" b c"), event("", finish="length"), last_usage(4), DONE])
    assert (answer.error, answer.tokens, answer.counting) == ("", 4, "usage")
    assert list(meters.gaps_s) == [1.0]


def test_tokens_that_only_the_usage_at_the_end_tells_are_spread_over_the_events():
    answer, meters = answered([event(" a"), event(" b c"), event(" d"), event("", finish="length"), last_usage(7), DONE], 7)
    assert (answer.error, answer.tokens, meters.tokens) == ("", 7, [0, 2, 2, 3])
    fewer, meters = answered([event(" a"), event(" b"), event("", finish="stop"), last_usage(1), DONE])
    assert (fewer.error, fewer.tokens, sum(meters.tokens)) == ("", 1, 1)


def test_chunks_after_one_with_usage_are_counted_even_if_they_tell_none():
    answer, meters = answered([event(" a", 1), event(" b"), event(" c d"), event("", finish="length"), last_usage(4), DONE])
    assert (answer.error, answer.tokens, meters.tokens) == ("", 4, [0, 1, 1, 2])
    assert list(meters.gaps_s) == [1.0, 1.0]


def test_a_usage_of_no_tokens_is_none_where_text_came():
    answer, _ = answered([event(" a"), event(" b c"), event("", finish="length"), last_usage(0), DONE])
    assert (answer.error, answer.tokens, answer.counting) == ("", 2, "estimated")


def test_a_usage_of_no_tokens_beside_text_is_none_in_each_event_too():
    texts = [event(" a", 0), event(" b", 0), event(" c d", 0), event("", 0, "length")]
    answer, meters = answered([*texts, last_usage(0), DONE])
    assert (answer.error, answer.tokens, answer.counting, meters.tokens) == ("", 3, "estimated", [0, 1, 1, 1])
    told, meters = answered([*texts, last_usage(4), DONE])
    assert (told.error, told.tokens, told.counting, meters.tokens) == ("", 4, "usage", [0, 1, 1, 2])
    assert (told.first_s, told.last_s) == (101.0, 103.0)


def test_usage_that_begins_later_than_the_text_does_not_make_the_first_event_the_whole_answer():
    answer, meters = answered([event(" a"), event(" b", 2), event(" c d", 4), event("", 4, "length"), last_usage(4), DONE])
    assert (answer.error, answer.tokens, meters.tokens) == ("", 4, [0, 1, 1, 2])
    assert (answer.last_s, list(meters.gaps_s)) == (103.0, [1.0, 1.0])


def test_without_any_usage_the_count_is_marked_estimated():
    answer, _ = answered([event(" a"), event(" b c"), event("", finish="length"), DONE])
    assert (answer.error, answer.tokens, answer.counting) == ("", 2, "estimated")


def test_the_role_of_a_chat_is_no_token():
    role = chat({"role": "assistant", "content": ""}, tokens=0)
    answer, _ = answered([role, chat({"content": "a"}, tokens=1), chat({}, "stop", 1), last_usage(1), DONE])
    assert (answer.error, answer.tokens, answer.first_s) == ("", 1, 102.0)


@pytest.mark.parametrize(
    ("events", "kind"),
    [
        (GOOD[:-1], "no-done"),
        ([GOOD[0], GOOD[1], DONE], "no-finish"),
        (GOOD[:2], "no-finish"),
        ([], "no-finish"),
        ([*GOOD, event(" x", 5)], "after-done"),
        ([*GOOD, DONE], "after-done"),
        ([GOOD[0], b'data: {"error": {"message": "died"}}\n\n', DONE], "error-event"),
        ([GOOD[0], b'data: {"object": "error", "message": "died"}\n\n', DONE], "error-event"),
        ([GOOD[0], b"data: {cut\n\n", *GOOD[1:]], "bad-chunk"),
        ([GOOD[0], b"data: {}\n\n", *GOOD[1:]], "bad-chunk"),
        ([*GOOD, b"data: half"], "bad-chunk"),
        ([event(" a", 1), event("", 1, "length"), last_usage(1), DONE], "tokens-missing"),
        ([event(" a", 5), event("", 5, "length"), last_usage(5), DONE], "tokens-twice"),
        ([event(" a", 3), event(" b", 2), event("", 4, "length"), DONE], "tokens-twice"),
        ([event(" a b c d", 4, "length"), event(" e", 5), DONE], "tokens-twice"),
        ([event("", 0, "stop"), last_usage(0), DONE], "empty"),
        ([event(" a", 1, "abort"), DONE], "finish-abort"),
        ([event(" a", 1), handed_back(" b", 2), last_usage(2), DONE], "finish-recomputed"),
    ],
)
def test_what_is_not_whole_is_an_error(events, kind):
    assert answered(events)[0].error == kind


def test_an_end_before_the_length_is_fine_when_the_model_stopped():
    assert answered([event(" a", 1, "stop"), last_usage(1), DONE])[0].error == ""


def test_a_choice_nobody_asked_for_is_an_error():
    other = b'data: {"choices": [{"index": 1, "text": "a", "finish_reason": null}]}\n\n'
    assert answered([GOOD[0], other, *GOOD[1:]])[0].error == "bad-chunk"


def test_comments_and_empty_events_say_nothing():
    assert answered([b": ping\n\n", *GOOD])[0].error == ""


def test_the_first_thing_that_is_wrong_decides():
    answer, _ = answered([b"data: {cut\n\n", b'data: {"error": "x"}\n\n'])
    assert answer.error == "bad-chunk"
    answer.fail("timeout", "late")
    assert answer.error == "bad-chunk"


@given(st.lists(st.integers(1, 40)), st.sampled_from([GOOD, [GOOD[0], GOOD[1]], [*GOOD, DONE]]))
def test_it_does_not_matter_how_the_bytes_are_cut(cuts, events):
    whole = b"".join(events)
    meters = Meters(0.0, 1.0)
    answer, place = Answer(4, meters), 0
    for size in [*cuts, len(whole)]:
        if place < len(whole):
            answer.feed(whole[place : place + size], 1.0)
            place += size
    answer.end(2.0)
    told = answered(events)[0]
    assert (answer.error, answer.tokens, answer.finish, answer.crc) == (
        told.error,
        told.tokens,
        told.finish,
        told.crc,
    )


RECORDED = json.loads((Path(__file__).parents[1] / "engines" / "recorded" / "vllm-0.32.0.json").read_text(encoding="utf-8"))
SINGLE = [name for name, one in RECORDED.items() if isinstance(one, dict) and one["request"].get("n", 1) == 1]


@pytest.mark.parametrize("name", SINGLE)
@pytest.mark.parametrize(("side", "counting"), [("engine", {"ids"}), ("client", {"ids", "usage", "estimated"})])
def test_streams_recorded_of_vllm_are_whole_and_counted(name, side, counting):
    """`engine`: all that can be asked for; `client`: what its request asked for."""
    one = RECORDED[name]
    asked = one["request"].get("max_tokens") or one["request"]["max_completion_tokens"]
    answer, _ = answered([one[side].encode()], asked)
    assert answer.error == ""
    assert answer.counting in counting
    if answer.counting != "estimated":
        assert answer.tokens == asked


def test_a_chunk_of_no_choice_and_no_usage_says_nothing():
    said = b'data: {"choices": []}\n\n'
    answer, _ = answered([said, *GOOD[:-1], said, DONE])
    assert (answer.error, answer.tokens) == ("", 4)


def test_usage_of_tokens_whose_ids_did_not_come_is_seen():
    answer, _ = answered([event("", 1, ids=[])])
    assert (answer.error, answer.message) == ("tokens-missing", "0 token ids came, usage tells 1")


def test_an_event_that_only_the_end_of_the_stream_completes_counts():
    answer, _ = answered([*GOOD[:-1], b"data: [DONE]\r\r"])
    assert (answer.error, answer.tokens) == ("", 4)
