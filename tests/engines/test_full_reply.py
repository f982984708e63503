"""Streams read in full, and the shorter ways beside that: the same for any stream in any pieces."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies import chunk_streams, examples, pieces, usual_streams

from evenstep.engines.streams.full_reply import LONG, FullReply
from evenstep.engines.streams.reply import ReplyStream
from evenstep.engines.streams.template_cache import TemplateCache
from evenstep.engines.streams.usage import SoFar
from evenstep.engines.view import Dialect, UsageOptions

ALL = UsageOptions(usage=True, continuous=True, token_ids=True)


@examples(100)
@given(
    st.one_of(usual_streams(), chunk_streams()), st.sampled_from([UsageOptions(), UsageOptions(usage=True), ALL]), st.data()
)
def test_what_is_read_in_full_is_read_the_same_in_shorter_ways(stream, client, data):
    templates, sent = TemplateCache(), b"".join(stream.events(ALL))
    for _ in range(2):  # the second time as the first one taught
        parts, found = data.draw(pieces(sent)), []
        for kind in (FullReply, ReplyStream):
            reply = kind(
                Dialect(),
                chat=stream.chat,
                client=client,
                engine=ALL,
                choices=stream.choices,
                keep=stream.choices == 1,
                templates=templates,
            )
            out = b"".join([reply.feed(part) for part in parts]) + reply.end()
            kept = reply.so_far() if stream.choices == 1 else None
            found.append((out, reply.produced, reply.prompt_tokens, reply.done, reply.estimated, kept))
        assert found[0] == found[1]


NOTHING, USAGE, CLIENTS_USAGE = UsageOptions(), UsageOptions(usage=True, continuous=True), UsageOptions(usage=True)
DONE = b"data: [DONE]\n\n"
LENGTHS = '"usage":{"prompt_tokens":%d,"completion_tokens":%d}'
BEFORE = SoFar(b'"1"', b"1", 2, 1, b"[9,8]", (1,), "a", True)


def event(choice: str, *more: str) -> bytes:
    """A chunk of one choice, given without its braces, and further members of the chunk."""
    choice = ("" if '"index"' in choice else '"index":0,') + choice
    body = ",".join([f'"id":"c","created":1,"choices":[{{{choice}}}]', *more])
    return f"data: {{{body}}}\n\n".encode()


def text(said: str, *more: str) -> bytes:
    return event(f'"text":"{said}"', *more)


def read(*events: bytes, chat=False, client=NOTHING, engine=NOTHING, **more) -> tuple[FullReply, bytes]:
    reply = FullReply(
        Dialect(counts=False) if engine == NOTHING else Dialect(), chat=chat, client=client, engine=engine, **more
    )
    return reply, b"".join(map(reply.feed, events))


def test_what_an_engine_tells_unasked_stays_as_it_is():
    ids = ",".join(map(str, range(LONG)))  # short lists and long ones
    for told in (LENGTHS % (3, 1), '"prompt_token_ids":[9,8]', f'"prompt_token_ids":[{ids}]'):
        assert read(text("a", told))[1] == text("a", told)


def test_an_engine_that_does_not_tell_what_it_was_asked_for_gets_no_member_for_it():
    found = FullReply(Dialect(completion_usage_off="null"), chat=False, client=NOTHING, engine=ALL)
    assert found.feed(text("a")) == text("a")


@pytest.mark.parametrize(
    ("last", "client", "more"),
    [
        (text("b", LENGTHS % (3, 2)), CLIENTS_USAGE, [LENGTHS % (3, 2)]),
        (text("b", LENGTHS % (3, 2)), NOTHING, []),
        (text("b"), CLIENTS_USAGE, []),  # an estimate is nothing to bill by
        (event('"text":"b","token_ids":[7]'), CLIENTS_USAGE, []),  # the prompt's length is not known
    ],
)
def test_usage_that_did_not_come_is_added_where_it_was_asked_for_and_is_known(last, client, more):
    last = last.replace(b'"text"', b'"finish_reason":"stop","text"')
    reply, _ = read(last, client=client, engine=UsageOptions(usage=client.usage, continuous=True))
    added = reply.end()
    assert added.endswith(DONE) and reply.done
    assert [LENGTHS % (3, 2)] * added.count(b'"usage"') == more
    if more:
        told = json.loads(added.split(b"\n\n")[0][6:])["usage"]
        assert (told["prompt_tokens"], told["completion_tokens"]) == (3, 2)


def test_a_count_that_is_partly_an_estimate_is_not_added_as_usage():
    events = text("a", LENGTHS % (3, 1)), text("b"), event('"finish_reason":"stop","text":"c"')
    reply, _ = read(*events, client=CLIENTS_USAGE, engine=USAGE)
    assert reply.estimated and reply.prompt_tokens == 3 and reply.end() == DONE


def test_a_fingerprint_is_kept_until_another_is_told():
    last, told = event('"finish_reason":"stop","text":"a"'), f'data: {{"choices":[]{{}},{LENGTHS % (3, 1)}}}\n\n'
    for known, more, expected in (
        (b'"f"', "", b'"f"'),
        (b"", ',"system_fingerprint":"g"', b'"g"'),
        (b'"f"', ',"system_fingerprint":"g"', b'"g"'),
    ):
        reply, _ = read(last, told.replace("{}", more).encode(), engine=CLIENTS_USAGE, fingerprint=known)
        assert reply.fingerprint == expected


def test_the_usage_at_the_end_of_a_continuation_leaves_the_clients_prompt_as_it_was():
    told = f'data: {{"choices":[],{LENGTHS % (9, 4)}}}\n\n'.encode()
    reply, _ = read(told, engine=USAGE, before=BEFORE)
    assert (reply.prompt_tokens, reply.produced) == (2, 1 + 4)


def test_usage_that_came_is_not_told_twice_where_the_stream_breaks_behind_it():
    told = f'data: {{"id":"c","created":1,"choices":[],{LENGTHS % (3, 1)}}}\n\n'.encode()
    end = event('"finish_reason":"stop","text":"a"', LENGTHS % (3, 1))
    reply, got = read(end, told, client=CLIENTS_USAGE, engine=CLIENTS_USAGE)
    assert got + reply.end() == end + told + DONE


def test_a_chunk_of_no_choice_is_passed_on():
    empty = b'data: {"id":"c","created":1,"choices":[]}\n\n'
    assert read(empty)[1] == empty


def test_a_choice_that_was_not_asked_for_is_a_failure():
    for choices, index in ((1, 1), (2, 2), (2, -1)):
        reply, got = read(event(f'"index":{index},"text":"a"'), choices=choices)
        assert got == b"" and f"choice {index}" in str(reply.failure)


def test_the_last_chunk_does_not_wait_for_a_fingerprint_that_is_known():
    last = event('"finish_reason":"stop","text":"a"')
    assert b'"system_fingerprint":"f"' in read(last, engine=CLIENTS_USAGE, fingerprint=b'"f"')[1]
    reply, got = read(last, engine=CLIENTS_USAGE)
    assert got == b"" and reply.feed(DONE) == last + DONE


def test_estimates_count_bytes_of_all_events_together_and_each_event_as_a_token_at_least():
    reply, counts = read(bytes_per_token=4.0)[0], []
    for said in ("x" * 20, "y", "yyy", "z"):  # 20, 21, 24 and 25 bytes
        reply.feed(text(said))
        counts.append(reply.produced)
    assert counts == [5, 5, 6, 6]


def test_of_several_prompts_no_chunk_tells_the_length():
    reply, _ = read(text("a", LENGTHS % (3, 1)), engine=USAGE, prompts=2)
    assert reply.prompt_tokens == -1
    reply.feed(f'data: {{"choices":[],{LENGTHS % (7, 2)}}}\n\n'.encode())
    assert (reply.prompt_tokens, reply.produced) == (7, 2)


def test_what_the_client_has_is_the_same_whenever_it_is_asked_for():
    reply, _ = read(event('"text":"a","token_ids":[7],"prompt_token_ids":[9,8]'), text("b"), engine=ALL, keep=True)
    assert reply.so_far() == reply.so_far()
    broken, _ = read(event('"text":"a","token_ids":[7],"prompt_token_ids":[9,"x"]'), engine=ALL, keep=True)
    assert broken.so_far().prompt_ids == b"", "ids that are no numbers cannot be sent to another engine"


@pytest.mark.parametrize("told", ['"prompt_token_ids":[9,8,1]', '"x":0'])
def test_a_second_engine_that_breaks_leaves_the_clients_prompt_to_the_third(told):
    """Not the prompt that it was given itself, which has the answer so far in it."""
    first = event(f'"text":"b","token_ids":[2],{told}', LENGTHS % (3, 1))
    reply, got = read(first, engine=ALL, client=ALL, keep=True, before=BEFORE, given=b"[9,8,1]")
    found = reply.so_far()
    assert (found.prompt_ids, found.prompt_tokens, found.ids, found.text) == (b"[9,8]", 2, (1, 2), "ab")
    assert b"9,8" not in got, "and the client has its prompt already"
    assert (found.request_id, found.created) == (b'"1"', b"1")


def test_an_engine_has_shown_that_it_goes_on_with_the_first_chunk_that_says_something():
    def said(content: str, *more: str) -> bytes:
        return event(f'"delta":{{{content}}}', *more)

    role, word = said('"role":"assistant","content":""'), '"content":"b"'
    for silent in (role, said('"content":""')):
        reply, got = read(silent, chat=True, engine=ALL, before=BEFORE, given=b"[9,8,1]")
        assert reply.failure is None, "a chunk without content says nothing yet"
        got += reply.feed(said(word, LENGTHS % (3, 1))) + reply.feed(said('"content":"c"'))
        assert reply.failure is None and got.count(b"content") >= 2, "what follows need not say it again"
        assert b"role" not in got, "the client knows who speaks"
    reply, got = read(said('"tool_calls":[{"index":0}]'), chat=True, engine=ALL, before=BEFORE, given=b"[9,8,1]")
    assert got == b"" and reply.starts_anew, "a tool call is content, too"


@pytest.mark.parametrize(
    ("given", "told", "restarts", "why"),
    [
        (b"[9,8,1]", (), True, "does not say which prompt"),
        (b"[9,8,1]", (LENGTHS % (2, 1),), True, "answers another prompt"),
        (b"", (), True, "does not say which prompt"),
        (b"", (LENGTHS % (2, 1),), False, "answers another prompt"),  # of text a count alone may be wrong
        (b"", ('"prompt_token_ids":[9,8]',), False, "answers another prompt"),
    ],
)
def test_an_engine_that_begins_anew_is_asked_again_only_where_that_was_by_chance(given, told, restarts, why):
    reply, got = read(event('"delta":{"content":"b"}', *told), chat=True, engine=ALL, before=BEFORE, given=given)
    assert got == b"" and reply.starts_anew and reply.restarts is restarts and why in str(reply.failure)


@pytest.mark.parametrize("bytes_per_token", [0.0, 2.0])
@pytest.mark.parametrize(
    "texts", [("ab", "cd", "", "efg", "h"), ("ab", "cd", "e f", "g", "h"), ("ab", "cd", " e", "", "f g")]
)
def test_what_no_event_counts_is_estimated_the_same_in_shorter_ways(texts, bytes_per_token):
    found = []
    for kind in (FullReply, ReplyStream):
        reply, got = None, []
        templates = TemplateCache()
        for _ in range(2):
            reply = kind(
                Dialect(counts=False),
                chat=False,
                client=NOTHING,
                engine=NOTHING,
                keep=True,
                bytes_per_token=bytes_per_token,
                templates=templates,
            )
            got.append([(reply.feed(text(said)), reply.produced, reply.estimated, reply.so_far()) for said in texts])
        found.append(got)
    assert found[0] == found[1]
    assert found[0][1][-1][3].bundled is any(" " in said.strip() for said in texts)


ENDS = {
    "as before": '"usage":{{"prompt_tokens":3,"total_tokens":{total},"completion_tokens":{count}}}',
    "more is told": '"usage":{{"prompt_tokens":3,"total_tokens":{total},"completion_tokens":{count},"cached":1}}',
    "another count": '"usage":{{"prompt_tokens":3,"total_tokens":99,"completion_tokens":96}}',
    "none": "",
}


@pytest.mark.parametrize("client", [NOTHING, CLIENTS_USAGE])
@pytest.mark.parametrize("fingerprint", [b"", b'"f"'])
@pytest.mark.parametrize("end", ENDS)
def test_an_end_unlike_those_before_it_is_read_in_full(client, fingerprint, end):
    def usage(form, count):
        return ENDS[form].format(total=3 + count, count=count)

    def stream(form, count):
        said = [text(f"w{n}", usage("as before", n + 1)) for n in range(count)]
        last = event('"text":"","finish_reason":"stop"', usage("as before", count))
        told = f'data: {{"id":"c","created":1,"choices":[],{usage(form, count)}}}\n\n' if form != "none" else ""
        return b"".join([*said, last, told.encode(), DONE])

    found = []
    for kind in (FullReply, ReplyStream):
        templates, got = TemplateCache(), []
        for form, count in (("as before", 4), ("as before", 5), (end, 6)):
            reply = kind(Dialect(), chat=False, client=client, engine=USAGE, fingerprint=fingerprint, templates=templates)
            got.append((reply.feed(stream(form, count)) + reply.end(), reply.produced, reply.prompt_tokens, reply.done))
        found.append(got)
    assert found[0] == found[1]
    assert found[1][2][0].count(b'"finish_reason":"stop"') == 1 and found[1][2][3]
