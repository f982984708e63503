"""Every source owns its workers; a change is planned, then carried out."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from tests.gateway.fake_gateway import FakeGateway
from tests.gateway.running import config_of

from evenstep.errors import InputError
from evenstep.gateway.config.config import GatewayConfig
from evenstep.gateway.config.worker import Worker
from evenstep.gateway.operate.control import ControlProxy
from evenstep.gateway.operate.membership import ADMIN, CONFIG, Membership
from evenstep.gateway.serve.gateway import Gateway

A, B, C = (Worker(f"http://{name}:1", name=name, slots=4) for name in "abc")


def story(told):
    """Run ``told(gateway, membership, fleets)`` with one worker, a, in the config."""

    async def run() -> None:
        gateway, fleets = FakeGateway(GatewayConfig(workers=[A])), list[list[str]]()
        proxy = ControlProxy(gateway, asyncio.get_running_loop())
        membership = Membership(proxy, [A], lambda fleet: fleets.append(sorted(w.name for w in fleet)))
        await told(gateway, membership, fleets)

    asyncio.run(run())


def test_a_source_brings_and_takes_only_its_own_workers():
    async def told(gateway, membership, fleets):
        await membership.replace("dns", [B, C])
        await membership.replace("dns", [C])
        assert gateway.asked == [("add", "b"), ("add", "c"), ("remove", "b", True)]
        assert fleets == [["a", "b", "c"], ["a", "c"]]
        assert [membership.source_of(name) for name in "abc"] == [CONFIG, "", "dns"]
        await membership.replace("dns", [C])
        assert len(fleets) == 2

    story(told)


def test_what_comes_and_goes_is_in_the_log_with_its_source(caplog):
    async def told(gateway, membership, fleets):
        await membership.replace("dns", [B])
        await membership.replace("dns", [replace(B, slots=9), C])
        await membership.replace("dns", [C])
        await membership.remove("a", True)

    with caplog.at_level("INFO", "evenstep.gateway"):
        story(told)
    assert [(record.message, record.worker, record.source) for record in caplog.records] == [
        ("worker joined", "b", "dns"),
        ("worker described anew", "b", "dns"),
        ("worker joined", "c", "dns"),
        ("worker leaves", "b", "dns"),
        ("worker leaves", "a", CONFIG),
    ]


def test_workers_that_an_operator_names_stay_beside_each_other():
    async def told(gateway, membership, fleets):
        await asyncio.gather(membership.add([B]), membership.add([C]))
        assert fleets[-1] == ["a", "b", "c"] and membership.source_of("c") == ADMIN
        await membership.add([replace(B, slots=9)])
        assert gateway.here["b"].slots == 9 and "c" in gateway.here

    story(told)


def test_a_name_belongs_to_one_source():
    async def told(gateway, membership, fleets):
        with pytest.raises(InputError, match="name is 'a'; expected a name that is free. config has it already"):
            await membership.add([A])
        assert not gateway.asked

    story(told)


def test_the_config_adopts_a_worker_that_an_operator_added_and_describes_in_the_same_way():
    async def told(gateway, membership, fleets):
        await membership.add([B])
        with pytest.raises(InputError, match="admin has it already"):
            membership.plan(CONFIG, [A, replace(B, slots=9)])
        done = await membership.replace(CONFIG, [A, B])
        assert (done.joins, done.adopts, membership.source_of("b")) == ([], ["b"], CONFIG)
        assert gateway.asked == [("add", "b")]
        await membership.replace(CONFIG, [A])
        assert gateway.asked[1:] == [("remove", "b", True)] and fleets[-1] == ["a"]

    story(told)


def test_a_worker_that_drains_can_still_be_forced_out():
    async def told(gateway, membership, fleets):
        gateway.lingers = True
        await membership.remove("a", True)
        await membership.remove("a", False)
        assert gateway.asked == [("remove", "a", True), ("remove", "a", False)] and fleets == [[]]

    story(told)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"url": "http://x:1"}, "url is 'http://x:1'; expected http://a:1"),
        ({"role": "prefill"}, "role is 'prefill'; expected decode"),
    ],
)
def test_a_worker_does_not_become_another_one_under_the_same_name(change, said):
    async def told(gateway, membership, fleets):
        with pytest.raises(InputError, match=said):
            membership.plan(CONFIG, [replace(A, **change)])

    story(told)


def test_an_operator_can_take_out_whoever_named_a_worker():
    async def told(gateway, membership, fleets):
        await membership.remove("a", False)
        assert gateway.asked == [("remove", "a", False)] and fleets == [[]]
        with pytest.raises(InputError, match="name is 'a'; expected the name of a known worker"):
            await membership.remove("a", True)
        plan = await membership.replace(CONFIG, [])
        assert not (plan.joins or plan.leaves)
        assert len(gateway.asked) == 1

    story(told)


def test_workers_of_the_config_may_leave_or_change_while_the_gateway_still_starts():
    """It adds them when kernels are loaded, and added those that had been removed, too."""

    async def told():
        workers = [replace(one, models=["m"]) for one in (A, B, C)]
        gateway = Gateway(config_of(*workers), asyncio.get_running_loop(), b"")
        membership = Membership(ControlProxy(gateway, asyncio.get_running_loop()), workers, lambda fleet: None)
        assert [one.name for one in gateway.workers()] == ["a", "b", "c"]
        await membership.remove("a", True)
        b = replace(workers[1], slots=7)
        plan = await membership.replace(CONFIG, [b])
        assert (plan.joins, plan.leaves) == ([b], ["c"])
        gateway.start()
        assert gateway.workers() == membership.workers() == [b]
        with pytest.raises(InputError):
            await membership.remove("a", True)
        await membership.remove("b", True)
        assert gateway.workers() == []
        gateway.close()

    asyncio.run(told())


def test_what_the_gateway_refuses_is_not_a_member():
    async def told(gateway, membership, fleets):
        gateway.refuses = "c"
        with pytest.raises(InputError, match="this fake takes"):
            await membership.add([B, C])
        assert fleets == [["a", "b"]]

    story(told)


def test_an_engine_is_not_added_twice_but_its_ranks_and_roles_are_workers_of_their_own():
    async def told(gateway, membership, fleets):
        ranks = [Worker("http://r:1", name=f"r#{rank}", rank=rank) for rank in range(2)]
        await membership.add(ranks)
        for again in (Worker("http://r:1", name="r"), Worker("http://r:1/", name="s", rank=1)):
            with pytest.raises(InputError, match=r"r#\d is there already"):
                await membership.add([again])
        await membership.add([Worker("http://r:1", name="r#2", rank=2)])
        await membership.add([Worker("http://r:1", name="p", role="prefill")])
        await membership.add([replace(ranks[0], slots=9)])
        assert fleets[-1] == ["a", "p", "r#0", "r#1", "r#2"]

    story(told)


def test_a_worker_can_have_another_key():
    async def told(gateway, membership, fleets):
        await membership.replace(CONFIG, [replace(A, api_key="sk-new")])
        assert gateway.here["a"].api_key == "sk-new"

    story(told)


def test_an_engine_that_another_source_has_is_refused_to_the_config():
    async def told(gateway, membership, fleets):
        await membership.add([B])
        with pytest.raises(InputError, match="url is 'http://b:1/'; expected each engine once. b is there already"):
            membership.plan(CONFIG, [A, replace(B, name="x", url="http://b:1/")])
        await membership.replace(CONFIG, [replace(A, name="x")])  # it is not there twice: a leaves
        assert gateway.asked[-2:] == [("add", "x"), ("remove", "a", True)]

    story(told)


def test_discovery_goes_past_workers_of_others_and_takes_them_when_they_are_free(caplog):
    async def told(gateway, membership, fleets):
        await membership.replace("dns", [C])
        await membership.add([B])
        found = [B, replace(A, name="a:1", url="http://a:1/"), Worker("http://d:1", name="d")]
        for _ in range(3):
            await membership.replace("dns", found)
            assert fleets[-1] == ["a", "b", "d"]
            assert [membership.source_of(name) for name in ("a", "b", "a:1", "c", "d")] == [CONFIG, ADMIN, "", "", "dns"]
        said = [
            (record.message, {"worker": record.worker, "source": record.source})
            for record in caplog.records
            if "skipped" in record.message
        ]
        assert said == [
            ("a discovered worker is skipped: another source has it", {"worker": name, "source": "dns"})
            for name in ("b", "a:1")
        ]
        await membership.remove("b", True)
        await membership.replace("dns", found)
        assert membership.source_of("b") == "dns" and fleets[-1] == ["a", "b", "d"]

    with caplog.at_level("INFO", "evenstep.gateway"):
        story(told)
