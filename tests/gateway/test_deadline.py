"""Deadlines that move."""

from __future__ import annotations

import asyncio
import gc
import time
import weakref
from unittest import mock

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


class HeldUp:
    """A loop that was stopped, and goes on at `now_s`: first with the timers that are due, as uvloop's may do."""

    def __init__(self):
        self.now_s, self.timers = 100.0, []

    def call_later(self, wait_s, call, *args):
        self.timers.append((self.now_s + wait_s, lambda: call(*args)))
        return mock.Mock()

    def goes_on(self, at_s):
        self.now_s = max(self.now_s, at_s)
        due, self.timers = self.timers, [one for one in self.timers if one[0] > self.now_s]
        for at, call in due:
            if at <= self.now_s:
                call()


@pytest.mark.parametrize("on_at_s", (160.0, 160.005, 190.0))
@pytest.mark.parametrize("has_news", (True, False))
def test_what_came_while_the_process_was_stopped_counts_before_the_deadlines_that_passed_meanwhile(has_news, on_at_s):
    loop, reached = HeldUp(), []
    with mock.patch.object(time, "monotonic", lambda: loop.now_s):
        deadline = Deadline(loop, lambda: reached.append(loop.now_s))
        deadline.set(160.0)
        loop.goes_on(at_s=on_at_s)
        assert not reached
        if has_news:  # the loop reads its sockets, and a token lay there
            deadline.at = 250.0
        loop.goes_on(at_s=191.0)
        assert reached == ([] if has_news else [191.0])
        loop.goes_on(at_s=250.0)
        loop.goes_on(at_s=251.0)
        assert reached == [251.0 if has_news else 191.0]


def test_a_loop_reads_its_sockets_between_both_looks_however_slow_the_process_is():
    """uvloop takes a wait below half a millisecond for none: it would look before it reads."""
    loop, waits = HeldUp(), []

    def monotonic():
        loop.now_s += 0.002  # another process has the core meanwhile
        return loop.now_s

    with mock.patch.object(time, "monotonic", monotonic):
        deadline = Deadline(loop, mock.Mock())
        deadline.set(100.0)
        later = loop.call_later
        loop.call_later = lambda wait_s, call, *args: (waits.append(wait_s), later(wait_s, call, *args))[1]
        loop.goes_on(at_s=130.0)
    assert waits == [0.001]


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
