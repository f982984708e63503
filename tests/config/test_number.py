"""Numbers in settings."""

from __future__ import annotations

import pytest

from evenstep.config.number import finite, numbers_of
from evenstep.errors import InputError


def test_numbers_may_be_repeated_in_text():
    assert numbers_of("law", "speed", "2*1/0.5") == numbers_of("law", "speed", (1, 1, 0.5)) == (1.0, 1.0, 0.5)


@pytest.mark.parametrize("text", ["", "x", "1/", "0*1", "-1*2", "1.5*2", "inf", "*3", "9" * 20 + "*1", "9" * 5000 + "*1"])
def test_text_that_is_no_numbers_names_field_and_value(text):
    with pytest.raises(InputError, match=r"^law: speed is "):
        numbers_of("law", "speed", text)


def test_a_number_beyond_every_float_is_one_clear_error():
    with pytest.raises(InputError, match="here: speed is 1000.*; expected a finite number"):
        finite("here", "speed", 10**400)
