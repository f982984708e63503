"""Keys in place of text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from evenstep.dispatch.keys import blocks_of, key_of


@given(st.binary(), st.binary(max_size=64))
def test_a_key_fits_a_float_and_depends_on_text_and_salt_alone(text, salt):
    assert 1 <= key_of(text, salt) < 2**53
    assert key_of(text, salt) == key_of(text, salt)


def test_another_salt_is_another_key():
    assert key_of(b"hello", b"one") != key_of(b"hello", b"two")


@given(st.binary(max_size=40), st.binary(max_size=40), st.integers(1, 8))
def test_equal_blocks_are_equal_prefixes(one, other, size):
    common = sum(
        1 for a, b in zip(blocks_of(one, b"s", size), blocks_of(other, b"s", size), strict=False) if a == b
    )
    assert one[: common * size] == other[: common * size]
    assert len(blocks_of(one, b"s", size)) == len(one) // size
