"""Prompt tokens before anybody has told them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenstep.engines.requests.prompt_size import PRIOR_BYTES_PER_TOKEN, PromptSizes


def test_an_unknown_model_has_the_prior():
    assert PromptSizes().bytes_per_token("m") == PRIOR_BYTES_PER_TOKEN
    assert PromptSizes().estimate("m", 400) == 100
    assert PromptSizes().estimate("m", 0) == 1
    assert PromptSizes(prior=1.0).estimate("m", 100) == 100


@given(st.floats(0.5, 12))
def test_the_ratio_of_a_model_is_learned(ratio):
    sizes = PromptSizes()
    for tokens in range(500, 3000, 5):
        sizes.learn("m", int(tokens * ratio), tokens)
    assert sizes.bytes_per_token("m") == pytest.approx(ratio, rel=0.02)
    assert sizes.bytes_per_token("other") == PRIOR_BYTES_PER_TOKEN


def test_what_tells_nothing_teaches_nothing_and_old_models_go(monkeypatch):
    monkeypatch.setattr("evenstep.engines.requests.prompt_size.MODELS", 2)
    sizes = PromptSizes()
    sizes.learn("a", 0, 5)
    sizes.learn("a", 5, -1)
    assert sizes.bytes_per_token("a") == PRIOR_BYTES_PER_TOKEN
    for model in "abca":
        sizes.learn(model, 8000, 1000)
    assert sizes.bytes_per_token("b") == PRIOR_BYTES_PER_TOKEN
    assert sizes.bytes_per_token("c") != PRIOR_BYTES_PER_TOKEN
