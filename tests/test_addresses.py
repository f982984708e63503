"""Addresses of arrays, as the checked build knows them."""

from __future__ import annotations

from array import array

import numpy as np
import pytest

from evenstep import addresses
from evenstep.addresses import is_inside, placed


@pytest.fixture(autouse=True)
def checked(monkeypatch):
    monkeypatch.setattr(addresses, "IS_CHECKED", True)


def test_bytes_of_an_array_are_inside_and_no_others():
    values = np.arange(4)
    base = placed(values)
    assert base == values.ctypes.data
    assert is_inside(base, 0, 32) and is_inside(base, 24, 8) and is_inside(base, 8, 0)
    assert not any((is_inside(base, 0, 33), is_inside(base, 32, 8), is_inside(base, -8, 8)))
    assert not is_inside(base, 0, -8) and not is_inside(base + 8, 0, 8)


def test_an_array_that_is_gone_is_forgotten_and_so_is_where_one_lay_that_grew():
    values = array("q", range(4))
    base = placed(values)
    values.extend(range(100_000))
    moved = placed(values)
    assert is_inside(moved, 0, 8 * 100_004)
    assert moved == base or not is_inside(base, 0, 8)
    del values
    assert not is_inside(moved, 0, 8)


def test_a_view_is_known_as_long_as_what_it_is_a_view_of():
    values = np.zeros(8, np.int64)
    base = placed(values[:4])
    assert is_inside(base, 0, 32) and not is_inside(base, 0, 64)
    placed(values)
    assert is_inside(base, 0, 64)
    del values
    assert not is_inside(base, 0, 8)


def test_another_build_remembers_nothing(monkeypatch):
    monkeypatch.setattr(addresses, "IS_CHECKED", False)
    values = np.arange(4)
    assert not is_inside(placed(values), 0, 8)
