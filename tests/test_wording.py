"""Numbers with their nouns, and answers of another class."""

from __future__ import annotations

from evenstep.wording import counted, install_extra, of_other_class


def test_a_number_of_things_has_the_noun_in_the_right_form():
    assert [counted(1, "policy", "policies"), counted(2, "policy", "policies"), counted(1200, "point")] == [
        "1 policy",
        "2 policies",
        "1,200 points",
    ]


def test_an_answer_of_another_class_is_named_with_the_expected_one():
    assert of_other_class("route", [1], dict) == "route answers list; expected a dict"
    assert of_other_class("route", True, int) == "", "a subclass will do"


def test_an_extra_is_installed_from_where_evenstep_came():
    expected = "Install it with: pip install 'evenstep[ray]', or in a clone: pip install '.[ray]'."
    assert install_extra("ray") == expected, "an index may have no evenstep, or another one"
