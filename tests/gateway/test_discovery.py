"""Workers come and go by themselves; no news changes nothing."""

from __future__ import annotations

import asyncio
import io
import socket
from itertools import pairwise

import pytest
from tests import clock
from tests.gateway.fake_gateway import FakeGateway
from tests.gateway.running import until

from evenstep.errors import InputError
from evenstep.gateway.config.sections import Log
from evenstep.gateway.config.worker import Discovery, Dns, Kubernetes, Worker, at_address
from evenstep.gateway.operate import discovery
from evenstep.gateway.operate.control import ControlProxy
from evenstep.gateway.operate.discovery import discover, follow_dns, sources
from evenstep.gateway.operate.logs import logging_to
from evenstep.gateway.operate.membership import Membership

COMMON = Worker("http:///base", slots=9, scraped=False)
NAME = Dns("engines.example", 8100, every_s=0.001, worker=COMMON)


@pytest.fixture
def dns(monkeypatch):
    """Answers of the resolver, one a look-up; the last is given again and again. An exception is raised."""
    answers: list[list[str] | OSError] = []

    async def getaddrinfo(_loop, host, port, **_):
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, OSError):
            raise answer
        assert host == "engines.example"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, port)) for one in answer for _ in range(2)]

    monkeypatch.setattr("asyncio.BaseEventLoop.getaddrinfo", getaddrinfo)
    monkeypatch.setattr(discovery, "_AGAIN_S", 0.001)
    return answers


def run_until(done, answers):
    """Discover into a fake gateway until ``done(gateway)``."""

    async def story() -> FakeGateway:
        gateway = FakeGateway()
        membership = Membership(ControlProxy(gateway, asyncio.get_running_loop()), [], lambda _: None)
        (name, follow), *_ = sources(Discovery(dns=[NAME])).items()
        task = asyncio.create_task(discover(name, follow, membership))
        await until(lambda: done(gateway))
        task.cancel()
        return gateway

    return asyncio.run(asyncio.wait_for(story(), 60))


def test_every_address_of_a_name_is_a_worker_for_as_long_as_it_is_there(dns):
    dns += [["10.0.0.1", "fd00::1"], ["10.0.0.2", "fd00::1"]]
    gateway = run_until(lambda g: len(g.asked) == 4, dns)
    assert gateway.asked == [
        ("add", "10.0.0.1:8100"),
        ("add", "[fd00::1]:8100"),
        ("add", "10.0.0.2:8100"),
        ("remove", "10.0.0.1:8100", True),
    ]
    worker = gateway.here["10.0.0.2:8100"]
    assert (worker.url, worker.slots) == ("http://10.0.0.2:8100/base", 9)


def test_a_name_that_cannot_be_looked_up_leaves_the_workers_as_they_are(dns):
    dns += [
        ["10.0.0.1"],
        socket.gaierror("no such name"),
        socket.gaierror("no such name"),
        ["10.0.0.1", "10.0.0.2"],
    ]
    out = io.StringIO()
    with logging_to(Log(), out):
        gateway = run_until(lambda g: len(g.asked) == 2, dns)
    assert gateway.asked == [("add", "10.0.0.1:8100"), ("add", "10.0.0.2:8100")]
    assert out.getvalue().count("no such name") == 2


def test_a_worker_the_gateway_refuses_does_not_end_discovery_and_is_in_the_log(dns, caplog):
    dns += [["10.0.0.1"], ["10.0.0.2"]]

    async def story() -> None:
        gateway = FakeGateway()
        gateway.refuses = "10.0.0.1:8100"
        membership = Membership(ControlProxy(gateway, asyncio.get_running_loop()), [], lambda _: None)
        task = asyncio.create_task(discover("dns", lambda tell: follow_dns(NAME, tell), membership))
        await until(lambda: "10.0.0.2:8100" in gateway.here)
        task.cancel()

    asyncio.run(asyncio.wait_for(story(), 60))
    refused = [record for record in caplog.records if record.message == "discovered workers were refused"]
    assert {record.source for record in refused} == {"dns"} and "10.0.0.1:8100" in refused[0].why


def test_a_source_that_fails_after_each_look_up_is_asked_less_and_less_often(monkeypatch):
    """As an API server does that lists pods, but does not let them be watched."""
    waits = list[float]()

    async def wait(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 7:
            raise asyncio.CancelledError

    async def follow(tell) -> None:
        await tell([])
        raise OSError("forbidden")

    async def story() -> None:
        membership = Membership(ControlProxy(FakeGateway(), asyncio.get_running_loop()), [], lambda _: None)
        with pytest.raises(asyncio.CancelledError):
            await discover("pods", follow, membership)

    monkeypatch.setattr("asyncio.sleep", wait)
    asyncio.run(story())
    assert waits == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]


def test_a_source_that_fails_after_it_was_watched_for_long_is_asked_again_soon():
    begun_s = list[float]()

    async def story() -> None:
        loop, enough = asyncio.get_running_loop(), asyncio.Event()

        async def follow(tell) -> None:
            begun_s.append(loop.time())
            if len(begun_s) == 4:
                await asyncio.sleep(31.0)
            if len(begun_s) == 6:
                enough.set()
            raise OSError("too old resource version")

        membership = Membership(ControlProxy(FakeGateway(), loop), [], lambda _: None)
        task = asyncio.create_task(discover("pods", follow, membership))
        await enough.wait()
        task.cancel()

    clock.run(story())
    assert [round(after - before) for before, after in pairwise(begun_s)] == [1, 2, 4, 31 + 1, 2]


def test_ranks_at_an_address_are_a_barrier_group():
    found = at_address(Worker("https:///v", ranks=2), "10.0.0.1", 1)
    assert [(w.name, w.rank, w.group, w.url) for w in found] == [
        ("10.0.0.1:1#0", 0, "10.0.0.1:1", "https://10.0.0.1:1/v"),
        ("10.0.0.1:1#1", 1, "10.0.0.1:1", "https://10.0.0.1:1/v"),
    ]


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (Dns(""), r"discovery.dns\[0\]: name is ''"),
        (Dns("a", port=0), "port is 0; expected a number from 1 to 65535"),
        (Dns("a", every_s=0.0), "every_s is 0.0"),
        (Dns("a", worker=Worker("http://b:1")), "worker.url is 'http://b:1'"),
        (Dns("a", worker=Worker("http://", name="b")), "worker.name is 'b'; expected no name"),
        (Dns("a", worker=Worker("http://", slots=0)), "slots is 0"),
        (Dns("a", worker=Worker("http://", engine="tgi")), r"dns\[0\]: worker.engine is 'tgi'; expected a known engine"),
        (Dns("a", worker=Worker("http://", engine="sglang", role="prefill")), r"worker.engine is 'sglang'; expected .* KV"),
    ],
)
def test_settings_that_make_no_workers_are_refused(found, said):
    with pytest.raises(InputError, match=said):
        sources(Discovery(dns=[found]))


def test_without_its_package_a_cluster_cannot_be_asked(monkeypatch):
    monkeypatch.setattr("evenstep.sockets.find_spec", lambda _: None)
    with pytest.raises(InputError, match=r"pip install 'evenstep\[k8s\]'"):
        sources(Discovery(kubernetes=[Kubernetes("app=vllm", "here")]))


def test_a_source_that_is_given_twice_is_refused():
    with pytest.raises(InputError, match=r"discovery\.dns\[1\]: source is 'dns:engines\.example:8100'; expected .* once"):
        sources(Discovery(dns=[NAME, NAME]))
