"""Promise 3: after the first token exact continuation where there is one, and an error event where there is none."""

from __future__ import annotations

import itertools

import pytest
from tests.gateway.promises import engine as e
from tests.gateway.promises.client import answered, ask, verdict
from tests.gateway.promises.fleet import fleet, story

TOKENS = 9
USAGE = {"stream_options": {"include_usage": True}}
EVERY = {"stream_options": {"include_usage": True, "continuous_usage_stats": True}}
KINDS = {"completion": {}, "chat": {"chat": True}, "ids": {"prompt": e.PROMPT_IDS}}


def usages(reply):
    """Every usage object of a stream."""
    return [value["usage"] for value in reply.events() if isinstance(value, dict) and value.get("usage")]


@pytest.mark.parametrize("kind", KINDS)
def test_a_stream_cut_after_any_token_is_one_stream_to_the_client(kind):
    async def one():
        async with fleet(engines=2) as f:
            for tokens in range(1, TOKENS + 1):
                for end in ("close", "last", "reset"):
                    f.plan.next.append(e.after(tokens, end=end))
                    reply = await answered(f.port, ask(tokens=TOKENS, **KINDS[kind], **USAGE))
                    assert verdict(reply, TOKENS) == "complete", (tokens, end, reply)
                    assert usages(reply)[-1]["completion_tokens"] == TOKENS, (tokens, end)
                    assert usages(reply)[-1]["prompt_tokens"] == len(e.PROMPT_IDS), (tokens, end)
                    assert len({v["id"] for v in reply.events() if isinstance(v, dict)}) == 1
                    limit = f.calls[-1].asked["max_tokens"]
                    assert limit == TOKENS - tokens or tokens == TOKENS, "max_tokens shrinks by what the client has"

    story(one)


def test_a_stream_that_breaks_on_one_engine_after_the_other_is_still_one_stream():
    async def one():
        async with fleet(engines=4) as f:
            f.plan.next.extend([e.after(2), e.after(3, end="reset"), e.after(1, end="last")])
            reply = await answered(f.port, ask(chat=True, tokens=TOKENS, **EVERY))
            assert verdict(reply, TOKENS) == "complete", reply
            counts = [usage["completion_tokens"] for usage in usages(reply)]
            assert counts == sorted(counts) and counts[-1] == TOKENS
            assert [call.first for call in f.calls] == [0, 2, 5, 6]

    story(one)


@pytest.mark.parametrize(("kind", "expected"), [("completion", "complete"), ("chat", "error"), ("ids", "error")])
def test_an_engine_on_the_way_that_tells_no_ids_leaves_no_gap_in_the_answer(kind, expected):
    """Ids of the first engine alone would have the third begin where the second one did."""

    async def tells_none(call: e.Call) -> None:
        call.ids = False
        await e.after(3)(call)

    async def one():
        async with fleet(engines=3) as f:
            f.plan.next.extend([e.after(2), tells_none])
            reply = await answered(f.port, ask(tokens=TOKENS, **KINDS[kind]))
            assert verdict(reply, TOKENS) == expected, reply
            assert reply.text == e.text_of(TOKENS if expected == "complete" else 5)

    story(one)


def test_ids_the_client_asked_for_come_once_each():
    async def one():
        async with fleet(engines=2) as f:
            f.plan.next.append(e.after(4))
            reply = await answered(f.port, ask(tokens=TOKENS, return_token_ids=True))
            ids = [i for v in reply.events() if isinstance(v, dict) for c in v["choices"] for i in c["token_ids"] or ()]
            assert ids == [e.FIRST_ID + i for i in range(TOKENS)]

    story(one)


@pytest.mark.parametrize(
    "more",
    [
        {"n": 2},
        {"logprobs": 1},
        {"chat": True, "logprobs": True},
        {"presence_penalty": 0.5},
        {"seed": 7},
        {"chat": True, "tools": [{"type": "function", "function": {"name": "f"}}]},
        {"response_format": {"type": "json_object"}, "chat": True},
    ],
    ids=lambda more: next(name for name in more if name != "chat"),
)
def test_what_cannot_be_joined_exactly_ends_in_an_error_event_and_bothers_no_other_engine(more):
    async def one():
        async with fleet(engines=2) as f:
            f.plan.next.append(e.after(3))
            reply = await answered(f.port, ask(tokens=TOKENS, **more))
            assert verdict(reply, TOKENS) == "error", reply
            assert len(f.calls) == 1
            await f.empty()

    story(one)


def test_silence_in_mid_stream_goes_on_elsewhere():
    async def one():
        async with fleet(engines=2, engine_deadlines={"silence_s": 0.2}) as f:
            f.plan.next.append(e.after(3, end="hang"))
            assert verdict(await answered(f.port, ask(tokens=TOKENS)), TOKENS) == "complete"
            await f.calls[0].gone.wait()

    story(one)


def test_silence_in_what_another_engine_went_on_with_is_noticed_as_soon():
    async def one():
        async with fleet(engines=3, engine_deadlines={"silence_s": 0.2}) as f:
            f.plan.next.extend([e.after(3), e.after(2, end="hang")])
            assert verdict(await answered(f.port, ask(tokens=TOKENS)), TOKENS) == "complete"
            assert [call.first for call in f.calls] == [0, 3, 5]

    story(one, limit_s=30.0)


def test_a_request_the_engine_hands_back_goes_on_elsewhere():
    """``stop_reason: recomputed``: the engine evicted it and will not go on."""

    async def one():
        async with fleet(engines=2) as f:
            f.plan.next.append(e.handed_back(3))
            reply = await answered(f.port, ask(tokens=TOKENS))
            assert verdict(reply, TOKENS) == "complete" and b"recomputed" not in reply.body

    story(one)


@pytest.mark.parametrize("engines", [1, 2])
@pytest.mark.parametrize("stream", [True, False])
def test_an_engine_that_hands_back_for_ever_is_asked_as_often_as_retries_allow(engines, stream):
    async def one():
        async with fleet(engines=engines, dispatch={"retries": 3}) as f:
            f.plan.otherwise = e.handed_back()
            reply = await answered(f.port, ask(tokens=TOKENS, stream=stream))
            assert verdict(reply, TOKENS) == "refused" and reply.status == 502
            assert len(f.calls) == 4
            assert len({call.engine for call in f.calls}) == engines

    story(one)


def test_an_answer_handed_back_for_ever_after_some_tokens_ends_with_an_error_event():
    async def one():
        async with fleet(engines=2, dispatch={"retries": 2}) as f:
            f.plan.next.append(e.handed_back(3))
            f.plan.otherwise = e.handed_back()
            reply = await answered(f.port, ask(tokens=TOKENS))
            assert verdict(reply, TOKENS) == "error" and reply.text == e.text_of(3)
            assert len(f.calls) == 4, "the first time it brought tokens"

    story(one)


def test_a_request_ends_with_an_error_when_its_total_time_is_over():
    async def one():
        async with fleet(engines=2, dispatch={"total_s": 0.3}) as f:
            f.plan.next.extend([e.hang, e.after(3, end="hang")])
            reply = await answered(f.port, ask(tokens=TOKENS))
            assert (verdict(reply, TOKENS), reply.status) == ("refused", 504)
            reply = await answered(f.port, ask(tokens=TOKENS))
            assert verdict(reply, TOKENS) == "error" and reply.text == e.text_of(3)
            for call in f.calls:
                await call.gone.wait()

    story(one)


def ignores(*names, tells=True):
    """Engines that answer from the start where a chat is to go on, and perhaps do not tell what they answer."""

    async def answer(call):
        call.ids, call.each = call.ids and tells, call.each and tells
        await (e.from_start if call.engine.name in names else e.well)(call)

    return answer


@pytest.mark.parametrize("tells", [True, False])
def test_a_chat_that_an_engine_answers_from_the_start_ends_with_an_error_event_and_is_asked_of_it_once(tells):
    async def one():
        async with fleet(engines=2) as f:
            f.plan.otherwise = ignores("e0", "e1", tells=tells)
            for _ in range(3):
                f.plan.next.append(e.after(3))
                reply = await answered(f.port, ask(chat=True, tokens=TOKENS))
                assert verdict(reply, TOKENS) == "error" and reply.text == e.text_of(3), reply
            found = f.server.gateway.snapshot()["gateway"]["worker_cannot_continue"]
            assert len(f.calls) == 3 + sum(found.values()), "once it is known they are not asked"
            f.plan.next.append(e.after(3))
            reply = await answered(f.port, ask(tokens=TOKENS))
            assert verdict(reply, TOKENS) == ("complete" if tells else "error"), "completions have their ids as their prompt"

    story(one)


TELLS = list(itertools.product((False, True), repeat=2))  # ids, usage in every chunk


@pytest.mark.slow
@pytest.mark.parametrize("dialect", ["vllm", "openai"])
@pytest.mark.parametrize("asks", [{}, {"stream_options": {"include_usage": True}}], ids=["", "usage"])
@pytest.mark.parametrize("first", TELLS)
@pytest.mark.parametrize("second", TELLS)
def test_a_completion_that_an_engine_answers_from_the_start_ends_with_an_error_event(dialect, asks, first, second):
    """Each of the two engines tells ids, usage in each chunk, usage at the end alone, or nothing."""

    def telling(tells, answer):
        async def told(call):
            call.ids, call.each = call.ids and tells[0], call.each and tells[1]
            await answer(call)

        return told

    async def one():
        async with fleet(engines=2, dialect=dialect) as f:
            f.plan.otherwise = telling(second, e.anew)
            f.plan.next.append(telling(first, e.after(3)))
            reply = await answered(f.port, ask(tokens=TOKENS, **asks))
            assert verdict(reply, TOKENS) == "error" and reply.text == e.text_of(3), reply
        async with fleet(engines=2, dialect=dialect) as f:
            f.plan.otherwise = telling(second, e.well)
            f.plan.next.append(telling(first, e.after(3)))
            reply = await answered(f.port, ask(tokens=TOKENS, **asks))
            shows = dialect == "openai" or second[0] or second[1]
            has_told = dialect == "openai" or first[0] or first[1]
            assert verdict(reply, TOKENS) == ("complete" if shows and has_told else "error"), reply

    story(one)


@pytest.mark.parametrize("chat", [True, False])
def test_an_answer_goes_on_at_an_engine_that_can_past_those_that_cannot(chat):
    async def answer(call):
        await (e.anew if call.engine.name in ("e0", "e1") else e.well)(call)

    async def one():
        async with fleet(engines=4) as f:
            f.plan.otherwise = answer
            for _ in range(12):
                f.plan.next.append(e.after(3))
                reply = await answered(f.port, ask(chat=chat, tokens=TOKENS))
                assert verdict(reply, TOKENS) == "complete", reply
            assert len(f.calls) <= 2 * 12 + 2

    story(one)


def test_a_completion_of_an_engine_that_counts_nothing_gets_as_many_events_as_were_asked_for():
    async def one():
        async with fleet(engines=2, dialect="openai") as f:
            for _ in range(80):  # the gateway learns that a token has few bytes
                await answered(f.port, ask(tokens=1, stream=False))
            for tokens in range(1, 24):
                f.plan.next.append(e.after(tokens))
                reply = await answered(f.port, ask(tokens=24))
                assert verdict(reply, 24) == "complete", (tokens, reply)
                assert f.calls[-1].asked["max_tokens"] == 24 - tokens

    story(one)


def test_what_is_left_of_a_limit_is_not_guessed_where_events_bring_several_tokens():
    two = {"choices": [{"index": 0, "text": " w0 w1", "finish_reason": None}]}

    async def one():
        async with fleet(engines=2, dialect="openai") as f:
            f.plan.next.append(e.raw(e.STREAM + e.event(two), close=True))
            reply = await answered(f.port, ask(tokens=24))
            assert verdict(reply, 24) == "error" and reply.text == e.text_of(2)
            assert len(f.calls) == 1

    story(one)
