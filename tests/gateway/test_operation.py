"""The thread beside the data path: it starts whole or not at all, and ends."""

from __future__ import annotations

import asyncio
import io
import json
import socket
import threading

import pytest
from tests.gateway.fake_gateway import FakeGateway, engine
from tests.gateway.operating import operating

from evenstep.errors import InputError
from evenstep.gateway.control import Doorway
from evenstep.gateway.logs import logging_to
from evenstep.gateway.operation import Operation
from evenstep.gateway.sections import Log
from evenstep.gateway.settling import Given, Sources
from evenstep.gateway.snapshots import Snapshots


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "evenstep-operation"]


def test_it_reads_the_engines_metrics_from_the_start_and_follows_the_fleet():
    async def story():
        async with engine() as one, operating(workers=f"{one.url},name=a") as all_:
            assert (await all_.gateway.heard.get())[1].running == 3
            await all_.client.post("/workers", json={"url": "http://127.0.0.1:1", "name": "gone"})
            while (await all_.gateway.heard.get()) != ("gone", None):
                pass

    asyncio.run(asyncio.wait_for(story(), 20))
    assert threads() == []


def test_without_an_admin_port_there_is_none():
    async def story():
        async with operating(admin__enabled="false") as all_:
            assert all_.operation.port == 0

    asyncio.run(story())


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"engines__ca": "/no/such.pem"}, "engines: ca is '/no/such.pem'"),
        ({"admin__key": "env:NO_SUCH_KEY"}, "admin: key is 'env:NO_SUCH_KEY'; expected a variable"),
        ({"admin__tls__certificate": "/no/such.pem"}, "admin.tls: certificate is"),
        ({"workers": "http://127.0.0.1:1,api_key=env:NO_SUCH_KEY"}, "api_key is 'env:NO_SUCH_KEY'"),
    ],
)
def test_what_is_wrong_is_said_at_the_start(flags, said):
    async def story():
        with pytest.raises(InputError, match=said):
            async with operating(**flags):
                pass

    asyncio.run(story())
    assert threads() == []


def test_a_taken_port_is_said_at_the_start():
    async def story():
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = str(taken.getsockname()[1])
            with pytest.raises(InputError, match=f"admin: port is '127.0.0.1:{port}'; expected a free port"):
                async with operating(admin__port=port):
                    pass

    asyncio.run(story())


def test_a_reload_can_be_asked_for_from_any_thread_and_the_log_says_what_came_of_it(tmp_path):
    file = tmp_path / "gateway.yaml"
    file.write_text("version: 1\n")
    out = io.StringIO()

    async def story():
        async with operating(file=str(file)) as all_:
            file.write_text("version: 1\nslots: 5\n")
            all_.operation.reload()
            while all_.gateway.now.slots != 5:
                await asyncio.sleep(0)
            file.write_text("version: 1\nslots: none\n")
            all_.operation.reload()
            while "refused" not in out.getvalue():
                await asyncio.sleep(0.001)

    with logging_to(Log(format="json"), out):
        asyncio.run(asyncio.wait_for(story(), 20))
    said = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [(line["message"], line.get("changed")) for line in said if "config" in line["message"]] == [
        ("config reloaded", ["slots"]), ("config refused, nothing has changed", None),
    ]  # fmt: skip


def test_fallbacks_are_reported_once_with_what_is_new():
    out = io.StringIO()

    async def story():
        loop = asyncio.get_running_loop()
        gateway = FakeGateway()
        sources = Sources(flags={"policy": Given("command line", "jsq")})
        operation = Operation(sources, sources.settled(), gateway, loop)
        counted = gateway.dispatcher.deciding.fallback.counted
        for more in ({"stale": 2}, {}, {"stale": 1, "raised": 3}):
            counted.update(more)
            await operation.report(Snapshots(Doorway(gateway, loop), dict))

    with logging_to(Log(format="json"), out):
        asyncio.run(story())
    said = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [(line.get("stale"), line.get("raised")) for line in said] == [(2, None), (1, 3)]
