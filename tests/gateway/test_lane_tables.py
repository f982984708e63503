"""The memory of the lane: rows that are handed out come back, and what is written is found."""

from __future__ import annotations

import pytest

from evenstep.gateway import lane_layout as at
from evenstep.gateway.lane_tables import Tables


def test_a_connection_is_found_by_its_file_until_it_is_dropped():
    tables = Tables(b"salt")
    number = tables.add(700, 3, -1, 5.0)
    assert tables.of_file[700] == number and tables.heard_s[number] == 5.0
    assert tables.table[at.FILES] == tables.of_file.size > 700
    assert tables.connections[number].tolist() == [700, -1, 3, -1]
    assert tables.drop(number) == 700
    assert tables.of_file[700] == -1


def test_an_engines_connection_that_is_dropped_has_something_to_do_no_more():
    tables = Tables(b"salt")
    numbers = [tables.add(file, -1, 2, 0.0) for file in (5, 6, 7)]
    tables.idle[2, :4] = 3, *numbers
    tables.drop(numbers[1])
    assert tables.idle[2, :3].tolist() == [2, numbers[0], numbers[2]]


def test_an_engine_holds_as_many_connections_as_its_row_has_room_for_busy_ones_included():
    tables = Tables(b"salt")
    held = [tables.add(file, -1, 2, 0.0) for file in range(at.MOST_IDLE)]
    assert min(held) >= 0 and tables.held[2] == at.MOST_IDLE
    assert tables.add(9000, -1, 2, 0.0) == -1
    assert tables.add(9000, -1, 3, 0.0) >= 0 and tables.add(9001, 0, -1, 0.0) >= 0
    tables.drop(held[7])
    assert tables.add(9002, -1, 2, 0.0) >= 0


def test_where_there_is_no_room_there_is_no_connection():
    tables = Tables(b"salt")
    while tables.add(1, -1, -1, 0.0) >= 0:
        pass
    assert not tables._free


@pytest.mark.parametrize("text", [b"", b"some bytes"])
def test_what_a_kind_says_lies_in_one_row(text):
    tables = Tables(b"salt")
    tables.set_kind(4, (b"before", text, b"behind"), b"model", (1, 99, True, 21, 22, 23, 24, 25, 26))
    assert tables.kinds[4].tolist() == [6, len(text), 1, 6, 99, 1, 5, 21, 22, 23, 24, 25, 26]
    assert tables.models[4, :5].tobytes() == b"model"
    assert tables.around[4, : 12 + len(text)].tobytes() == b"before" + text + b"behind"
    tables.set_route(3, 1, b"front", text)
    assert tables.routes[3].tolist() == [1, 5, len(text)]
    tables.set_head(2, b"head", text)
    assert tables.heads[2].tolist() == [4, len(text), -1]


def test_a_request_that_is_over_is_the_next_one_that_is_handed_out():
    tables = Tables(b"salt")
    tables.table[at.FREE] -= 1
    tables.free_request(77)
    assert tables.free[tables.table[at.FREE] - 1] == 77


@pytest.mark.parametrize("name", [b"date", b"Date"])
def test_the_date_of_a_head_is_found_where_there_is_one(name):
    tables, date = Tables(b"salt"), b"Sun, 22 Nov 2026 15:30:00 GMT"
    line = b"\r\n%b: %b" % (name, date)
    for before, after in ((b"HTTP" + line + b"\r\nX: ", b"\r\n\r\n"), (b"HTTP", line + b"\r\n\r\n")):
        tables.set_head(1, before, after)
        place = tables.heads[1, 2]
        assert tables.told[1, place : place + 29].tobytes() == date
    tables.set_head(1, b"HTTP" + line + b"\r\nX: ", line + b"\r\n\r\n")  # which of them is meant?
    assert tables.heads[1, 2] == -1
