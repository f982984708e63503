"""Deadlines that move."""

from __future__ import annotations

import asyncio
import gc
import time
import weakref

import pytest
from tests import clock

from evenstep.gateway.connections.deadline import NEVER, Deadline


def test_it_is_reached_once_when_it_has_come_and_not_when_it_moved_on():
    async def story():
        reached = asyncio.Event()
        times = []
        deadline = Deadline(asyncio.get_running_loop(), lambda: (times.append(time.monotonic()), reached.set()))
        start = time.monotonic()
        deadline.set(start + 0.01)
        deadline.at = start + 0.04  # later: one assignment
        await reached.wait()
        assert times[0] == pytest.approx(start + 0.04)
        assert deadline.at == NEVER
        reached.clear()
        deadline.set(start + 100.0)
        deadline.set(time.monotonic() + 0.005)  # earlier
        await reached.wait()
        assert len(times) == 2

    clock.run(story())


def test_one_that_ended_or_is_never_is_not_reached():
    async def story():
        loop, times = asyncio.get_running_loop(), []
        ended, never = (Deadline(loop, lambda: times.append(1)) for _ in range(2))
        later = asyncio.Event()
        ended.set(time.monotonic())
        ended.end()
        never.set(time.monotonic() + 0.002)
        never.at = NEVER
        last = Deadline(loop, later.set)
        last.set(time.monotonic() + 0.01)
        await later.wait()
        assert times == []

    clock.run(story())


def test_one_that_ended_lets_its_owner_go_without_the_collector():
    class Owner:
        def __init__(self, loop):
            self.deadline = Deadline(loop, self.late)

        def late(self):
            raise AssertionError("an ended deadline was reached")

    async def story():
        owner = Owner(asyncio.get_running_loop())
        owner.deadline.set(time.monotonic())
        owner.deadline.end()
        owner.deadline.set(time.monotonic())  # nothing is done any more
        await asyncio.sleep(1.0)
        gone = weakref.ref(owner)
        del owner
        assert gone() is None

    gc.disable()
    try:
        clock.run(story())
    finally:
        gc.enable()
