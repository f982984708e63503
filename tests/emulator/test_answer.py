"""Tokens in, bytes out, and what each fault makes of it."""

from __future__ import annotations

import json

import pytest
from tests.emulator.running import events

from evenstep.emulator.answer import Answer
from evenstep.emulator.emulated_request import asked
from evenstep.emulator.faults import Fault
from evenstep.emulator.tokens import END, TEXT
from evenstep.emulator.wording import Wording
from evenstep.engines.dialects.sglang import SGLang
from evenstep.engines.dialects.vllm import VLLM
from evenstep.engines.streams.reply import ReplyStream
from evenstep.engines.view import UsageOptions


class Out:
    """Keeps what it is given."""

    def __init__(self):
        self.paused, self.resumed = False, None
        self.sent, self.writes, self.ended, self.aborted, self.replied, self.started = (
            b"",
            0,
            False,
            False,
            None,
            False,
        )

    def reply(self, status, body, kind="application/json", headers=()):
        self.replied = (status, body, kind, list(headers))

    def start(self):
        self.started = True

    def send(self, data, *, last=False):
        assert not self.ended
        self.sent, self.writes, self.ended = self.sent + data, self.writes + 1, last

    def abort(self):
        self.aborted = True


class Host:
    def __init__(self):
        self.stopped, self.struck = [], []

    def stop(self, key, finish):
        self.stopped.append((key, finish))

    def strike(self, rank, fault):
        self.struck.append((rank, fault.fault))


def answer(fault=None, *, chat=False, dialect="vllm", **body):
    base = {"messages": [{"role": "user", "content": "hi"}]} if chat else {"prompt": "hi"}
    read = asked(json.dumps({"stream": True, **base, **body}).encode(), chat=chat, model="m", longest=999)
    out, host = Out(), Host()
    made = Answer(
        read, Wording(read, dialect, "id", 17, "m"), out, host.stop, host.strike, fault, 3, range(100, 100 + read.n)
    )
    return made, out, host


def feed(made, *ids, finish=None):
    """Tokens, one a step; the last with a finish."""
    for place, token in enumerate(ids):
        made.produced(made.parts[0], token, finish if place == len(ids) - 1 else None)
        made.flush()


def texts(out):
    return [e["choices"][0]["text"] for e in events(out.sent) if e != "[DONE]" and e.get("choices")]


def test_a_stream_is_one_write_a_step_and_ends_with_done():
    made, out, _ = answer(stream_options={"include_usage": True})
    assert made.begin()
    assert out.started
    feed(made, 3, 4, 5, finish="length")
    assert (texts(out), out.writes, out.ended) == ([" bab", " bad", " baf"], 3, True)
    found = events(out.sent)
    assert found[2]["choices"][0]["finish_reason"] == "length"
    assert found[3]["usage"]["completion_tokens"] == 3
    assert found[4] == "[DONE]"


def test_while_the_client_does_not_read_tokens_gather_and_come_in_one_event():
    made, out, _ = answer(return_token_ids=True)
    made.begin()
    out.paused = True
    feed(made, 3, 4, 5, finish="length")
    assert out.sent == b""
    out.paused = False
    out.resumed()
    assert [e["choices"][0]["token_ids"] for e in events(out.sent)[:-1]] == [[3, 4, 5]]
    assert texts(out) == [TEXT[3] + TEXT[4] + TEXT[5]]
    assert out.ended


def test_an_answer_that_is_no_stream_comes_whole():
    made, out, _ = answer(stream=False)
    made.begin()
    feed(made, 3, 4, finish="length")
    assert json.loads(out.replied[1])["choices"][0]["text"] == " bab bad" and made.over


def test_a_stop_text_ends_the_answer_and_is_not_shown():
    made, out, host = answer(stop=["ad b"])
    made.begin()
    feed(made, 3, 4)
    assert texts(out)[-1] == " b"
    feed(made, 5)
    assert "".join(texts(out)) == " bab b"
    last = events(out.sent)[-2]["choices"][0]
    assert (last["finish_reason"], last["stop_reason"], host.stopped) == ("stop", "ad b", [(100, "stop")])
    assert out.ended


def test_what_a_stop_text_held_back_is_shown_when_the_answer_ends_otherwise():
    made, out, _ = answer(stop=["ad b"])
    made.begin()
    feed(made, 3, 4, finish="length")
    assert "".join(texts(out)) == " bab bad"


def test_the_end_token_counts_and_has_no_text():
    made, out, _ = answer(stream_options={"include_usage": True}, return_token_ids=True)
    made.begin()
    feed(made, 3, END, finish="stop")
    assert texts(out) == [" bab", ""]
    found = events(out.sent)
    assert found[1]["choices"][0]["stop_reason"] is None
    assert found[2]["usage"]["completion_tokens"] == 2


def test_a_stop_id_is_the_stop_reason():
    made, out, _ = answer(stop_token_ids=[4])
    made.begin()
    feed(made, 3, 4, finish="stop")
    assert events(out.sent)[1]["choices"][0]["stop_reason"] == 4


def test_several_answers_share_one_stream_and_one_write_a_step():
    made, out, _ = answer(chat=True, n=2)
    made.begin()
    for part in made.parts:
        made.produced(part, 3, "length" if part.index else None)
    made.flush()
    assert (out.writes, out.ended) == (1, False)
    made.produced(made.parts[0], 4, "length")
    made.flush()
    found = [e["choices"][0] for e in events(out.sent)[:-1]]
    assert [(c["index"], c["delta"].get("role"), c["delta"]["content"]) for c in found] == [
        (0, "assistant", ""),
        (1, "assistant", ""),
        (0, None, " bab"),
        (1, None, " bab"),
        (0, None, " bad"),
    ]


def test_sglang_ends_a_chat_in_an_event_of_its_own():
    made, out, _ = answer(chat=True, dialect="sglang")
    made.begin()
    feed(made, 3, finish="length")
    found = [e["choices"][0] for e in events(out.sent)[:-1]]
    assert [c["finish_reason"] for c in found] == [None, None, "length"]
    assert found[2]["delta"] == {}


def test_an_engine_that_gives_up_says_so_in_an_event():
    made, out, _ = answer()
    made.begin()
    feed(made, 3)
    made.fail("gone")
    assert events(out.sent)[1]["error"]["message"] == "gone"
    feed(made, 4)
    assert out.ended
    whole, out, _ = answer(stream=False)
    whole.begin()
    whole.fail("gone")
    assert out.replied[0] == 500


@pytest.mark.parametrize(
    ("fault", "status", "body", "kind"),
    [
        (Fault("status", status=502, retry_after_s=7), 502, b'{"error"', "application/json"),
        (Fault("html"), 200, b"<html>", "text/html; charset=utf-8"),
        (Fault("empty"), 200, b"", "text/event-stream; charset=utf-8"),
    ],
)
def test_some_faults_answer_in_place_of_the_engine(fault, status, body, kind):
    made, out, _ = answer(fault)
    assert not made.begin()
    assert out.replied[0] == status
    assert out.replied[1].startswith(body) and bool(out.replied[1]) == bool(body)
    assert out.replied[2] == kind and made.over
    assert (("Retry-After", "7") in out.replied[3]) == (fault.fault == "status")


def test_a_refused_connection_is_closed_and_a_stalled_one_never_answered():
    made, out, _ = answer(Fault("refuse"))
    assert not made.begin()
    assert out.aborted
    made, out, _ = answer(Fault("stall"))
    assert made.begin()
    feed(made, 3, 4, finish="length")
    assert (out.started, out.sent, out.ended) == (False, b"", False)


def test_a_stall_in_mid_stream_leaves_the_connection_open():
    made, out, _ = answer(Fault("stall", after_tokens=2))
    made.begin()
    feed(made, 3, 4, 5, 6, finish="length")
    assert (texts(out), out.ended, out.aborted) == ([" bab", " bad"], False, False)


def test_dying_in_mid_stream_breaks_the_connection_after_the_tokens_said():
    made, out, host = answer(Fault("die", after_tokens=2))
    made.begin()
    feed(made, 3, 4, 5)
    assert (texts(out), out.ended, out.aborted, host.stopped) == (
        [" bab", " bad"],
        False,
        True,
        [(100, "abort")],
    )


@pytest.mark.parametrize("kind", ["kill-rank", "kill-group"])
def test_a_killing_fault_is_carried_out_by_the_host(kind):
    made, _, host = answer(Fault(kind, after_tokens=1))
    made.begin()
    feed(made, 3, 4)
    assert host.struck == [(3, kind)]


def test_a_cut_stream_ends_cleanly_without_its_end():
    made, out, host = answer(Fault("cut", after_tokens=1))
    made.begin()
    feed(made, 3, 4)
    assert (texts(out), out.ended, host.stopped) == ([" bab"], True, [(100, "abort")])
    assert b"[DONE]" not in out.sent
    made, out, host = answer(Fault("cut"))
    assert made.begin()
    feed(made, 3)
    assert (out.started, out.sent, out.ended, out.replied, host.stopped) == (True, b"", True, None, [(100, "abort")])


@pytest.mark.parametrize("kind", ["die", "cut", "stall", "error-event"])
def test_tokens_of_the_step_in_which_a_fault_strikes_come_out_before_it(kind):
    made, out, host = answer(Fault(kind, after_tokens=1), n=2)
    made.begin()
    made.produced(made.parts[0], 3, None)
    made.produced(made.parts[1], 4, None)
    assert texts(out) == [" bab"] and made.over is (kind != "stall")
    assert host.stopped == ([] if kind == "stall" else [(100, "abort"), (101, "abort")])


def test_a_token_of_a_sequence_that_has_ended_is_ignored_and_nothing_is_sent_before_the_first_one():
    made, out, _ = answer(n=2, chat=True, stream_options={"include_usage": True})
    made.begin()
    made.flush()
    assert out.writes == 0
    feed(made, 3, finish="length")
    feed(made, 4)
    made.produced(made.parts[1], 5, "length")
    made.flush()
    *_, usage, end = events(out.sent)
    assert usage["usage"]["completion_tokens"] == 2 and end == "[DONE]" and made.over
    assert TEXT[4].encode() not in out.sent


def test_a_cut_answer_is_half_a_json_object():
    for after, fault in ((0, Fault("cut")), (1, Fault("cut", after_tokens=1))):
        made, out, _ = answer(fault, stream=False)
        if made.begin():
            feed(made, 3, 4, finish="length")
        assert out.replied[0] == 200 and out.replied[1].startswith(b'{"id":"') and made.over, after
        with pytest.raises(json.JSONDecodeError):
            json.loads(out.replied[1])


@pytest.mark.parametrize("kind", ["cut", "malformed"])
def test_an_answer_of_fewer_tokens_than_a_fault_lets_through_is_whole(kind):
    made, out, _ = answer(Fault(kind, after_tokens=2), stream=False)
    made.begin()
    feed(made, 3, 4, finish="length")
    assert json.loads(out.replied[1])["choices"][0]["text"] == " bab bad"


def test_a_malformed_event_comes_between_good_ones():
    made, out, _ = answer(Fault("malformed", after_tokens=1))
    made.begin()
    feed(made, 3, 4, finish="length")
    pieces = out.sent.split(b"\n\n")
    with pytest.raises(json.JSONDecodeError):
        json.loads(pieces[1][6:])
    assert [json.loads(pieces[i][6:])["choices"][0]["text"] for i in (0, 2)] == [" bab", " bad"]
    assert out.ended


def test_an_error_event_ends_the_stream():
    made, out, host = answer(Fault("error-event", after_tokens=1))
    made.begin()
    feed(made, 3, 4)
    assert events(out.sent)[1]["error"]["message"]
    assert out.ended
    assert host.stopped == [(100, "abort")]


def test_recomputed_is_a_finish_with_its_own_stop_reason():
    made, out, host = answer(Fault("recomputed", after_tokens=1))
    made.begin()
    feed(made, 3, 4)
    last = events(out.sent)[1]["choices"][0]
    assert (last["text"], last["finish_reason"], last["stop_reason"]) == ("", "stop", "recomputed")
    assert (out.ended, host.stopped) == (True, [(100, "stop")])


def test_a_recomputed_answer_has_the_text_that_was_held_back():
    made, out, _ = answer(Fault("recomputed", after_tokens=2), stop=[TEXT[4] + "x"])
    made.begin()
    feed(made, 3, 4, 5)
    assert "".join(e["choices"][0]["text"] for e in events(out.sent)[:-1]) == TEXT[3] + TEXT[4]


@pytest.mark.parametrize("dialect", ["vllm", "sglang"])
def test_a_token_whose_text_is_held_back_in_a_chat_has_its_log_probability(dialect):
    made, out, _ = answer(chat=True, dialect=dialect, stop=[TEXT[3] + "x"], logprobs=True)
    made.begin()
    feed(made, 3, 4, 5, finish="length")
    told = [e["choices"][0]["logprobs"] for e in events(out.sent)[:-1]]
    assert [one["token"] for lp in told if lp for one in lp["content"]] == [TEXT[3], TEXT[4], TEXT[5]]


def test_a_recomputed_chat_of_sglang_has_no_event_without_a_token():
    made, out, _ = answer(Fault("recomputed", after_tokens=2), chat=True, dialect="sglang", logprobs=True)
    made.begin()
    feed(made, 3, 4, 5)
    role, *told, end = (e["choices"][0] for e in events(out.sent)[:-1])
    assert [len(one["logprobs"]["content"]) for one in told] == [1, 1]
    assert (role["finish_reason"], end["matched_stop"]) == (None, "recomputed")


def test_a_recomputed_answer_counts_the_tokens_that_came():
    made, out, _ = answer(Fault("recomputed", after_tokens=2), stream_options={"include_usage": True})
    made.begin()
    feed(made, 3, 4, 5)
    assert events(out.sent)[-2]["usage"]["completion_tokens"] == 2


def test_a_304_has_no_body():
    made, out, _ = answer(Fault("status", status=304))
    made.begin()
    assert out.replied[:2] == (304, b"")


def test_usage_in_each_event_is_that_of_its_own_answer_and_at_the_end_that_of_all():
    options = {"include_usage": True, "continuous_usage_stats": True}
    made, out, _ = answer(n=2, stream_options=options)
    made.begin()
    for part, count in zip(made.parts, (2, 3), strict=True):
        for left in reversed(range(count)):
            made.produced(part, 3, None if left else "length")
            made.flush()
    assert [e["usage"]["completion_tokens"] for e in events(out.sent)[:-1]] == [1, 2, 1, 2, 3, 5]


def test_a_silent_answer_breaks_when_its_engine_dies():
    made, out, _ = answer(Fault("stall"))
    made.begin()
    made.fail("gone")
    assert (out.aborted, out.sent) == (True, b"")


@pytest.mark.parametrize("adapter", [VLLM("0.32.0"), SGLang()], ids=["vllm", "sglang"])
@pytest.mark.parametrize("chat", [False, True])
@pytest.mark.parametrize("more", [{}, {"n": 2}, {"stop": ["ad b"]}, {"logprobs": 1}], ids=str)
def test_what_a_gateway_asks_for_beside_the_client_can_be_taken_out_again_to_the_byte(adapter, chat, more):
    """The emulator and `evenstep.engines` agree on how an engine speaks."""
    dialect = "vllm" if isinstance(adapter, VLLM) else "sglang"
    if chat and "logprobs" in more:
        more = {"logprobs": True}

    def stream(asks):
        body = {"stream_options": {"include_usage": asks.usage, "continuous_usage_stats": asks.continuous}}
        made, out, _ = answer(chat=chat, dialect=dialect, **body, return_token_ids=asks.token_ids, **more)
        made.begin()
        for step, token in enumerate((3, 4, 5, 7, END)):
            for part in made.parts:
                made.produced(part, token, "stop" if step == 4 else None)
            made.flush()
        assert out.ended
        return out.sent

    ours = UsageOptions(usage=True, continuous=True, token_ids=dialect == "vllm")
    for client in (UsageOptions(), UsageOptions(usage=True), UsageOptions(usage=True, continuous=True)):
        reply = ReplyStream(adapter.dialect, chat=chat, client=client, engine=ours, choices=more.get("n", 1), keep=True)
        assert reply.feed(stream(ours)) + reply.end() == stream(client)
        assert (reply.done, reply.failure, reply.estimated) == (True, None, False)
        assert reply.produced == (3 if "stop" in more else 5 * more.get("n", 1))


def test_the_offsets_of_a_stream_go_on_from_event_to_event():
    made, out, _ = answer(logprobs=1, n=2)
    made.begin()
    for step in range(3):
        for part in made.parts:
            made.produced(part, 3 + step, "length" if step == 2 else None)
        made.flush()
    told = [(e["choices"][0]["index"], e["choices"][0]["logprobs"]["text_offset"]) for e in events(out.sent)[:-1]]
    assert told == [(0, [0]), (1, [0]), (0, [4]), (1, [4]), (0, [8]), (1, [8])]


def test_a_stop_text_ends_no_answer_of_fewer_tokens_than_asked_for():
    made, out, host = answer(stop=[TEXT[3]], min_tokens=2)
    made.begin()
    feed(made, 4, 3, 4, 3, finish=None)
    assert "".join(texts(out)) == TEXT[4] + TEXT[3] + TEXT[4]
    assert (made.parts[0].stop_reason, host.stopped) == (TEXT[3], [(100, "stop")])
