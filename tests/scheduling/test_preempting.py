"""Running what runs: memory that runs out costs the one admitted last."""

import numpy as np
from hypothesis import given
from tests.scheduling._views import decodes, formed, prefills, view_of, waits
from tests.strategies import engine_views

from evenstep.scheduling.policies.sarathi import Sarathi
from evenstep.scheduling.policies.vllm import Vllm


@given(engine_views())
def test_only_the_last_ones_are_evicted_and_the_rest_fits(view):
    decision = Vllm().form_batch(view)
    tokens, evicted = decision.tokens, np.flatnonzero(decision.evict).tolist()
    running = int(view.running.sum())
    assert evicted == list(range(running - len(evicted), running))
    assert not any(tokens[k] for k in evicted)


def test_the_last_admitted_gives_its_memory_to_an_earlier_one():
    view = view_of([decodes(10, 5), decodes(20, 5), decodes(30, 5)], [], free=1)
    assert formed(Vllm(), view) == ([1, 1, 0], [2])


def test_a_request_that_has_its_tokens_gives_them_back_when_it_is_evicted():
    # the second one decodes first; the first one's chunk then takes its memory, its budget and its seat
    view = view_of([prefills(40, 10), decodes(5, 5)], [], free=4, batch_limit=2, token_budget=13)
    assert formed(Sarathi(), view) == ([13, 0], [1])
    view = view_of([prefills(40, 10), decodes(5, 5)], [], free=4, batch_limit=1, token_budget=14)
    assert formed(Sarathi(), view) == ([0, 1], [])


def test_the_last_one_evicts_itself_when_the_others_have_taken_all():
    view = view_of([decodes(10, 5), decodes(20, 5), prefills(30, 5)], [], free=2, token_budget=50)
    assert formed(Sarathi(), view) == ([1, 1, 0], [2])


def test_a_chunk_is_not_longer_than_the_cap():
    view = view_of([prefills(30, 5)], [waits(10)], free=100)
    assert formed(Vllm(long_prefill_token_threshold=8), view) == ([8, 8], [])
