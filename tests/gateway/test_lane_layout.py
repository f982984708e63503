"""The numbers of rows and columns."""

from __future__ import annotations

from evenstep.gateway import lane_layout as at


def test_every_place_of_the_table_has_a_number_of_its_own():
    names = list(vars(at))
    first, last = names.index("READY"), names.index("HASHED")
    places = [getattr(at, name) for name in names[first : last + 1] if name.isupper()]
    assert places == list(range(at.PLACES))


def test_the_head_that_is_written_fits_in_front_of_what_is_read():
    assert at.MOST_LINES + 2 * 32 < at.HEADROOM
    assert at.MOST_AROUND < at.MOST_REQUEST - at.HEADROOM
