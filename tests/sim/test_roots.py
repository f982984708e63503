"""The table of roots."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenstep.compiled import as_plain
from evenstep.sim.cluster.roots import CELLS, OCTAVES, root, root_table

EXPONENT = 0.3


@pytest.mark.slow
@pytest.mark.parametrize("exponent", [0.0, 0.1, 0.3, 0.5, 0.9, 1.0])
def test_lines_between_the_knots_are_within_a_millionth(exponent):
    table = root_table(exponent)
    low, high = OCTAVES
    assert table.shape == ((high - low) * CELLS + 1,)
    octave = np.repeat(np.arange(low, high), CELLS)
    middle = np.ldexp(1.0 + (np.tile(np.arange(CELLS), high - low) + 0.5) / CELLS, octave)
    assert (table[:-1] + table[1:]) / 2 == pytest.approx(middle**exponent, rel=1e-6)


@given(st.floats(1e-9, 1e6))
def test_a_root_is_within_a_millionth(x):
    assert as_plain(root)(np.float64(x), root_table(EXPONENT)) == pytest.approx(x**EXPONENT, rel=1e-6)


def test_the_compiled_root_has_the_bits_of_the_plain_one():
    for x in (1e-8, 0.00491, 0.25, 1.0, 3.7, 1000.0):
        assert root(x, root_table(EXPONENT)) == as_plain(root)(np.float64(x), root_table(EXPONENT))
