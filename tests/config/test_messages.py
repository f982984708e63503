"""What errors show of values."""

from __future__ import annotations

import pytest

from evenstep.config.messages import unless_secret


@pytest.mark.parametrize("value", ["total-token", "key", ["class", "token"], {"salt"}, "vllm:token_budget=3"])
def test_a_value_that_ends_with_the_name_of_a_secret_hides_none(value):
    assert unless_secret("score", value) == value


@pytest.mark.parametrize("value", ["api_key s", {"key": "s"}, ["token", "s"], 'salt":"$', "http://a:1,api_key=s"])
def test_what_follows_the_name_of_a_secret_is_hidden(value):
    assert unless_secret("score", value) == "(hidden)"
