"""Batch time by tokens, with the fits of the paper."""

import pytest

from evenstep.cost.batch import Batch
from evenstep.cost.batch_seconds import seconds_by_table
from evenstep.cost.token_budget import FITS, TokenBudget


@pytest.mark.parametrize("fit", FITS)
def test_a_fit_is_flat_up_to_b0_and_rises_by_a_beyond(fit):
    c, a, b0 = FITS[fit]
    law = TokenBudget(fit=fit)
    assert law.seconds(Batch(tokens=1)) == law.seconds(Batch(tokens=int(b0))) == c
    assert law.seconds(Batch(tokens=int(b0) + 100)) == pytest.approx(c + 100 * a)


def test_given_numbers_overrule_the_fit():
    law = TokenBudget(c_s=1.0, a_s=0.5, b0=0.0)
    assert law.seconds(Batch(tokens=4)) == 3.0
    assert seconds_by_table(law.table(), Batch(tokens=4)) == 3.0
