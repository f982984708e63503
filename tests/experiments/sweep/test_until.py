"""When replicates are enough."""

from __future__ import annotations

import re

import pytest

from evenstep.errors import InputError
from evenstep.experiments.sweep.until import Until, next_count, parse_until
from evenstep.measure.comparison import Interval

METRICS = ("idle_share", "oldest_wait_s")


def test_a_share_of_the_mean_and_a_number_in_the_metrics_unit_are_told_apart():
    found = parse_until("ci(idle_share) < 2% and ci( oldest_wait_s )<.5", METRICS)
    assert found.conditions == (("idle_share", 0.02, True), ("oldest_wait_s", 0.5, False))


def test_half_the_interval_is_compared_with_the_limit():
    narrow, wide = Interval(-10.0, -10.1, -9.9), Interval(-10.0, -10.3, -9.7)
    for condition in (("x", 0.02, True), ("x", 0.2, False)):
        until = Until("", (condition,))
        assert until.holds(lambda metric: narrow) and not until.holds(lambda metric: wide)


def test_a_metric_without_interval_is_never_enough_and_one_that_never_varies_is():
    until = Until("", (("x", 0.02, True),))
    assert not until.holds(lambda metric: None)
    assert not until.holds(lambda metric: Interval(1.0, None, None))
    assert until.holds(lambda metric: Interval(0.0, 0.0, 0.0))


def test_all_conditions_have_to_hold():
    until = parse_until("ci(idle_share) < 2% and ci(oldest_wait_s) < 50%", METRICS)
    widths = {"idle_share": Interval(1.0, 0.99, 1.01), "oldest_wait_s": Interval(1.0, 0.1, 1.9)}
    assert not until.holds(widths.get)
    assert until.holds(lambda name: widths["idle_share"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "position 1 of '' is 'the end'; expected `ci(`"),
        ("idle_share < 2%", "position 1 of 'idle_share < 2%' is 'idle_share'; expected `ci(`"),
        ("ci idle", "position 4 of 'ci idle' is 'idle'; expected `(`"),
        (
            "ci(idle_shar) < 2%",
            "metric at position 4 is 'idle_shar'; expected a known metric. Did you mean idle_share",
        ),
        ("ci(idle_share) > 2%", "position 16 of 'ci(idle_share) > 2%' is '>'; expected a name"),
        ("ci(idle_share) < number", "position 18 of 'ci(idle_share) < number' is 'number'; expected a number"),
        ("ci(idle_share) < x", "position 18 of 'ci(idle_share) < x' is 'x'; expected a number"),
        ("ci(idle_share) < 0", "position 18 of 'ci(idle_share) < 0' is '0'; expected a number above 0"),
        (
            "ci(idle_share) < 2 3",
            "position 20 of 'ci(idle_share) < 2 3' is '3'; expected `%`, `and` or the end",
        ),
        ("ci(idle_share) <", "position 17 of 'ci(idle_share) <' is 'the end'; expected a number"),
        ("ci(idle_share) < 2% and", "position 24 of 'ci(idle_share) < 2% and' is 'the end'; expected `ci(`"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_position(text, message):
    with pytest.raises(InputError, match=re.escape(message)):
        parse_until(text, METRICS)


def test_replicates_grow_by_half_up_to_the_most():
    counts = [2]
    while counts[-1] < 30:
        counts.append(next_count(counts[-1], 30))
    assert counts == [2, 3, 4, 6, 9, 13, 19, 28, 30]
