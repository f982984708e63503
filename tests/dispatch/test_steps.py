"""Idle time at the barrier, live."""

from __future__ import annotations

import pytest

from evenstep.dispatch.mirror import LOAD, Mirror
from evenstep.dispatch.settings import WorkerSpec
from evenstep.dispatch.steps import Steps


def test_idle_shares_are_of_loads_until_there_is_a_law():
    mirror = Mirror()
    for name in "ab":
        mirror.add(WorkerSpec(name=name, group="g", scraped=False), 0.0)
    mirror.f[LOAD][0], mirror.f[LOAD][1] = 100.0, 50.0
    steps = Steps([0, 1])
    steps.completed(mirror, 1.0)  # the first has no beginning
    steps.completed(mirror, 1.5)
    shown = steps.values(mirror)
    assert shown["ratios_are_of"] == "load" and shown["steps_total"] == 1
    assert shown["barrier_idle_ratio"] == pytest.approx(0.25) and shown["balance_ratio"] == pytest.approx(
        0.75
    )
    assert shown["barrier_idle_device_seconds_total"] == pytest.approx(0.25)
    assert shown["imbalance_tokens"] == {"envelope": 50.0, "spread": 50.0}
    steps.stopped()
    steps.completed(mirror, 99.0)
    assert steps.steps == 1


def test_with_a_law_they_are_of_time():
    mirror = Mirror()
    for name in "ab":
        mirror.add(WorkerSpec(name=name, group="g", scraped=False), 0.0)
    steps, now_s = Steps([0, 1]), 0.0
    for number in range(80):
        mirror.f[LOAD][0], mirror.f[LOAD][1] = 100.0 + number, 0.0
        now_s += 100.0 + (100.0 + number)
        steps.completed(mirror, now_s)
    assert steps.is_of_time
    assert steps.idle_share == pytest.approx(0.5 * 179 / 279)
