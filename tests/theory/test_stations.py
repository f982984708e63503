"""Virtual stations, against hand-worked numbers."""

from __future__ import annotations

import pytest

from evenstep.theory.stations import Flow, engine_loads, virtual_stations


def rybko_stolyar(first: int, second: int) -> list[Flow]:
    """Short calls of load 0.1, long ones of 0.8; `first` and `second` are the ranks of short and long calls."""
    return [
        Flow("A.short", "one", 0.1, first),
        Flow("A.long", "two", 0.8, second, frozenset({"A.short"})),
        Flow("B.short", "two", 0.1, first),
        Flow("B.long", "one", 0.8, second, frozenset({"B.short"})),
    ]


def test_long_calls_that_go_first_share_the_time_of_one_engine():
    (station,) = virtual_stations(rybko_stolyar(first=1, second=0))
    assert set(station.calls) == {"A.long", "B.long"} and station.load == pytest.approx(1.6)
    assert set(station.engines) == {"one", "two"}


def test_short_calls_that_go_first_leave_no_virtual_station():
    assert virtual_stations(rybko_stolyar(first=0, second=1)) == []


def test_equal_ranks_leave_no_virtual_station():
    assert virtual_stations(rybko_stolyar(first=0, second=0)) == []


def test_loads_of_engines_are_sums():
    loads = {one.engines[0]: one.load for one in engine_loads(rybko_stolyar(1, 0))}
    assert loads == pytest.approx({"one": 0.9, "two": 0.9})


def test_a_call_that_starves_but_is_not_starved_makes_no_station():
    flows = rybko_stolyar(first=1, second=0)
    flows[3] = Flow("B.long", "one", 0.8, 2, frozenset({"B.short"}))  # below A.short now
    assert virtual_stations(flows) == []


def test_a_second_call_of_the_same_engine_joins_its_virtual_station():
    flows = [*rybko_stolyar(first=2, second=0), Flow("C.long", "one", 0.05, 1, frozenset({"C.short"}))]
    flows.append(Flow("C.short", "two", 0.01, 3))
    (station,) = virtual_stations(flows)
    assert set(station.calls) == {"A.long", "B.long", "C.long"} and station.load == pytest.approx(1.65)


def test_an_engine_has_the_load_of_its_own_calls():
    loads = engine_loads([Flow("a", "one", 0.1), Flow("b", "two", 0.5), Flow("c", "one", 0.2)])
    assert [(one.engines, one.calls, one.load) for one in loads] == [
        (("one",), ("a", "c"), pytest.approx(0.3)),
        (("two",), ("b",), 0.5),
    ]


def test_calls_of_one_engine_are_no_virtual_station_though_each_is_part_of_one():
    """The second pair has lower priorities: its long calls starve no short call of the first."""
    second = [
        Flow("C.short", "one", 0.01, 3),
        Flow("C.long", "two", 0.05, 2, frozenset({"C.short"})),
        Flow("D.short", "two", 0.01, 3),
        Flow("D.long", "one", 0.05, 2, frozenset({"D.short"})),
    ]
    stations = virtual_stations([*rybko_stolyar(first=1, second=0), *second])
    assert [set(one.calls) for one in stations] == [{"A.long", "B.long"}, {"C.long", "D.long"}]
