"""The line that says how it goes."""

from __future__ import annotations

import asyncio
import io
import json

from tests.gateway.operating import operating
from tests.gateway.running import until

from evenstep.gateway.config.sections import Log
from evenstep.gateway.operate.logs import logging_to
from evenstep.gateway.operate.status import Status


def model(requests, tokens, idle_s, waiting=0, of="time", steps=0):
    workers = [{"worker_active_requests": 3, "is_up": up, "group": 0} for up in (True, False)]
    group = {"group": 0, "ratios_are_of": of, "steps_total": steps, "balance_ratio": 0.75}
    return {
        "requests_total": requests,
        "output_tokens_total": tokens,
        "pool_depth": waiting,
        "workers": workers,
        "groups": [{**group, "barrier_idle_device_seconds_total": idle_s}],
    }


def test_it_tells_what_is_new_of_all_models():
    status = Status()
    status.since({"models": {"a": model({"200": 5}, 100, 1.0), "b": model({}, 0, 0.0)}}, 60.0)
    now = {"a": model({"200": 8, "503": 2}, 700, 13.0, waiting=4), "b": model({"200": 1}, 0, 0.0)}
    assert status.since({"models": now}, 60.0) == {
        "requests": 6,
        "failed": 2,
        "tokens_per_s": 10.0,
        "waiting": 4,
        "running": 12,
        "barrier_idle": 0.05,
        "workers": "2/4",
    }


def test_while_no_step_law_is_known_it_tells_load_imbalance_by_its_own_name():
    status, told = Status(), []
    for a, b in (
        (("load", 9, 0.0), ("load", 0, 0.0)),  # b ran no step, so it lost nothing
        (("time", 20, 6.0), ("load", 3, 0.0)),  # the law of a came between
        (("time", 30, 18.0), ("load", 4, 0.0)),
        (("time", 40, 30.0), ("load", 4, 0.0)),
    ):
        models = {name: model({}, 0, idle_s, 0, of, steps) for name, (of, steps, idle_s) in (("a", a), ("b", b))}
        line = status.since({"models": models}, 60.0)
        told.append((line.get("barrier_idle"), line.get("load_imbalance")))
    assert told == [(0.0, 0.25), (None, 0.25), (0.1, 0.25), (0.05, None)]


def test_without_a_model_there_is_a_line_all_the_same():
    assert Status().since({"models": {}}, 0.0)["workers"] == "0/0"


def test_it_is_said_as_often_as_the_config_says_in_one_line():
    out = io.StringIO()

    async def story():
        async with operating(log__status_s="0.01"):
            await until(lambda: out.getvalue().count('"status"') >= 3)

    with logging_to(Log(format="json"), out):
        asyncio.run(asyncio.wait_for(story(), 60))
    said = [json.loads(line) for line in out.getvalue().splitlines()]
    found = next(line for line in said if line["message"] == "status")
    assert found["workers"] == "2/2" and found["requests"] == 0
