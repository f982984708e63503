"""Batch time with attention."""

import pytest

from evenstep.cost.batch import Batch
from evenstep.cost.long_context import LongContext
from evenstep.cost.token_budget import TokenBudget


def test_attention_is_added_to_the_token_budget():
    batch = Batch(tokens=600, chunk_squares=40, crossed=30, decode_context=20)
    more = LongContext(alpha_s=1.0, beta_s=0.5, gamma_s=0.1).seconds(batch) - TokenBudget().seconds(batch)
    assert more == pytest.approx(40 + 10 + 3)
