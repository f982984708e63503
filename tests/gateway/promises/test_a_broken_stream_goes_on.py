"""Promise 3: after the first token exact continuation where there is one, and an error event where there is none."""

from __future__ import annotations

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
                    assert limit == TOKENS - tokens or tokens == TOKENS, (
                        "max_tokens shrinks by what the client has"
                    )

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


def test_ids_the_client_asked_for_come_once_each():
    async def one():
        async with fleet(engines=2) as f:
            f.plan.next.append(e.after(4))
            reply = await answered(f.port, ask(tokens=TOKENS, return_token_ids=True))
            ids = [
                i
                for v in reply.events()
                if isinstance(v, dict)
                for c in v["choices"]
                for i in c["token_ids"] or ()
            ]
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


def test_a_request_the_engine_hands_back_goes_on_elsewhere():
    """``stop_reason: recomputed``: the engine evicted it and will not go on."""
    handed_back = {
        "choices": [{"index": 0, "text": "", "finish_reason": "stop", "stop_reason": "recomputed"}]
    }

    async def one():
        async with fleet(engines=2) as f:
            f.plan.next.append(e.after(3, e.event(handed_back), end="last"))
            reply = await answered(f.port, ask(tokens=TOKENS))
            assert verdict(reply, TOKENS) == "complete" and b"recomputed" not in reply.body

    story(one)
