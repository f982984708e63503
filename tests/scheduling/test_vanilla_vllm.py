"""The first vLLM by its promises."""

import pytest
from hypothesis import given
from tests.strategies import engine_views

from evenstep.errors import InputError
from evenstep.scheduling.policies.vanilla_vllm import VanillaVllm


@given(engine_views())
def test_a_batch_has_one_phase_and_prompts_go_first(view):
    tokens = VanillaVllm().form_batch(view).tokens
    assert not ((tokens[view.decoding] > 0).any() and (tokens[~view.decoding] > 0).any())
    if (tokens[view.decoding] > 0).any() and not VanillaVllm().form_batch(view).evict.any():
        assert (tokens[view.running & ~view.decoding] == 0).all()


@given(engine_views())
def test_prompts_run_whole_but_for_the_first_of_a_batch(view):
    tokens = VanillaVllm(watermark=0.0).form_batch(view).tokens
    cut = (tokens > 0) & (tokens < view.left)
    assert cut.sum() <= max(1, (view.running & ~view.decoding).sum())


def test_a_bad_watermark_is_named():
    with pytest.raises(InputError, match="watermark"):
        VanillaVllm(watermark=-0.1)
