"""Changing one member of a JSON object, and nothing else."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenstep.engines.streams import splice
from evenstep.errors import InputError

values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(st.sampled_from(["a", "b", 'q"', "é", "x\\"]), values, max_size=5)
layouts = st.sampled_from([(None, (",", ":")), (None, (", ", ": ")), (2, (",", ": "))])


@given(objects, layouts, st.booleans())
def test_members_lie_where_the_spans_say(value, layout, ascii_only):
    text = json.dumps(value, indent=layout[0], separators=layout[1], ensure_ascii=ascii_only).encode()
    found = splice.members(text)
    assert list(found) == list(value)
    for name, (key, start, stop) in found.items():
        assert json.loads(text[start:stop]) == value[name]
        assert text[key : key + 1] == b'"'


@given(
    objects,
    layouts,
    st.dictionaries(st.sampled_from(["a", "b", 'q"', "é", "new"]), st.none() | st.just(b"7"), max_size=4),
)
def test_replaced_is_what_a_dict_would_be_and_keeps_the_order(value, layout, changes):
    text = json.dumps(value, indent=layout[0], separators=layout[1]).encode()
    expected = {k: 7 if k in changes else v for k, v in value.items() if changes.get(k, b"") is not None}
    expected |= {k: 7 for k, v in changes.items() if v is not None}
    result = json.loads(splice.replaced(text, changes))
    assert result == expected
    assert list(result) == list(expected)


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.sampled_from(["1", '"x, y"', '{"a": 1}']), st.sampled_from([":", ": ", " : "])),
        min_size=1,
        max_size=4,
    ),
    st.sampled_from([",", ", ", " ,"]),
)
def test_a_key_that_is_there_twice_is_refused_in_every_layout(told, comma):
    text = "{" + comma.join(f'"{name}"{colon}{value}' for name, value, colon in told) + "}"
    names = [name for name, _, _ in told]
    if len(set(names)) < len(names):
        with pytest.raises(InputError, match="each key once"):
            splice.members(text.encode())
    else:
        found = splice.members(text.encode())
        assert [text[start:stop] for _, start, stop in found.values()] == [value for _, value, _ in told]


def test_every_byte_beside_the_change_stays():
    text = b' { "a" : [1, 2] ,\n\t"b\\u0041":"x\\u0041", "c":{"d":1} } '
    assert splice.replaced(text, {"bA": b"0"}) == b' { "a" : [1, 2] ,\n\t"b\\u0041":0, "c":{"d":1} } '
    assert splice.replaced(text, {"a": None}) == b' { "b\\u0041":"x\\u0041", "c":{"d":1} } '
    assert splice.replaced(text, {"c": None, "n": b"1"}) == b' { "a" : [1, 2] ,\n\t"b\\u0041":"x\\u0041","n":1 } '
    assert splice.replaced(text, {}) == text
    assert splice.replaced(b"{ }", {"n": b"1"}) == b'{"n":1 }'


@pytest.mark.parametrize(
    "text",
    [
        b'{"a":1,"a":2}',
        b'{"a":1,"a":1}',
        b'{"a":1,"b":2,"a":1}',
        b'{"b":1,"a":1,"\\u0061":1}',
        b'{"a":{},"a":{"b":1}}',
        b'{"a":1,"b":2,"a":[{"y":1,"b":2},1,1]}',  # what a walk by lengths alone would take for whole
    ],
)
def test_a_key_twice_is_an_error_that_names_it(text):
    with pytest.raises(InputError, match="each key once"):
        splice.members(text)


@pytest.mark.parametrize(
    "text", [b"", b"[1]", b'{"a":', b"\xff", b'{"a":' + b"[" * 100_000, b'{"a":1} x', b'{"a":NaN}', b"null"]
)
def test_what_is_no_object_is_an_error(text):
    with pytest.raises(InputError, match="expected a JSON object"):
        splice.members(text)


def test_items_are_the_bytes_of_the_elements():
    assert splice.items(b' [1, "a,b" ,{"c": [2]}] ') == [b"1", b'"a,b"', b'{"c": [2]}']


@pytest.mark.parametrize(
    "text", [b'{"a": 1,"b": 2 }', b'{"a" :1, "b":2 }', b'{ "a":1,"b":2}', b'{"a": 1 ,"b":2}', b'{"a": "1,","b":2}']
)
def test_a_layout_of_the_usual_length_is_not_taken_for_the_usual_one(text):
    found = splice.members(text)
    assert {name: (text[key : key + 3], json.loads(text[start:stop])) for name, (key, start, stop) in found.items()} == {
        name: (b'"%b"' % name.encode(), value) for name, value in json.loads(text).items()
    }
