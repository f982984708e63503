"""The batch-time law of coefficients."""

import pytest
from hypothesis import given
from tests.strategies import batches

from evenstep.cost.regression import Regression
from evenstep.errors import InputError

LAW = Regression(0.01, token_s=1e-5, request_s=1e-4, kv_s=1e-7, square_s=1e-8, crossed_s=2e-8, decode_s=3e-7)


@given(batch=batches())
def test_every_part_counts_with_its_coefficient(batch):
    parts = (
        0.01,
        1e-5 * batch.tokens,
        1e-4 * batch.requests,
        1e-7 * batch.kv,
        1e-8 * batch.chunk_squares,
        2e-8 * batch.crossed,
        3e-7 * batch.decode_context,
    )
    assert LAW.seconds(batch) == pytest.approx(sum(parts))


def test_a_negative_coefficient_is_refused():
    with pytest.raises(InputError, match="kv_s"):
        Regression(kv_s=-1e-9)
