"""A reload is all or nothing."""

from __future__ import annotations

import asyncio
import shutil
import ssl
from pathlib import Path

import pytest
from tests.gateway.fake_gateway import FakeGateway

from evenstep.errors import InputError
from evenstep.gateway.config.layers import Sources
from evenstep.gateway.config.sections import Engines
from evenstep.gateway.config.worker import Worker
from evenstep.gateway.connections.tls import client_context
from evenstep.gateway.operate import reloading
from evenstep.gateway.operate.control import ControlProxy
from evenstep.gateway.operate.membership import Membership
from evenstep.gateway.operate.reloading import Reloader

FILES = Path(__file__).parent / "certificates"
FILE = "version: 1\npolicy: jsq\nworkers:\n  - {url: 'http://a:1', name: a, slots: 2}\n  - {url: 'http://b:1', name: b}\n"


def story(tmp_path, told, name="gateway.yaml"):
    """Run ``told(file, gateway, reloader, heard)`` with two workers, a and b."""

    async def run() -> None:
        file = tmp_path / name
        file.write_text(FILE)
        sources = Sources(file=str(file))
        settled = sources.settled()
        gateway, heard = FakeGateway(settled.value), list[str]()
        proxy = ControlProxy(gateway, asyncio.get_running_loop())
        membership = Membership(proxy, settled.value.fleet(), lambda _: None)
        listeners = [lambda config: heard.append(config.policy)]
        reloader = Reloader(sources, settled, proxy, membership, listeners, [], lambda tls: None)
        await told(file, gateway, reloader, heard)

    asyncio.run(run())


def test_what_the_file_says_anew_holds_and_workers_come_and_go(tmp_path):
    async def told(file, gateway, reloader, heard):
        file.write_text(FILE.replace("jsq", "br-0").replace("name: b", "name: c").replace("slots: 2", "slots: 3"))
        done = await reloader.reload()
        assert (done.changed, done.joined, done.left, done.needs_restart) == (
            ["workers", "policy"],
            ["a", "c"],
            ["b"],
            [],
        )
        assert gateway.now.policy == "br-0" and heard == ["br-0"]
        assert set(gateway.here) == {"a", "c"} and gateway.here["a"].slots == 3
        assert gateway.asked.index(("reload", "br-0")) == 0
        assert reloader.results == {"ok": 1, "refused": 0}

    story(tmp_path, told)


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("policy: jsq", "polici: jsq", r"line 2: key is 'polici'.*policy"),
        ("policy: jsq", "policy: jqs", r"gateway\.yaml line 2: policy is 'jqs'; expected a known policy"),
        ("policy: jsq", "policy: jsq:tie=3", r"gateway\.yaml line 2: policy is 'jsq:tie=3'.*'tie'.*ties"),
        ("policy: jsq", "policy: br-h\npredictor: nobody", r"line 3: predictor is 'nobody'"),
        ("policy: jsq", "policy: br-h\npredictor: oracle", r"line 3: predictor is 'oracle'; expected a .* no true lengths"),
        ("slots: 2", "slots: 0", "slots is 0"),
        ("http://b:1", "http://x:1", "url is 'http://x:1'; expected http://b:1"),
        ("policy: jsq", "policy: br-0\nkeys: [{key: 'env:NO_SUCH', tenant: t}]", "a variable that is set"),
        ("name: b", "name: c, engine: tgi", "expected a known engine"),
        ("name: b", "name: b, api_key: 'env:NO_SUCH'", "worker b: api_key is 'env:NO_SUCH'; expected a variable"),
        (
            "name: b",
            "name: b}\n  - {url: 'http://a:1', name: c",
            "line 4: workers.url is 'http://a:1'; expected each engine",
        ),
        ("version: 1", "version: 2", "version is 2"),
        ("policy: jsq", "policy: br-0\nengines: {ca: /no/such.pem}", r"line 3: engines.ca is '/no/such.pem'"),
    ],
)
def test_a_bad_file_changes_nothing(tmp_path, before, after, said):
    async def told(file, gateway, reloader, heard):
        here, now, settled = dict(gateway.here), gateway.now, reloader.settled
        file.write_text(FILE.replace("policy: jsq", "policy: jsq\nslots: 9").replace(before, after))
        with pytest.raises(InputError, match=said):
            await reloader.reload()
        assert (gateway.here, gateway.now, gateway.asked, heard) == (here, now, [], [])
        assert reloader.settled is settled and reloader.results["refused"] == 1

    story(tmp_path, told)


def test_an_error_names_its_origin_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    async def told(file, gateway, reloader, heard):
        file.write_text(FILE.replace("name: b", "name: b, api_key: 'env:NO_SUCH'"))
        with pytest.raises(InputError, match=r"^workers\.yaml line 3, worker b: api_key is 'env:NO_SUCH'"):
            await reloader.reload()

    story(Path(), told, "workers.yaml")


@pytest.fixture
def cold(monkeypatch):
    """A machine that has compiled nothing; the policies that are compiled there."""
    made = list[str]()

    async def compile_beside(policy, predictor):
        made.append(policy)

    monkeypatch.setattr(reloading, "compile_beside", compile_beside)
    monkeypatch.setattr(reloading, "build_or_warm", lambda policy, predictor: None)
    monkeypatch.setattr(reloading, "is_compiled", lambda policy, predictor: policy in made)
    return made


def test_a_bad_config_is_refused_before_its_policy_is_compiled(tmp_path, cold):
    async def told(file, gateway, reloader, heard):
        file.write_text(FILE.replace("jsq", "br-0").replace("name: b", "name: b, api_key: 'env:NO_SUCH'"))
        with pytest.raises(InputError, match="api_key"):
            await reloader.reload()
        with pytest.raises(InputError, match="policy is 'brh'"):
            await reloader.set_policy("brh", "")
        assert cold == []

    story(tmp_path, told)


def test_a_wait_for_the_compiler_is_told_once_for_each_policy(tmp_path, cold, caplog):
    async def told(file, gateway, reloader, heard):
        with caplog.at_level("INFO"):
            for _ in range(2):
                await reloader.set_policy("br-0", "")
        assert cold == ["br-0"] * 2

    story(tmp_path, told)
    changed = [record for record in caplog.records if record.message == "policy changed"]
    assert [(record.policy, record.predictor) for record in changed] == [("br-0", "")] * 2
    waits = [record for record in caplog.records if "compil" in record.getMessage()]
    assert [(one.policy, "the former policy decides until then" in one.getMessage()) for one in waits] == [("br-0", True)]


def test_kernels_are_loaded_before_they_are_used_if_the_process_changes_over_meanwhile(tmp_path, cold, monkeypatch):
    is_plain, loaded = [True], list[tuple[str, bool]]()

    def load(policy, predictor):
        loaded.append((policy, is_plain[0]))
        is_plain[0] = False  # compiled code decides from now on

    monkeypatch.setattr(reloading, "begins_plain", lambda: is_plain[0])
    monkeypatch.setattr(reloading, "build_or_warm", load)

    async def told(file, gateway, reloader, heard):
        await reloader.set_policy("br-0", "")
        assert loaded == [("br-0", True), ("br-0", False)]
        assert gateway.asked == [("reload", "br-0")] and heard == ["br-0"]

    story(tmp_path, told)


def test_what_the_gateway_itself_refuses_changes_no_worker(tmp_path):
    async def told(file, gateway, reloader, heard):
        gateway.refuses = "reload"
        file.write_text(FILE.replace("name: b", "name: c"))
        with pytest.raises(InputError, match="this fake takes"):
            await reloader.reload()
        assert set(gateway.here) == {"a", "b"} and not heard

    story(tmp_path, told)


def test_a_worker_refused_late_leaves_the_new_config_in_force_and_the_log_says_so(tmp_path, caplog):
    async def told(file, gateway, reloader, heard):
        gateway.refuses = "c"
        file.write_text(FILE.replace("jsq", "br-0").replace("name: b", "name: c"))
        with pytest.raises(InputError, match="this fake takes"):
            await reloader.reload()
        assert gateway.now.policy == reloader.settled.value.policy == "br-0"
        assert [record.message for record in caplog.records if record.levelname == "ERROR"] == [
            "the new config is in force, but not all of its workers"
        ]

    story(tmp_path, told)


def test_what_a_process_cannot_change_stays_and_is_named(tmp_path):
    async def told(file, gateway, reloader, heard):
        file.write_text(f"{FILE}listen: {{port: 9}}\nlimits: {{body_s: 5}}\n")
        done = await reloader.reload()
        assert (done.changed, done.needs_restart) == (["limits.body_s"], ["listen.port"])
        assert gateway.now.listen.port == 8000 and gateway.now.limits.body_s == 5.0
        assert reloader.settled.origin["listen.port"] == "default"
        assert reloader.settled.origin["limits.body_s"].endswith("gateway.yaml line 7")

    story(tmp_path, told)


def test_the_trust_in_engines_is_that_of_the_last_reload_whatever_policy_follows(tmp_path):
    authorities = tmp_path / "ca.pem"

    async def told(file, gateway, reloader, heard):
        shutil.copy(FILES / "ca.pem", authorities)
        file.write_text(f"{FILE}engines: {{ca: {authorities}, scrape_s: 3}}\n")
        done = await reloader.reload()
        assert (done.changed, done.needs_restart) == (["engines.scrape_s", "engines.ca"], [])
        trusted = gateway.tls
        assert trusted.cert_store_stats()["x509_ca"] > client_context(Engines()).cert_store_stats()["x509_ca"]
        authorities.write_text("nonsense")
        await reloader.set_policy("br-0", "")
        assert gateway.tls is trusted
        file.write_text(f"{FILE}engines: {{verify: false, scrape_s: 3}}\n")
        assert (await reloader.reload()).changed == ["policy", "engines.ca", "engines.verify"]
        assert gateway.tls.verify_mode == ssl.CERT_NONE

    story(tmp_path, told)


def test_an_operators_policy_holds_until_the_next_reload(tmp_path):
    async def told(file, gateway, reloader, heard):
        await reloader.set_policy("br-h:horizon=5", "bounded")
        assert (gateway.now.policy, gateway.now.predictor) == ("br-h:horizon=5", "bounded")
        assert reloader.settled.origin["policy"] == "admin API"
        for policy, predictor in (("brh", ""), ("br-h", "nobody"), ("br-h:horizon=x", "")):
            with pytest.raises(InputError):
                await reloader.set_policy(policy, predictor)
        assert gateway.now.policy == "br-h:horizon=5"
        await reloader.reload()
        assert gateway.now.policy == "jsq"

    story(tmp_path, told)


def test_changes_asked_for_at_once_are_made_one_after_the_other_and_the_last_holds(tmp_path):
    async def told(file, gateway, reloader, heard):
        async def reload_other():
            file.write_text(FILE.replace("jsq", "br-0"))
            return await reloader.reload()

        changes = reloader.set_policy("br-h", ""), reload_other(), reloader.reload(), reloader.set_policy("least-load", "")
        _, first, second, _ = await asyncio.gather(*changes)
        assert heard == ["br-h", "br-0", "br-0", "least-load"]
        assert "policy" in first.changed and not second.changed
        assert gateway.now.policy == reloader.settled.value.policy == "least-load"

    story(tmp_path, told)


def test_a_worker_that_an_operator_adds_during_a_reload_stays_the_operators(tmp_path, monkeypatch):
    async def told(file, gateway, reloader, heard):
        file.write_text(FILE.replace("name: b", "name: c"))
        before, members = reloader._use, reloader._membership

        async def slowly(*given):
            await before(*given)
            await members.add([Worker("http://c:1", name="c")])

        monkeypatch.setattr(reloader, "_use", slowly)
        with pytest.raises(InputError, match="name is 'c'; expected a name that is free"):
            await reloader.reload()
        assert members.source_of("c") == "admin" and set(gateway.here) == {"a", "b", "c"}

    story(tmp_path, told)
