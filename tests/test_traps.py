"""What the traps see, and what they let pass."""

from __future__ import annotations

import cProfile
import datetime
import gc
import os
import random
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from evenstep.traps import watching

CASES = {
    "clock": [time.time, time.perf_counter, datetime.datetime.now, datetime.date.today],
    "chance": [
        lambda: os.urandom(4),
        random.random,
        np.random.rand,
        np.random.default_rng,
    ],
    "peek": [lambda: __import__("gc").get_objects(), lambda: __import__("inspect").currentframe()],
    "system": [os.getpid, lambda: Path(__file__).read_text()],
}


@pytest.mark.parametrize(("kind", "call"), [(kind, call) for kind, calls in CASES.items() for call in calls])
def test_a_call_outside_the_view_is_seen(kind, call):
    with watching() as found:
        call()
    assert kind in {seen for seen, _ in found}


def test_arithmetic_and_keyed_chance_pass():
    with watching() as found:
        np.argsort(np.arange(9.0))
        random.Random(3).random()
        sorted([3, 1])
    assert found == []


def test_nothing_is_caught_outside_the_block():
    with watching() as found:
        pass
    time.time()
    assert found == []


def test_what_the_collector_or_another_thread_does_meanwhile_is_not_held_against_a_policy(request):
    ready, done = threading.Event(), threading.Event()

    def reads() -> None:
        ready.wait()
        Path(__file__).read_text()
        done.set()

    other = threading.Thread(target=reads)
    other.start()
    gc.callbacks.append(told := lambda *_: time.perf_counter())
    request.addfinalizer(lambda: gc.callbacks.remove(told))
    with watching() as found:
        ready.set()
        kept = [[number] for number in range(100_000)]  # far more than the collector lets come together
        done.wait()
    other.join()
    assert len(kept) == 100_000 and gc.isenabled()
    assert found == []


def test_a_profiler_that_runs_goes_on_after_the_traps():
    profiler = cProfile.Profile()
    profiler.enable()
    try:
        with watching():
            pass
        sorted([3, 1, 2], key=lambda one: -one)
    finally:
        profiler.disable()
    assert any("lambda" in str(entry.code) for entry in profiler.getstats())
