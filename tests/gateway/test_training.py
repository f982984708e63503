"""Fits made beside the loop."""

from __future__ import annotations

import asyncio
import logging
import threading

import pytest
from tests.clock import turned
from tests.gateway.running import DONE, END, EVENTS, chunk, engine, framed, raw, request, serving, until
from tests.gateway.test_served import BODY, CLOSE

from evenstep.gateway.config.worker import Worker
from evenstep.gateway.serve.training import Trainer
from evenstep.predict.trees import TreesFit


class Held:
    """A fit that takes as long as a test wants."""

    def __init__(self, error=None):
        self.go, self.thread, self.error = threading.Event(), None, error

    def make(self):
        self.thread = threading.current_thread()
        assert self.go.wait(10.0)
        if self.error is not None:
            raise self.error


async def looked_at(fits, due):
    """A host that is shown these fits one after the other, and what it told when all were let go."""
    told = []
    fitting = Trainer(asyncio.get_running_loop(), lambda: due, told.append)
    for fit in fits:
        fitting.look(fit)
    await until(lambda: fits[0].thread is not None)
    fits[0].go.set()
    await until(lambda: not fitting._at_work)
    return told


def test_a_fit_is_made_in_another_thread_and_told_in_the_loop():
    fit = Held()
    (event,) = asyncio.run(looked_at([fit], fit))
    assert event.ok and fit.thread is not threading.main_thread()


def test_one_fit_is_made_at_a_time():
    fits = [Held(), Held()]
    assert len(asyncio.run(looked_at(fits, fits[0]))) == 1
    assert fits[1].thread is None


def test_a_fit_that_is_not_due_any_more_is_not_told():
    assert asyncio.run(looked_at([Held()], Held())) == []


def test_a_fit_that_fails_is_told_as_such_and_logged(caplog):
    fit = Held(error=ValueError("no data"))
    with caplog.at_level(logging.WARNING):
        (event,) = asyncio.run(looked_at([fit], fit))
    assert not event.ok
    assert "a predictor could not be fitted: ValueError: no data" in caplog.text


async def short_or_long(number, head, body, writer):
    """Ends at different times, so that a round finds somebody running and asks how long that will be."""
    writer.write(EVENTS)
    last = 1 + 4 * (number % 2)
    for place in range(last + 1):
        writer.write(framed(chunk(" a", 1, "length" if place == last else None)))
        await writer.drain()
        await turned()
    writer.write(framed(DONE) + END)


def test_a_gateway_puts_models_in_while_it_serves(monkeypatch):
    pytest.importorskip("lightgbm")
    threads, make = set(), TreesFit.make

    def noted(fit):
        if fit.models is None:
            threads.add(threading.current_thread().name)
        return make(fit)

    monkeypatch.setattr(TreesFit, "make", noted)

    async def story():
        rules = {"policy": "br-h:horizon=5", "predictor": "learned:first=6,trees=2"}
        async with engine(short_or_long) as one, serving(Worker(url=one.url, slots=2), **rules) as server:
            (pool,) = server.gateway.pools.all
            for _ in range(40):
                await asyncio.gather(*(raw(server, request(BODY, headers=CLOSE)) for _ in range(4)))
                if pool.dispatcher.parts.deciding.ahead.gate.counted()["predictor_fits"]:
                    return
            raise AssertionError("no models were put in")

    asyncio.run(story())
    assert threads == {"evenstep-fit"}
