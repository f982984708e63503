"""Prompts: of the length asked, the same every time, sharing what the trace says they share and nothing else."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from tests.strategies import traces

from evenstep.emulator.tokens import tokenise
from evenstep.load.prompts import CHOICES, FIRST_ID, Prompts
from evenstep.load.settings import LoadSettings
from evenstep.request import PrefixBlocks, Trace


def trace(prompt, **columns):
    size = np.array(prompt, np.int64)
    blocks = columns.pop("prefix_blocks", None)
    arrays = {name: np.array(value, np.int64) for name, value in columns.items()}
    return Trace(size, np.full(size.size, 5, np.int64), prefix_blocks=blocks, **arrays)


def asked(one, row, **settings):
    return json.loads(Prompts(one, LoadSettings(**settings), "m").body(row))


def ids(one, row, **settings):
    return asked(one, row, prompts="ids", **settings)["prompt"]


def common(a, b):
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


@given(traces())
def test_a_prompt_has_the_tokens_asked_for_as_ids_and_as_words(one):
    words, numbers = (Prompts(one, LoadSettings(prompts=kind), "m") for kind in ("text", "ids"))
    for row in range(min(len(one), 5)):
        length = int(one.prompt_tokens[row])
        assert len(tokenise(json.loads(words.body(row))["prompt"])) == length
        found = json.loads(numbers.body(row))["prompt"]
        assert len(found) == length
        assert all(FIRST_ID <= i < FIRST_ID + CHOICES for i in found)


def test_a_body_asks_for_the_length_of_the_trace_and_for_counts():
    body = asked(trace([3]), 0)
    assert body["max_tokens"] == 5
    assert body["ignore_eos"] is True
    assert body["stream_options"] == {"include_usage": True, "continuous_usage_stats": True}
    assert body["model"] == "m"
    assert "return_token_ids" not in body and "user" not in body
    assert asked(trace([3]), 0, token_ids=True)["return_token_ids"] is True


def test_nothing_but_openai_s_own_fields_is_asked_of_other_servers():
    body = asked(trace([3]), 0, dialect="openai", endpoint="chat")
    assert sorted(body) == ["max_tokens", "messages", "model", "stream", "stream_options", "temperature"]
    assert body["stream_options"] == {"include_usage": True}
    assert body["messages"][0]["role"] == "user"


def test_prompts_are_the_same_every_time_and_others_with_another_seed():
    one = trace([40, 40])
    assert asked(one, 1) == asked(one, 1)
    assert asked(one, 1, seed=1)["prompt"] != asked(one, 1)["prompt"]


def test_requests_of_their_own_share_no_first_block():
    prompts = Prompts(trace([20] * 300), LoadSettings(prompts="ids"), "m")
    assert len({tuple(json.loads(prompts.body(row))["prompt"][:5]) for row in range(300)}) == 300


def test_the_prompts_of_a_session_grow_from_a_common_prefix():
    one = trace([30, 100, 70, 50], session=[4, 4, 4, 5])
    first, second, third, other = (ids(one, row) for row in range(4))
    assert second[:30] == first and second[:70] == third
    assert common(first, other) < 5
    assert asked(one, 0)["user"] == "session-4"


def test_equal_prompt_keys_share_their_prompt():
    one = trace([30, 20, 30], prompt_key=[9, 9, 0])
    assert ids(one, 0)[:20] == ids(one, 1)
    assert common(ids(one, 0), ids(one, 2)) < 5


@pytest.mark.parametrize("scope", ["global", "session"])
def test_prompts_share_the_blocks_the_trace_names(scope):
    blocks = PrefixBlocks(np.array([1, 2, 3, 1, 2, 4, 1, 2]), np.array([0, 3, 6, 8]), 8, scope)
    one = trace([20, 24, 18], session=[1, 1, 2], prefix_blocks=blocks)
    first, second, third = (ids(one, row) for row in range(3))
    assert [len(p) for p in (first, second, third)] == [20, 24, 18]
    assert 16 <= common(first, second) < 20
    assert common(first, third) >= 16 if scope == "global" else common(first, third) < 5


def test_a_row_without_blocks_and_one_shorter_than_its_blocks_have_their_length_all_the_same():
    blocks = PrefixBlocks(np.array([1, 2, 3, 1]), np.array([0, 3, 3, 3, 4]), 8, "global")
    one = trace([11, 30, 20, 8], session=[-1, 0, 0, 0], prefix_blocks=blocks)
    short, first, second, whole = (ids(one, row) for row in range(4))
    assert [len(p) for p in (short, first, second, whole)] == [11, 30, 20, 8]
    assert short[:8] == whole, "the first of three blocks, and a part of the second"
    assert first[:20] == second and common(first, whole) < 5, "by the session, which may have number 0"
    assert asked(one, 1)["user"] == "session-0" and "user" not in asked(one, 0)


def test_requests_of_their_own_share_no_more_than_chance_behind_their_first_tokens_either():
    one = trace([400, 400])
    first, second = ids(one, 0), ids(one, 1)
    assert sum(a == b for a, b in zip(first, second, strict=True)) < 20


def test_a_call_may_ask_for_another_model():
    body = Prompts(trace([3]), LoadSettings(), "m").body(0, 'other "one"')
    assert json.loads(body)["model"] == 'other "one"'
