"""The bound A_min knows, by its two readings."""

from dataclasses import replace

import numpy as np
from hypothesis import given
from tests.scheduling._views import decodes, formed, view_of, waits
from tests.strategies import engine_views

from evenstep.compiled import as_plain
from evenstep.scheduling.filling import rule_view
from evenstep.scheduling.intervals import learning
from evenstep.scheduling.policies.a_min import AMin


@given(engine_views())
def test_an_eviction_lowers_a_known_bound_only_when_read_literally(view):
    half = view.output_low // 2
    evicted = rule_view(replace(view, evictions=np.ones_like(view.evictions), reached=half, lost_at=half))
    for row in range(view.left.size):
        assert as_plain(learning.learned)(rule_view(view), None, row) == view.output_low[row]
        assert as_plain(learning.learned)(evicted, None, row) == view.output_low[row] // 2
        assert as_plain(learning.raised)(evicted, None, row) == view.output_low[row]


@given(engine_views())
def test_ties_among_victims_are_by_chance_and_never_change_the_order_of_bounds(view):
    view = rule_view(view)
    rows = range(view.left.size)
    bounds = [as_plain(learning.raised)(view, None, row) for row in rows]
    keys = [as_plain(learning.with_chance)(view, row, bounds[row]) for row in rows]
    assert [int(key) for key in keys] == bounds
    assert len(set(keys)) == len(keys)


def test_each_rule_of_victims_chooses_its_own():
    running = [
        decodes(4, 3, output_low=9, output_high=9),
        decodes(6, 3, output_low=5, output_high=9),
        decodes(3, 4, output_low=7, output_high=9),
    ]
    view = view_of(running, [], free=2)
    assert formed(AMin(victim="bound"), view) == ([1, 0, 1], [1])
    assert formed(AMin(victim="last"), view) == ([1, 1, 0], [2])
    assert formed(AMin(victim="least-kv"), view)[1] in ([0], [2])  # 6 tokens each: by chance


def test_admissions_leave_the_watermark_free():
    queue = [waits(5, output_low=4, output_high=9), waits(5, output_low=4, output_high=9)]
    assert formed(AMin(), view_of([], queue, free=20)) == ([5, 5], [])
    assert formed(AMin(watermark=0.3), view_of([], queue, free=20)) == ([5, 0], [])
