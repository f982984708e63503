"""Kinds of requests that the lane knows, and the ways they go."""

from __future__ import annotations

import asyncio
import json

import pytest
from tests.gateway.running import serving

from evenstep.engines.prompt_blocks import prompt_blocks
from evenstep.engines.requests import read_request
from evenstep.gateway.alike import alike_of
from evenstep.gateway.lane_kinds import Kinds
from evenstep.gateway.lane_tables import Tables
from evenstep.gateway.worker import Worker

WORKER = Worker(url="http://127.0.0.1:9", models=["m"], scraped=False)


def alike(front, headers="", **more):
    """What a request like this is known by."""
    body = json.dumps({"model": "m", "prompt": "say", "max_tokens": 9} | more).encode()
    head = (
        f"POST /v1/completions HTTP/1.1\r\nHost: x\r\n{headers}Content-Length: {len(body)}\r\n\r\n".encode()
    )
    asking, _ = front.heads.read(head)
    return alike_of(head, read_request("completions", body), asking, front.heads, front.limits)


def told(story, **config):
    async def run():
        async with serving(WORKER, **config) as server:
            story(server.gateway.front)

    asyncio.run(run())


def test_requests_that_say_the_same_are_of_one_kind_and_others_of_another():
    def story(front):
        kinds = Kinds(Tables(b"salt"), b"salt")
        first = kinds.find(alike(front), front)
        assert first is not None and kinds.find(alike(front), front) is first
        other = kinds.find(alike(front, max_tokens=8), front)
        assert other is not None and other.number != first.number
        assert [one.numbers(b"salt")[5] for one in kinds.here] == [9, 8]
        assert kinds.only is first.model

    told(story)


def test_requests_that_others_have_to_serve_are_of_no_kind():
    def story(front):
        kinds = Kinds(Tables(b"salt"), b"salt")
        for more in ({"stream": True}, {"n": 2}, {"model": "other"}, {"kv_transfer_params": {}}):
            assert kinds.find(alike(front, **more), front) is None
        assert kinds.find(alike(front, "Connection: close\r\n"), front) is None
        front.listen_to((print,), ())
        assert kinds.find(alike(front), front) is None

    told(story)


def test_a_way_to_a_worker_begins_and_goes_on_as_its_heads_do():
    def story(front):
        (pool,) = front.pools.all
        (attached,) = pool.attached.values()
        tables = Tables(b"salt")
        kinds = Kinds(tables, b"salt")
        kind = kinds.find(alike(front, "traceparent: 00-ab-cd-01\r\n"), front)
        route = kinds.route(kind, attached)
        assert kind.routes == {attached: route}
        engine, front_size, back = tables.routes[route].tolist()
        assert engine == kinds.engine(attached.endpoint)
        lines = tables.lines[route, : front_size + back].tobytes()
        head = attached.generation_head(False, "NAME", 77, kind.alike.asking.carried)
        assert lines[:front_size] + b"NAME" + lines[front_size:] + b"77\r\n\r\n" == head
        assert b"traceparent" in head

    told(story)


def test_when_no_row_is_left_nothing_more_is_known_until_it_is_cleared():
    def story(front):
        kinds, number = Kinds(Tables(b"salt"), b"salt"), 0
        while not kinds.is_full:
            kinds.find(alike(front, user=str(number)), front)
            number += 1
        assert number == len(kinds.here) + 1
        kinds.clear()
        assert kinds.find(alike(front), front).number == 0

    told(story)


@pytest.mark.parametrize("policy", ["prefix-affinity", "jsq"])
def test_blocks_of_a_prompt_are_those_that_reading_its_request_finds(policy):
    def story(front):
        kinds = Kinds(Tables(b"salt"), b"salt")
        kind = kinds.find(alike(front, tools=[1]), front)
        for size in (1, 254, 255, 1022, 1023, 5000):
            prompt = json.dumps("x" * size).encode()
            body = b'{"model": "m", "prompt": %b, "max_tokens": 9, "tools": [1]}' % prompt
            request = read_request("completions", body)
            expected = prompt_blocks(request, b"salt") if policy == "prefix-affinity" else []
            assert kind.blocks(memoryview(prompt), b"salt") == tuple(expected)

    told(story, policy=policy)
