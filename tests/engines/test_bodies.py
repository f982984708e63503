"""Bodies on their way to engines: what changes, and that nothing else does."""

from __future__ import annotations

import json

import pytest

from evenstep.engines.requests.bodies import decode_leg, prefill_leg, upstream
from evenstep.engines.requests.parsing import read_request
from evenstep.engines.view import Dialect, UsageOptions
from evenstep.errors import EngineError

SPLIT = Dialect(handover="kv_transfer_params")
HANDOVER = b'{"do_remote_prefill": true, "remote_block_ids": [[1, 2]], "remote_host": "h"}'


def chat(**more) -> bytes:
    return json.dumps({"model": "m", "messages": [{"role": "user", "content": "é\u2028"}], "stream": True} | more).encode()


def sent(body: bytes, dialect: Dialect = SPLIT, **more) -> tuple[bytes, UsageOptions]:
    return upstream(read_request("chat", body), dialect, **more)


def test_a_stream_is_asked_for_usage_behind_everything_the_client_said():
    body, asked = sent(chat())
    assert body == chat()[:-1] + b',"stream_options":{"include_usage":true,"continuous_usage_stats":true}}'
    assert asked == UsageOptions(usage=True, continuous=True)
    body, asked = sent(chat(), token_ids=True)
    assert json.loads(body)["return_token_ids"] is True and asked.token_ids


def test_options_the_client_gave_are_completed_in_place():
    body, _ = sent(chat(stream_options={"include_usage": False, "x": 1}, top_k=1))
    assert b'"stream_options": {"include_usage": true, "x": 1,"continuous_usage_stats":true}, "top_k": 1}' in body


def test_what_needs_no_change_is_the_same_object():
    whole = chat(stream_options={"include_usage": True, "continuous_usage_stats": True}, return_token_ids=True)
    request = read_request("chat", whole)
    assert upstream(request, SPLIT, token_ids=True)[0] is request.body
    for body, dialect in ((chat(stream=False), SPLIT), (chat(), Dialect(counts=False))):
        request = read_request("chat", body)
        assert upstream(request, dialect) == (body, UsageOptions())


def test_usage_at_the_end_is_asked_for_only_where_continuous_usage_needs_it():
    body, asked = sent(chat(), Dialect(usage_needs_final=False))
    assert asked == UsageOptions(continuous=True)
    assert json.loads(body)["stream_options"] == {"continuous_usage_stats": True}


@pytest.mark.parametrize("counts", [True, False])
@pytest.mark.parametrize("needs_final", [True, False])
def test_continuous_usage_alone_reaches_the_client_where_the_engine_gives_it(needs_final, counts):
    dialect = Dialect(usage_needs_final=needs_final, counts=counts)
    body, asked = sent(chat(stream_options={"continuous_usage_stats": True}), dialect)
    gives = dialect.given(UsageOptions(continuous=True))
    assert gives == UsageOptions(continuous=not needs_final)
    assert asked == (UsageOptions(usage=needs_final, continuous=True) if counts else gives)
    assert json.loads(body)["stream_options"].get("include_usage", False) == asked.usage


def test_no_client_picks_a_rank_or_an_engines_memory():
    body, _ = sent(chat(stream=False, kv_transfer_params={"remote_host": "x"}, routed_dp_rank=1, bootstrap_room=2, top_k=1))
    assert json.loads(body) == json.loads(chat(stream=False, top_k=1))


def test_the_prefill_leg_makes_one_token_and_no_stream():
    body, _ = sent(chat(max_completion_tokens=9, min_tokens=4, n=3), token_ids=True)
    leg = json.loads(prefill_leg(body))
    original = json.loads(chat())
    assert leg == original | {
        "stream": False,
        "max_tokens": 1,
        "max_completion_tokens": 1,
        "min_tokens": 1,
        "n": 1,
        "kv_transfer_params": {"do_remote_decode": True, "do_remote_prefill": False},
    }


def test_the_decode_leg_carries_what_was_handed_over_as_it_is():
    body, _ = sent(chat())
    assert decode_leg(body, HANDOVER) == body[:-1] + b',"kv_transfer_params":' + HANDOVER + b"}"


def test_both_legs_of_a_continued_chat_keep_its_ids():
    body = chat(kv_transfer_params={"prompt_token_ids": [1, 2]})
    assert json.loads(prefill_leg(body))["kv_transfer_params"] == {
        "do_remote_decode": True,
        "do_remote_prefill": False,
        "prompt_token_ids": [1, 2],
    }
    assert json.loads(decode_leg(body, HANDOVER))["kv_transfer_params"] == json.loads(HANDOVER) | {
        "prompt_token_ids": [1, 2]
    }
    assert json.loads(decode_leg(body, b"{}"))["kv_transfer_params"] == {"prompt_token_ids": [1, 2]}


@pytest.mark.parametrize("handover", [b"", b"null", b"[]"])
def test_a_handover_that_is_no_object_is_the_engines_error(handover):
    with pytest.raises(EngineError, match="kv_transfer_params"):
        decode_leg(chat(), handover)
