"""Buffers with named sections, and the table of roots."""

from __future__ import annotations

import numpy as np
import pytest

from evenstep.sim import cluster_layout as at
from evenstep.sim.cluster_layout import Buffer, root_table

SHAPES = {0: (2, 3), 1: (0,), 2: (9,), 3: (1, 2, 2)}


def test_sections_have_their_shapes_and_share_no_cache_line():
    buffer = Buffer(np.int64, SHAPES)
    assert {k: buffer.window(k).shape for k in SHAPES} == SHAPES
    assert buffer.offsets.tolist() == [0, 8, 8, 24, 32]
    assert not buffer.data.any()


def test_windows_are_the_buffer_and_do_not_touch_each_other():
    buffer = Buffer(np.float64, SHAPES)
    for k in SHAPES:
        buffer.window(k)[...] = k + 1
    for k in SHAPES:
        assert (buffer.window(k) == k + 1).all()
    assert buffer.data[buffer.offsets[2]] == 3.0


def test_a_sealed_window_shows_changes_and_takes_none():
    buffer = Buffer(np.int64, SHAPES)
    sealed = buffer.sealed(2)
    buffer.window(2)[4] = 7
    assert sealed[4] == 7
    with pytest.raises(ValueError, match="read-only"):
        sealed[4] = 8
    assert buffer.window(2).flags.writeable


def test_a_section_that_need_not_be_filled_leaves_the_others_zero():
    buffer = Buffer(np.int64, SHAPES, unset=(2,))
    assert not any(buffer.window(k).any() for k in (0, 1, 3))


@pytest.mark.parametrize("exponent", [0.0, 0.1, 0.3, 0.5, 0.9, 1.0])
def test_lines_between_the_knots_of_the_root_table_are_within_a_millionth(exponent):
    table = root_table(exponent)
    low, high = at.ROOT_OCTAVES
    assert table.shape == ((high - low) * at.ROOT_CELLS + 1,)
    octave = np.repeat(np.arange(low, high), at.ROOT_CELLS)
    middle = np.ldexp(1.0 + (np.tile(np.arange(at.ROOT_CELLS), high - low) + 0.5) / at.ROOT_CELLS, octave)
    assert (table[:-1] + table[1:]) / 2 == pytest.approx(middle**exponent, rel=1e-6)
