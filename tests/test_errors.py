"""The one family of errors."""

from __future__ import annotations

import dataclasses
import math
import pickle
from typing import get_type_hints

import numpy as np
import pytest

from evenstep import names
from evenstep.errors import (
    MOST,
    EngineError,
    EvenstepError,
    InputError,
    PolicyError,
    check_known,
    check_range,
    check_range_if_given,
    nearest,
)


def test_an_input_error_reads_where_field_value_expected_and_what_to_do():
    error = InputError("gateway.yaml", "pool.limit", -5, "an integer >= 1", "Remove the line for the default, 1024.")
    assert str(error) == ("gateway.yaml: pool.limit is -5; expected an integer >= 1. Remove the line for the default, 1024.")


def test_without_a_hint_the_sentence_ends_after_what_was_expected():
    assert str(InputError("a.csv line 3", "tokens", "x", "an integer")) == (
        "a.csv line 3: tokens is 'x'; expected an integer."
    )


def test_a_message_is_one_line_however_long_the_value():
    text = str(InputError("a.csv", "row", "x\n" * 500, "a row", "Look\nat it."))
    assert "\n" not in text
    assert len(text) < 300


def test_an_input_error_survives_the_way_between_processes():
    error = pickle.loads(pickle.dumps(InputError("a", "b", 3, "c", "D.")))
    assert str(error) == "a: b is 3; expected c. D."
    assert error.field == "b"


@pytest.mark.parametrize("kind", [InputError, EngineError, PolicyError])
def test_every_error_of_ours_is_one_family(kind):
    assert issubclass(kind, EvenstepError)


def test_nearest_offers_what_is_close_and_else_all():
    assert nearest("bf-oi", ["bf-io", "jsq"]) == "Did you mean bf-io?"
    assert nearest("zzz", ["jsq", "bf-io"]) == "Known: bf-io, jsq."
    assert nearest("zzz", []) == ""


def refused(value, **bounds) -> bool:
    try:
        check_range("here", "words", x=value, **bounds)
    except InputError:
        return True
    return False


@pytest.mark.parametrize(
    ("bounds", "accepted", "beyond"),
    [
        ({"low": 1}, (1, 1.5, math.inf), (0.999, -math.inf)),
        ({"above": 0}, (5e-324, math.inf), (0, -0.0, -1)),
        ({"high": 1}, (1, -math.inf), (1.001, math.inf)),
        ({"below": 1}, (0.999, -math.inf), (1, math.inf)),
        ({"low": 0, "high": 1}, (0, 0.5, 1), (-0.001, 1.001, math.inf)),
        ({"low": 0, "below": 1}, (0, 0.999), (-0.001, 1)),
        ({"above": 0, "high": 1}, (0.001, 1), (0, 1.001)),
        ({"above": 0, "below": 1}, (0.001, 0.999), (0, 1)),
        ({"low": 0, "finite": True}, (0, 1e308, 10**400), (-1, math.inf)),
        ({"finite": True}, (0, -1e308, 1e308), (-math.inf, math.inf)),
        ({}, (-math.inf, 0, math.inf), ()),
    ],
)
def test_a_range_holds_its_low_and_high_but_not_what_it_lies_above_and_below(bounds, accepted, beyond):
    assert not any(refused(value, **bounds) for value in accepted)
    assert all(refused(value, **bounds) for value in beyond)


@pytest.mark.parametrize("bounds", [{}, {"low": 1}, {"above": 0}, {"high": 1}, {"below": 1}, {"finite": True}])
def test_no_range_holds_nan_text_or_none_unless_it_is_optional(bounds):
    assert refused(math.nan, **bounds)
    assert refused("1", **bounds)
    assert refused(None, **bounds)
    if "below" not in bounds:
        check_range_if_given("here", "words", x=None, **bounds)


@pytest.mark.parametrize("room", ["routing", "scheduling", "predict"])
def test_a_number_that_must_be_given_is_not_none(room):
    """``PowerOfD(d=None)`` failed with a traceback at its first decision."""
    for name in names.members(room):
        kind = names.find(room, name)
        hints = get_type_hints(kind)
        for field in (one.name for one in dataclasses.fields(kind) if one.init and hints[one.name] in (int, float)):
            with pytest.raises(InputError, match=f"{field} is None"):
                kind(**{field: None})


@pytest.mark.parametrize("words", ["an integer >= 1", "a whole number >= 1"])
def test_a_range_of_integers_holds_no_fraction_and_nothing_beyond_what_a_float_counts(words):
    for value in (1, np.int64(3), np.uint8(1), True, MOST):
        check_range("here", words, low=1, x=value)
    for value in (2.5, 2.0, np.float64(2.0), math.inf, np.bool_(True)):
        with pytest.raises(InputError, match=f"^here: x is {value}; expected {words}\\.$"):
            check_range("here", words, low=1, x=value)
    with pytest.raises(InputError, match=f"^here: x is {10**20}; expected {words}, at most {MOST}\\.$"):
        check_range("here", words, low=1, x=10**20)


@pytest.mark.parametrize("room", ["routing", "scheduling", "predict", "cost", "batch"])
def test_an_integer_option_is_neither_a_fraction_nor_too_large_for_compiled_code(room):
    """``BestPolicy(window=10**20)`` overflowed at its first decision; ``PowerOfD(d=2.5)`` was taken for 2."""
    for name in names.members(room):
        kind = names.find(room, name)
        hints = get_type_hints(kind) if dataclasses.is_dataclass(kind) else {}
        for field in (one for one in hints if hints[one] in (int, int | None)):
            for value in (2.5, 1 << 63, 10**20):
                with pytest.raises(InputError, match=f"{field} is {value}; expected"):
                    kind(**{field: value})


def test_the_first_number_outside_a_range_names_the_error():
    with pytest.raises(InputError) as error:
        check_range("best", "a number >= 0", low=0, pull=0, ageing=-2, window=-1)
    assert str(error.value) == "best: ageing is -2; expected a number >= 0."


def test_a_range_passes_its_hint_on():
    with pytest.raises(InputError) as error:
        check_range("bf-io", "an integer >= 0", "0 considers the whole pool.", low=0, window=-1)
    assert str(error.value) == "bf-io: window is -1; expected an integer >= 0. 0 considers the whole pool."


def test_fields_may_be_called_as_the_place_and_the_words_are():
    with pytest.raises(InputError, match=r"^law: expected is 0; expected a number > 0\.$"):
        check_range("law", "a number > 0", above=0, where=1, expected=0)


def test_an_unknown_word_is_an_error_with_the_nearest():
    check_known("file", "policy", "jsq", {"jsq": 1}, "a known policy")
    with pytest.raises(InputError, match=r"^file: policy is 'jsp'; expected a known policy. Did you mean jsq\?$"):
        check_known("file", "policy", "jsp", {"jsq": 1}, "a known policy")


@pytest.mark.parametrize(("word", "hint"), [("never", ""), ("tmied", r" Did you mean timed\?")])
def test_a_list_of_the_known_words_is_not_repeated_in_the_hint(word, hint):
    with pytest.raises(InputError, match=f"^file: arrivals is '{word}'; expected one of timed, closed.{hint}$"):
        check_known("file", "arrivals", word, ("timed", "closed"))
