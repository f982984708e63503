"""Streams on their way: what the client gets is what the engine would have said without our questions."""

from __future__ import annotations

import dataclasses
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.strategies import chunk_streams, examples, pieces

from evenstep.engines.streams import full_reply
from evenstep.engines.streams import reply as reply_module
from evenstep.engines.streams.reply import ReplyStream
from evenstep.engines.streams.usage import SoFar
from evenstep.engines.view import Dialect, UsageOptions

ALL = UsageOptions(usage=True, continuous=True, token_ids=True)
USAGE = UsageOptions(usage=True, continuous=True)
NOTHING = UsageOptions()
asked = st.sampled_from([NOTHING, UsageOptions(usage=True), USAGE, UsageOptions(token_ids=True), ALL])


def opened(stream, client, engine, **more) -> ReplyStream:
    return ReplyStream(Dialect(), chat=stream.chat, client=client, engine=engine, choices=stream.choices, **more)


@pytest.mark.slow
@examples(300)
@given(chunk_streams(), asked, st.booleans(), st.data())
def test_the_client_gets_what_the_engine_would_have_said_without_our_questions(stream, client, with_ids, data):
    engine = UsageOptions(True, True, client.token_ids or with_ids)
    reply = opened(stream, client, engine)
    sent = b"".join(stream.events(engine))
    got = b"".join(reply.feed(part) for part in data.draw(pieces(sent))) + reply.end()
    assert got == b"".join(stream.events(client))
    assert reply.done and reply.finished and reply.failure is None
    assert reply.produced == stream.tokens
    assert reply.prompt_tokens == len(stream.prompt_ids)
    assert not reply.estimated


@examples(200)
@given(chunk_streams(), asked, st.booleans(), st.data())
def test_ids_of_a_prompt_that_are_put_aside_unread_change_nothing(stream, client, keep, data):
    engine = UsageOptions(True, True, True)
    sent = data.draw(pieces(b"".join(stream.events(engine))))
    keep = keep and stream.choices == 1
    found = []
    for most in (0, 1 << 20):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(full_reply, "LONG", most)
            patched.setattr(reply_module, "LONG", most)
            reply = opened(stream, client, engine, keep=keep)
            got = b"".join(reply.feed(part) for part in sent) + reply.end()
        found.append((got, reply.produced, reply.prompt_tokens, reply.done, keep and reply.so_far()))
    assert found[0] == found[1]


@pytest.mark.parametrize("chat", [True, False])
def test_a_long_prompts_ids_are_kept_for_an_engine_that_goes_on_and_are_never_parsed(chat):
    ids = b"[" + b",".join(b"%d" % n for n in range(20_000)) + b"]"
    choice = b'"delta":{"role":"assistant","content":""}' if chat else b'"text":"","prompt_token_ids":%b' % ids
    more = b',"prompt_token_ids":%b' % ids if chat else b""
    event = b'data: {"id":"c","created":1,"choices":[{"index":0,%b}]%b}\n\n' % (choice, more)
    reply = ReplyStream(Dialect(), chat=chat, client=NOTHING, engine=ALL, keep=True)
    read = list[int]()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            full_reply,
            "read_chunk",
            lambda data, was=full_reply.read_chunk: read.append(len(data)) or was(data),
        )
        out = reply.feed(event)
    assert len(read) == 1 and read[0] < 300
    assert b'"prompt_token_ids":null' in out and len(out) < 300
    assert reply.so_far().prompt_ids == ids


@examples(150)
@given(chunk_streams(), st.data())
def test_tokens_are_counted_by_ids_where_no_usage_comes(stream, data):
    reply = opened(stream, UsageOptions(token_ids=True), UsageOptions(token_ids=True))
    for event in stream.events(UsageOptions(token_ids=True)):
        reply.feed(event)
    assert reply.produced == stream.tokens and not reply.estimated


@examples(150)
@given(chunk_streams(), asked, st.data())
def test_a_stream_cut_anywhere_is_a_failure_and_a_prefix(stream, client, data):
    engine = UsageOptions(True, True, client.token_ids)
    sent = b"".join(stream.events(engine))
    cut = data.draw(st.integers(0, len(sent)))
    reply = opened(stream, client, engine)
    got = reply.feed(sent[:cut]) + reply.end()
    whole = b"".join(stream.events(client))
    if reply.failure is None:
        assert reply.done and got.endswith(b"data: [DONE]\n\n")
        assert reply.produced == stream.tokens
    else:
        assert whole.startswith(got) and not reply.done and not reply.finished
        assert b"[DONE]" not in got[-20:]
        assert got == b"" or got.endswith(b"\n\n")


@examples(150)
@given(chunk_streams(choices=(1, 1)), st.sampled_from([NOTHING, USAGE, ALL]), st.data())
def test_a_stream_continued_elsewhere_reads_as_one(stream, client, data):
    """The second engine has what the client has as its prompt; ids, time and counts are those of the first."""
    engine = UsageOptions(True, True, True)
    events = stream.events(engine)
    cut = data.draw(st.integers(0, len(events) - 3 + stream.chat))
    first = opened(stream, client, engine, keep=True)
    got = b"".join(first.feed(event) for event in events[:cut])
    if first.finished:
        return
    before = first.so_far()
    assert before.plain
    left, steps = len(before.ids), []
    for choice, ids, text, reason in stream.steps:  # what the second engine still has to say
        if left >= len(ids):
            left -= len(ids)
            continue
        steps.append((choice, ids, text, reason))
    rest = type(stream)(stream.chat, stream.prompt_ids + before.ids, tuple(steps), 1, stream.fingerprint)
    sent = b"".join(rest.events(engine)).replace(b'-7f"', b'-other"').replace(b"1763766000", b"1763766009")
    given = json.dumps([*stream.prompt_ids, *before.ids]).encode() if before.ids else b""
    second = opened(stream, client, engine, before=before, given=given)
    got += b"".join(second.feed(part) for part in data.draw(pieces(sent))) + second.end()
    assert second.done and second.produced == stream.tokens
    assert second.prompt_tokens == len(stream.prompt_ids)
    assert _said(got) == _said(b"".join(stream.events(client)))
    assert not cut or (b"other" not in got and b"1763766009" not in got)


@examples(150)
@given(
    chunk_streams(choices=(1, 1)),
    st.sampled_from([NOTHING, USAGE, ALL]),
    st.sampled_from([USAGE, ALL]),
    st.data(),
)
def test_of_an_engine_that_answers_from_the_start_no_byte_goes_on(stream, client, tells, data):
    """Whether it tells the ids of the prompt it answers, or only how many they are."""
    first = opened(stream, client, ALL, keep=True)
    events = stream.events(ALL)
    for event in events[: data.draw(st.integers(1, len(events)))]:
        first.feed(event)
    before = first.so_far()
    if first.finished or not before.ids:
        return
    given = json.dumps([*stream.prompt_ids, *before.ids]).encode()
    second = opened(stream, client, tells, before=before, given=given, keep=True)
    sent = b"".join(stream.events(tells))
    got = b"".join(second.feed(part) for part in data.draw(pieces(sent))) + second.end()
    assert got == b"" and second.starts_anew and second.failure is not None and not second.done
    assert second.so_far() == before


def test_a_chat_that_goes_on_is_believed_only_where_the_engine_says_so():
    before = SoFar(b'"1"', b"1", 2, 1, b"[9,8]", (1,), "a", True)
    said = b'data: {"id":"2","created":2,"choices":[{"index":0,"delta":{"content":"b"}}]}\n\n'
    chat = ReplyStream(Dialect(), chat=True, client=NOTHING, engine=ALL, before=before, given=b"[9,8,1]")
    assert chat.feed(said) == b"" and chat.starts_anew
    # a completion has them as its prompt
    other = plain(client=NOTHING, engine=ALL, before=before, given=b"[9,8,1]")
    assert not other.feed(completion(choice={"text": "b", "token_ids": [2]})) and other.starts_anew
    # an engine that is not asked to tell is believed where its text is not the beginning of the answer
    other = plain(dialect=Dialect(counts=False), client=NOTHING, engine=NOTHING, before=before, given=b"[9,8,1]")
    assert other.feed(completion(choice={"text": "b"})) and not other.starts_anew
    other = plain(client=NOTHING, engine=ALL, before=before, given=b"[9,8,1]")
    assert not other.feed(completion(choice={"text": "b", "prompt_token_ids": [9, 8]})) and other.starts_anew


BEFORE = SoFar(b'"1"', b"1", 2, 3, b"", (), "abcdef", True)


def test_a_rest_that_repeats_the_beginning_is_withheld_until_it_differs():
    reply = plain(dialect=Dialect(counts=False), before=BEFORE, keep=True)
    assert reply.feed(completion(choice={"text": "ab"})) == b"" and reply.so_far() == BEFORE
    assert reply.feed(completion(choice={"text": "c"})) == b""
    got = reply.feed(completion(choice={"text": "x"}))
    assert _said(got) == _said(b"".join(completion(choice={"text": text}) for text in ("ab", "c", "x")))
    assert reply.so_far().text == "abcdefabcx" and reply.feed(completion(choice={"text": "abcdef"}))


@pytest.mark.parametrize("texts", [("abc", "def"), ("abcdefg",)])
def test_a_rest_that_repeats_all_of_the_answer_is_no_rest(texts):
    reply = plain(dialect=Dialect(counts=False), before=BEFORE, keep=True)
    assert b"".join(reply.feed(completion(choice={"text": text})) for text in texts) == b""
    assert reply.starts_anew and reply.failure is not None and reply.so_far() == BEFORE


def test_a_rest_that_ends_while_it_is_withheld_goes_out():
    reply = plain(dialect=Dialect(counts=False), before=BEFORE)
    assert reply.feed(completion(choice={"text": "ab"})) == b""
    assert b"ab" in reply.feed(completion(choice={"text": "", "finish_reason": "stop"}) + b"data: [DONE]\n\n")
    other = plain(dialect=Dialect(counts=False, finish_reasons=False), before=BEFORE)
    assert b"ab" in other.feed(completion(choice={"text": "ab"}) + b"data: [DONE]\n\n") and other.done


def test_text_goes_on_where_the_prompt_is_longer_than_the_clients():
    for tokens, goes_on in ((2, False), (3, True), (6, True)):
        reply = plain(client=NOTHING, engine=ALL, before=BEFORE)
        usage = {"prompt_tokens": tokens, "completion_tokens": 1}
        assert bool(reply.feed(completion(choice={"text": "ab"}, usage=usage))) == goes_on != reply.starts_anew
        assert not reply.restarts, "text may be cut into fewer tokens"


def test_an_engine_is_not_blamed_where_the_one_before_did_not_tell_the_prompts_size():
    reply = plain(client=NOTHING, engine=ALL, before=dataclasses.replace(BEFORE, prompt_tokens=-1))
    usage = {"prompt_tokens": 5, "completion_tokens": 1}
    assert reply.feed(completion(choice={"text": "x"}, usage=usage)) == b"" and reply.starts_anew and not reply.restarts


def test_a_chat_that_is_handed_back_at_once_is_not_taken_for_one_that_begins_anew():
    said = b'data: {"id":"2","created":2,"choices":[{"index":0,"delta":{},"finish_reason":"stop","stop_reason":"recomputed"}]}\n\n'
    reply = ReplyStream(Dialect(), chat=True, client=NOTHING, engine=ALL, before=BEFORE, given=b"[9,8,1]")
    assert reply.feed(said) == b"" and reply.recomputed and not reply.starts_anew


def test_what_was_counted_by_events_goes_on_with_as_many_as_there_were_events():
    reply = plain(dialect=Dialect(counts=False), bytes_per_token=1.0, keep=True)
    for text in ("abcd", "", " efgh"):
        reply.feed(completion(choice={"text": text}))
    assert (reply.produced, reply.so_far().produced, reply.so_far().bundled) == (9, 2, False)
    second = plain(dialect=Dialect(counts=False), bytes_per_token=1.0, keep=True, before=reply.so_far())
    second.feed(completion(choice={"text": "xyz"}))
    assert second.so_far().produced == 3
    second.feed(completion(choice={"text": " two words"}))
    assert second.so_far().bundled


@pytest.mark.parametrize(("told", "produced"), [(2, 2), (3, 3), (0, 2)])
def test_an_estimate_that_the_usage_at_the_end_corrects_is_not_corrected_twice(told, produced):
    reply = plain(client=UsageOptions(True), dialect=Dialect(counts=False), bytes_per_token=1.0, keep=True)
    for text in ("abcd", "efgh"):
        reply.feed(completion(choice={"text": text}))
    reply.feed(completion(choices=[], usage={"prompt_tokens": 3, "completion_tokens": told}))
    reply.end()
    assert (reply.failure is not None, reply.so_far().produced) == (True, produced)


def _said(sent: bytes) -> list[object]:
    """All a client can put together: the texts joined, the ids, who is speaking, how it ended and what it cost."""
    text, ids, rest = "", [], []
    for event in sent.split(b"\n\n")[:-2]:
        chunk = json.loads(event[6:])
        usage = chunk.pop("usage", None)
        for choice in chunk["choices"]:
            text += choice.get("text", "") or choice.get("delta", {}).get("content", "") or ""
            ids += choice.get("token_ids") or []
            rest += [choice["finish_reason"]] if choice["finish_reason"] else []
            rest += [choice["delta"]["role"]] if choice.get("delta", {}).get("role") else []
        rest += [usage] if usage and not chunk["choices"] else []
    return [text, ids, rest]


def completion(**more) -> bytes:
    choice = {
        "index": 0,
        "text": "a",
        "logprobs": None,
        "finish_reason": None,
        "stop_reason": None,
    } | more.pop("choice", {})
    return b"data: " + json.dumps({"id": "cmpl-1", "created": 1, "choices": [choice]} | more).encode() + b"\n\n"


def plain(client=NOTHING, engine=NOTHING, dialect=None, **more) -> ReplyStream:
    return ReplyStream(dialect or Dialect(), chat=False, client=client, engine=engine, **more)


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (b"data: {not json}\n\n", "cannot be read"),
        (b"data: <html></html>\n\n", "cannot be read"),
        (b"data: [DONE]\n\n", "without a finish_reason"),
        (b'data: {"detail":"x"}\n\n', "no choices"),
        (b'data: {"error":{"message":"boom","code":500}}\n\n', "reported an error"),
        (b'data: {"object":"error","message":"boom","code":500}\n\n', "reported an error"),
        (b'data: {"error":"out of memory","choices":[]}\n\n', "reported an error"),
        (completion(choice={"index": 3}), "choice 3"),
        (completion(choice={"finish_reason": "abort"}), "abort"),
        (b"data: " + b"x" * 3000 + b"\n\n", "longer than 2000"),
    ],
)
def test_what_breaks_the_protocol_is_a_failure_and_does_not_reach_the_client(event, said):
    reply = plain(limit=2000)
    assert reply.feed(completion()) == completion()
    assert reply.feed(event + completion()) == b""
    assert said in str(reply.failure)
    assert reply.feed(completion()) == b"" and reply.end() == b""
    assert not reply.done


def test_the_error_object_inside_a_stream_is_kept():
    reply = plain()
    reply.feed(b'data: {"error":{"message":"too long","code":400}}\n\ndata: [DONE]\n\n')
    assert json.loads(reply.error_body)["error"]["code"] == 400
    assert not reply.done


def test_a_page_of_html_is_a_failure_of_which_nothing_is_passed_on():
    reply = plain()
    assert reply.feed(b"<html>\n\n<body>busy</body>\n\n</html>\n") + reply.end() == b""
    assert "ended before" in str(reply.failure)


def test_comments_are_passed_on():
    reply = plain()
    assert reply.feed(b": ping\n\n") == b": ping\n\n"


def test_recomputed_hands_the_request_back_without_its_chunk():
    reply = plain(keep=True)
    reply.feed(completion(choice={"token_ids": [4, 5]}))
    assert reply.feed(completion(choice={"stop_reason": "recomputed", "finish_reason": "stop", "text": "b"})) == b""
    assert reply.recomputed and not reply.done and reply.failure is None
    assert (reply.so_far().text, reply.so_far().produced) == ("a", 2)


def test_an_answer_that_has_ended_is_not_handed_back():
    reply = plain(client=NOTHING, engine=USAGE, keep=True)
    out = reply.feed(
        completion(choice={"text": "b", "finish_reason": "length"})
        + completion(choice={"text": "", "finish_reason": "stop", "stop_reason": "recomputed"})
    )
    assert b'"text":"b"' in (out + reply.end()).replace(b": ", b":")
    assert reply.done and not reply.recomputed


def test_a_stream_that_only_lacks_done_gets_it():
    reply = plain()
    reply.feed(completion(choice={"finish_reason": "stop"}))
    assert reply.end() == b"data: [DONE]\n\n"
    assert reply.done


def test_an_engine_that_tells_nothing_is_estimated_and_corrected_by_the_usage_at_its_end():
    for bytes_per_token, expected in ((0.0, 2), (1.0, 8)):
        reply = plain(dialect=Dialect(counts=False), bytes_per_token=bytes_per_token)
        reply.feed(
            completion(choice={"text": "abcd"}) + completion(choice={"text": ""}) + completion(choice={"text": "efgh"})
        )
        assert reply.produced == expected and reply.estimated
        reply.feed(completion(choice={"text": "", "finish_reason": "stop"}))
        reply.feed(b'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":5}}\n\n')
        assert (reply.produced, reply.prompt_tokens) == (5, 3)


def test_an_engine_without_finish_reasons_ends_with_done():
    reply = plain(dialect=Dialect(counts=False, finish_reasons=False))
    reply.feed(b'data: {"id":"1","choices":[{"delta":{"content":"a"},"index":0}]}\n\n')
    assert reply.feed(b"data: [DONE]\n\n") == b"data: [DONE]\n\n"
    assert reply.done and reply.estimated


def test_text_the_client_does_not_have_is_not_part_of_what_it_has():
    reply = plain(client=NOTHING, engine=ALL, keep=True)
    reply.feed(completion(choice={"token_ids": [1], "prompt_token_ids": [9, 8]}))
    reply.feed(completion(choice={"token_ids": [2, 3], "text": ""}))
    before = reply.so_far()
    assert (before.ids, before.produced, before.prompt_ids, before.text) == ((1,), 1, b"[9, 8]", "a")
    told = plain(client=UsageOptions(token_ids=True), engine=ALL, keep=True)
    told.feed(completion(choice={"token_ids": [1]}))
    told.feed(completion(choice={"token_ids": [2, 3], "text": ""}))
    assert (told.so_far().ids, told.so_far().produced) == ((1, 2, 3), 3)
    usage = {"prompt_tokens": 5, "completion_tokens": 1}
    then = plain(client=UsageOptions(token_ids=True), engine=ALL, keep=True, before=told.so_far(), given=b"[9,8,1,2,3]")
    then.feed(
        completion(choice={"text": "b"}, usage=usage)
        + completion(choice={"text": ""}, usage={**usage, "completion_tokens": 2})
    )
    assert then.produced == 5 and then.so_far().text == "ab"
    assert (then.so_far().ids, then.so_far().produced) == ((), 4), "the ids lack a token, so it goes on after the text"


def test_a_prompt_the_first_engine_did_not_size_is_what_the_second_counts_without_what_was_produced():
    before = SoFar(b'"cmpl-1"', b"1", -1, 3, b"[9,8]", (1, 2, 3), "abc", True)
    reply = plain(client=USAGE, engine=USAGE, before=before)
    usage = {"prompt_tokens": 5, "completion_tokens": 1}
    told = json.loads(reply.feed(completion(usage=usage))[6:])["usage"]
    assert (reply.prompt_tokens, reply.produced) == (2, 4)
    assert told == {"prompt_tokens": 2, "completion_tokens": 4, "total_tokens": 6}


def test_tools_make_an_answer_more_than_text():
    reply = ReplyStream(Dialect(), chat=True, client=NOTHING, engine=NOTHING, keep=True)
    reply.feed(b'data: {"id":"1","created":1,"choices":[{"index":0,"delta":{"tool_calls":[{"index":0}]}}]}\n\n')
    assert not reply.so_far().plain


def test_several_choices_get_the_fingerprint_an_earlier_stream_told():
    end = {"finish_reason": "stop"}
    usage = {"prompt_tokens": 8, "completion_tokens": 1}
    reply = plain(engine=USAGE, choices=2, fingerprint=b'"vllm-1"')
    for index in (0, 1):
        got = reply.feed(completion(choice={"index": index} | end, usage=usage))
        assert json.loads(got[6:])["system_fingerprint"] == "vllm-1"
        assert "usage" not in json.loads(got[6:])


@pytest.mark.parametrize(
    "chunk",
    [
        b'{"\x80id":"c","choices":[{"index":0,"text":"b","finish_reason":null}],"usage":{"completion_tokens":2},"x":1}',
        b'{"usage":{"completion_tokens":1},"choices":[{"index":0,"text":"b"}],"usage":{"completion_tokens":2},"x":1}',
    ],
    ids=["a key that is no text", "a key twice"],
)
def test_a_chunk_that_cannot_be_cleaned_is_a_failure_and_brought_nothing(chunk):
    reply = ReplyStream(Dialect(), chat=False, client=NOTHING, engine=USAGE, keep=True)
    first = b'data: {"id":"c","created":1,"choices":[{"index":0,"text":"a"}],"usage":{"completion_tokens":1}}\n\n'
    assert reply.feed(first) and not reply.feed(b"data: " + chunk + b"\n\n")
    assert reply.failure is not None and reply.produced == 1 and reply.so_far().text == "a"


@settings(max_examples=50)
@given(chunk_streams(choices=(1, 1)), st.sampled_from([UsageOptions(usage=True), USAGE, ALL]))
def test_a_stream_that_breaks_off_before_its_usage_gets_it_all_the_same(stream, client):
    events = stream.events(ALL if client.token_ids else USAGE)
    reply = opened(stream, client, ALL if client.token_ids else USAGE, keep=True)
    got = b"".join(reply.feed(event) for event in events[:-2]) + reply.end()
    assert reply.done and got.endswith(b"data: [DONE]\n\n")
    last = json.loads(got.split(b"\n\n")[-3][6:])
    told = json.loads(stream.events(client)[-2][6:])
    assert {name: last[name] for name in ("id", "choices", "usage")} == {
        name: told[name] for name in ("id", "choices", "usage")
    }


MORE = b'data: {"id":"c","created":1,"choices":[{"index":0,"text":"b","finish_reason":null}],"usage":{"prompt_tokens":8,"completion_tokens":2}}'


@pytest.mark.parametrize("event", [b"data: {no json", b'data: {"error":{"message":"x"}}', b"data: " + b"x" * 3000, MORE])
def test_what_is_wrong_behind_the_last_chunk_takes_nothing_from_a_whole_answer(event):
    reply = ReplyStream(Dialect(), chat=False, client=UsageOptions(usage=True), engine=USAGE, keep=True, limit=2000)
    chunk = (
        b'data: {"id":"c","created":1,"choices":[{"index":0,"text":"a","finish_reason":"stop"}],'
        b'"usage":{"prompt_tokens":8,"completion_tokens":1}}\n\n'
    )
    got = reply.feed(chunk) + reply.feed(event + b"\n\n")
    last, told, done = got.split(b"\n\n")[:-1]
    assert reply.done and reply.failure is None and done == b"data: [DONE]"
    assert json.loads(last[6:])["choices"][0]["finish_reason"] == "stop"
    assert json.loads(told[6:])["usage"]["completion_tokens"] == 1


def test_an_engine_that_ends_twice_takes_no_token_from_its_answer():
    reply = plain(engine=USAGE)
    last, again = (
        completion(choice={"finish_reason": "length"}),
        completion(choice={"text": "", "finish_reason": "stop"}),
    )
    assert reply.feed(last) + reply.feed(again) + reply.feed(b"data: [DONE]\n\n") == last + again + b"data: [DONE]\n\n"


def test_recomputed_is_an_end_where_it_is_a_stop_string_of_the_client():
    last = completion(choice={"finish_reason": "stop", "stop_reason": "recomputed"})
    reply = plain(hands_back=False)
    assert reply.feed(last) + reply.feed(b"data: [DONE]\n\n") == last + b"data: [DONE]\n\n"
    assert reply.done and not reply.recomputed


def test_a_long_prompts_ids_reach_the_client_where_its_only_chunk_is_its_last(monkeypatch):
    """The last chunk waits for the fingerprint when the client asked for no usage."""
    monkeypatch.setattr(full_reply, "LONG", 0)
    monkeypatch.setattr(reply_module, "LONG", 0)
    choice = b'"index":0,"text":"a","logprobs":null,"finish_reason":"stop","prompt_token_ids":[5,6],"token_ids":[7]'
    usage = b'"usage":{"prompt_tokens":2,"total_tokens":3,"completion_tokens":1}'
    head = b'data: {"id":"c","object":"text_completion","created":1,"model":"m","choices":'
    events = head + b"[{" + choice + b"}]," + usage + b"}\n\n" + head + b"[]," + usage + b"}\n\ndata: [DONE]\n\n"
    reply = ReplyStream(Dialect(), chat=False, client=UsageOptions(token_ids=True), engine=ALL)
    assert b'"prompt_token_ids":[5,6]' in reply.feed(events) + reply.end()
