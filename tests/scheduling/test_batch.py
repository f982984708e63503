"""Filling one batch: counts of budget, seats, memory and places."""

import pytest
from tests.scheduling._views import decodes, formed, prefills, view_of, waits

from evenstep.errors import InputError
from evenstep.scheduling.batch import check_watermark
from evenstep.scheduling.policies.sarathi import Sarathi
from evenstep.scheduling.policies.vanilla_vllm import VanillaVllm


def test_the_last_request_runs_what_is_left_of_the_budget():
    view = view_of([decodes(9, 2)], [waits(5), waits(9)], free=99, token_budget=8)
    assert formed(Sarathi(), view) == ([1, 5, 2], [])


def test_a_request_is_admitted_if_the_whole_of_its_prefill_fits():
    for free, tokens in ((9, [3]), (8, [0])):
        assert formed(Sarathi(), view_of([], [waits(9)], free=free, token_budget=3)) == (tokens, [])


def test_memory_is_taken_in_whole_blocks_and_for_the_token_produced():
    block = {"block_tokens": 4}
    assert formed(Sarathi(), view_of([], [waits(4), waits(4)], free=8, **block)) == ([4, 4], [])
    view = view_of([], [waits(4), waits(4)], free=8, hold_produced=1, **block)
    assert formed(Sarathi(), view) == ([4, 0], [])
    held = decodes(3, 1, resident=4)
    assert formed(Sarathi(), view_of([held], [waits(4)], free=4, **block)) == ([1, 4], [])


def test_seats_and_places_end_a_batch():
    view = view_of([decodes(9, 2)], [waits(1), waits(1)], free=99, batch_limit=2)
    assert formed(Sarathi(), view) == ([1, 1, 0], [])
    view = view_of([decodes(9, 2)], [waits(1), waits(1)], free=99, resident_limit=2)
    assert formed(Sarathi(), view) == ([1, 1, 0], [])


def test_a_request_that_loses_its_memory_leaves_a_place_and_what_it_was_given():
    # the decode runs first, then gives its token back to the prefill, which needs all of the memory
    view = view_of([prefills(40, 10), decodes(5, 5)], [], free=4, token_budget=13)
    assert formed(Sarathi(), view) == ([13, 0], [1])


def test_a_batch_of_prompts_has_no_decodes():
    view = view_of([decodes(9, 2)], [waits(5), waits(9)], free=99, token_budget=8)
    assert formed(VanillaVllm(), view) == ([0, 5, 0], [])
    assert formed(VanillaVllm(), view_of([decodes(9, 2)], [waits(9)], free=8)) == ([1, 0], [])
    assert formed(VanillaVllm(), view_of([], [waits(9), waits(3)], free=99, token_budget=8)) == ([8, 0], [])


def test_a_watermark_of_one_is_named():
    with pytest.raises(InputError, match="watermark"):
        check_watermark("srpt", 1.0)
