"""Numbers with their nouns."""

from __future__ import annotations

from evenstep.wording import counted


def test_a_number_of_things_has_the_noun_in_the_right_form():
    assert [counted(1, "policy", "policies"), counted(2, "policy", "policies"), counted(1200, "point")] == [
        "1 policy",
        "2 policies",
        "1,200 points",
    ]
