"""Every batch-time law: its seconds and its numbers are one law; longer batches never take less time."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies import batches

from evenstep import names
from evenstep.cost.batch import FEATURES, Batch
from evenstep.cost.batch_seconds import seconds_by_table
from evenstep.errors import InputError

PLAIN = [name for name in names.members("batch") if name in ("affine-kv", "unit", "token-budget", "long-context")]


@pytest.mark.parametrize("name", PLAIN)
@given(batch=batches(), weights=st.lists(st.floats(0, 1e-3), min_size=3, max_size=3))
def test_a_law_and_its_numbers_agree(name, batch, weights):
    options = {"name": name}
    if name == "long-context":
        options |= dict(zip(("alpha_s", "beta_s", "gamma_s"), map(str, weights), strict=True))
    law = names.build("batch", options)
    assert seconds_by_table(law.table(), batch) == pytest.approx(law.seconds(batch), rel=1e-12)


def test_a_batch_is_as_many_numbers_as_it_has_fields():
    assert Batch().features.size == FEATURES
    assert np.array_equal(Batch(tokens=3, longest=9).features, [3, 0, 0, 0, 0, 0, 0, 0, 9])


@pytest.mark.parametrize(("name", "field"), [("affine-kv", "d0_s"), ("unit", "seconds_each"), ("long-context", "beta_s")])
def test_a_bad_number_is_named(name, field):
    with pytest.raises(InputError, match=field):
        names.build("batch", {"name": name, field: "-1"})
