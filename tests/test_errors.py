"""The one family of errors."""

from __future__ import annotations

import pickle

import pytest

from evenstep.errors import EngineError, EvenstepError, InputError, PolicyError, check_known, nearest


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


def test_an_unknown_word_is_an_error_with_the_nearest():
    check_known("file", "policy", "jsq", {"jsq": 1}, "a known policy")
    with pytest.raises(InputError, match=r"^file: policy is 'jsp'; expected a known policy. Did you mean jsq\?$"):
        check_known("file", "policy", "jsp", {"jsq": 1}, "a known policy")
