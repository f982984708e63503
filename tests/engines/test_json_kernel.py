"""Compiled reading of JSON: what it takes for a value, every reader takes for the same."""

from __future__ import annotations

import json

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies import examples

from evenstep.engines.json_kernel import end_of_value

TEXTS = st.text(st.sampled_from('aé漢😀"\\\n,:]}{[/ \x1f\x7f'), max_size=20)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | TEXTS | st.floats(-1e6, 1e6).map(lambda x: round(x, 3)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


def end(data, at=0):
    return int(end_of_value(np.frombuffer(data or b" ", np.uint8), at, len(data)))


@given(VALUES, st.booleans(), st.sampled_from([None, 2]), st.binary(max_size=3))
def test_a_value_ends_where_it_was_written_to_whatever_follows(value, ascii_only, indent, rest):
    data = json.dumps(value, ensure_ascii=ascii_only, indent=indent).encode()
    if b"e" in data and isinstance(value, float):
        return
    assert end(data) == len(data)
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not (is_number and rest[:1] in [bytes([byte]) for byte in b"0123456789.eE"]):
        assert end(data + rest) == len(data)


@examples(300)
@given(VALUES, st.booleans(), st.data())
def test_bytes_that_were_meddled_with_are_taken_only_if_others_take_them_too(value, ascii_only, data):
    told = bytearray(json.dumps(value, ensure_ascii=ascii_only).encode())
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(told) - 1)) if told else 0
        told[place : place + data.draw(st.integers(0, 2))] = data.draw(
            st.sampled_from(
                [
                    b"",
                    b'"',
                    b"\\",
                    b"\xc3",
                    b"\xe9",
                    b",",
                    b"]",
                    b"0",
                    b"\\u",
                    b"\\ud83d",
                    b"\x00",
                    b"-",
                    b" ",
                ]
            )
        )
    if end(bytes(told)) == len(told) > 0:
        assert json.loads(bytes(told)) == msgspec.json.decode(bytes(told))


@pytest.mark.parametrize(
    "data",
    [b"", b'"', b'"a', b"[", b"[1,]", b"{,}", b'{"a"}', b'{"a":}', b"[}", b"{]", b"01", b"-", b"1.", b"nul", b'"\\u12"',
     b'"\\ud83d"', b'"\\ud83d\\u0041"', b'"\\udc00"', b'"\xff"', b'"\xc3"', b'"\xed\xa0\x80"', b'"\xe0\x80\x80"', b"1e5",
     b"1234567890123456", b'"\\x"', b"[" * 40 + b"]" * 40],
)  # fmt: skip
def test_what_is_no_value_or_read_in_different_ways_is_not_taken(data):
    assert end(data) < 0


def test_a_long_text_is_read_to_its_end_wherever_something_odd_stands_in_it():
    for place in range(40):
        text = "x" * place + "é\\n" + "y" * (40 - place)
        data = f'"{text}" '.encode()
        assert end(data) == len(data) - 1
