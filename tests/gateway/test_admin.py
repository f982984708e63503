"""The admin API as an operator uses it, and as nobody else can."""

from __future__ import annotations

import asyncio
import json

import pytest
from prometheus_client.parser import text_string_to_metric_families as read
from tests.gateway.fake_gateway import FakeGateway
from tests.gateway.operating import operating

from evenstep.dispatch.rounds.fallback import Fell
from evenstep.errors import PolicyError

JSON = {"Content-Type": "application/json"}


def test_health_and_readiness_are_those_of_the_data_path():
    async def story():
        async with operating() as all_:
            for why, status in (("", 200), ("warming", 503)):
                all_.gateway.why = why
                answer = await all_.client.get("/healthz")
                assert (answer.status, await answer.json()) == (200, {"ok": True})
                answer = await all_.client.get("/readyz")
                notes = ["the disk is full"] if why else []
                assert answer.status == status
                assert await answer.json() == {"ready": not why, "why": why, "notes": notes}

    asyncio.run(story())


def test_the_metrics_page_can_be_read_by_prometheus():
    async def story():
        async with operating() as all_:
            answer = await all_.client.get("/metrics")
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            found = {family.name: family for family in read(await answer.text())}
            assert [s.labels["worker"] for s in found["evenstep_worker_kv_tokens"].samples] == ["a", "b"]
            assert {s.labels["result"]: s.value for s in found["evenstep_reloads"].samples} == {
                "ok": 0,
                "refused": 0,
            }

    asyncio.run(story())


def test_the_snapshot_is_json_with_its_age_and_null_for_what_is_not_known():
    async def story():
        async with operating() as all_:
            text = await (await all_.client.get("/snapshot")).text()
            found = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
            assert 0 <= found["age_s"] < 60 and found["gateway"]["answers_total"] == {"401": 3}
            assert [w["worker"] for w in found["models"]["m"]["workers"]] == ["a", "b"]

    asyncio.run(story())


def test_workers_come_and_go():
    async def story():
        async with operating(slots="7") as all_:
            client = all_.client
            answer = await client.post("/workers", json={"url": "http://c:1", "name": "c", "ranks": 2, "scraped": False})
            assert (answer.status, await answer.json()) == (201, {"workers": ["c#0", "c#1"]})
            listed = (await (await client.get("/workers")).json())["workers"]
            assert {w["name"]: w["source"] for w in listed} == {
                "a": "config",
                "b": "config",
                "c#0": "admin",
                "c#1": "admin",
            }
            assert listed[2]["slots"] == 7
            assert (listed[0]["state"]["slots"], listed[0]["state"]["model"], listed[2]["state"]) == (7, "m", None)
            assert (await client.delete("/workers/c%230?drain=false")).status == 202
            assert ("remove", "c#0", False) in all_.gateway.asked
            answer = await client.delete("/workers/unknown")
            assert answer.status == 404 and "GET /workers lists all." in await answer.text()
            all_.gateway.lingers = True
            assert (await client.delete("/workers/b")).status == 202
            assert (await client.delete("/workers/b?drain=false")).status == 202
            assert (await client.delete("/workers/b?drain=false")).status == 404
            all_.gateway.lingers = False
            answer = await client.delete("/workers/c#1")  # as typed: what follows the # is never sent
            said = (await answer.json())["error"]["message"]
            assert answer.status == 404 and "DELETE /workers/c%231, or DELETE /workers/c?rank=0" in said
            assert (await client.delete("/workers/c?rank=1")).status == 202
            assert ("remove", "c#1", True) in all_.gateway.asked
            answer = await client.delete("/workers/a?drain=maybe")
            error = (await answer.json())["error"]
            assert (answer.status, error["field"], error["value"]) == (400, "drain", "maybe")
            assert error["message"].startswith("query: drain is 'maybe'; expected true or false")

    asyncio.run(story())


def test_the_policy_can_be_changed_and_a_wrong_one_is_refused_with_the_nearest():
    async def story():
        async with operating() as all_:
            answer = await all_.client.put("/policy", json={"policy": "br-0"})
            assert await answer.json() == {"policy": "br-0", "predictor": ""}
            assert all_.gateway.now.policy == "br-0"
            answer = await all_.client.put("/policy", json={"policy": "brh"})
            error = (await answer.json())["error"]
            assert answer.status == 400 and error["value"] == "brh" and "br-h" in error["message"]
            assert (await (await all_.client.get("/policy")).json())["policy"] == "br-0"

    asyncio.run(story())


def test_the_policy_is_shown_with_why_least_load_decided_in_its_place():
    async def story():
        async with operating() as all_:
            fallback = all_.gateway.dispatcher.parts.deciding.fallback
            fallback.after("budget", 0.0)
            fallback.last = Fell(7, 0.0, "budget", "budget: 31.0 ms of processor time for one decision")
            found = (await (await all_.client.get("/policy")).json())["models"]["m"]
            assert found["fallback_total"] == {"budget": 1} and not found["policy_is_off"]
            assert found["fallback_last"]["decision"] == 7 and "31.0 ms" in found["fallback_last"]["why"]

    asyncio.run(story())


@pytest.mark.parametrize(
    ("method", "path", "body", "headers", "said"),
    [
        ("POST", "/workers", rb'{"url": "http://x:1", "name": "\ud800"}', JSON, "expected JSON"),
        ("POST", "/workers", '{"url": "http://c:1", "slot": 3}', JSON, "Did you mean slots"),
        ("POST", "/workers", '{"url": "c"}', JSON, "url is 'c'"),
        ("POST", "/workers", '{"url": "http://c:1", "slots": 0}', JSON, "slots is 0"),
        ("POST", "/workers", f'{{"url": "http://c:1", "rank": {2**63}}}', JSON, f"rank is {2**63}; expected an integer"),
        ("POST", "/workers", '{"url": "http://c:1", "engine": "tgi"}', JSON, "a known engine"),
        ("POST", "/workers", '{"url": "http://c:1", "engine": "openai", "role": "prefill"}', JSON, "hands over the KV"),
        ("POST", "/workers", '{"url": "http://127.0.0.1:1", "name": "a"}', JSON, "config has it already"),
        ("POST", "/workers", '{"url": "http://127.0.0.1:1/", "name": "c"}', JSON, "a is there already"),
        (
            "POST",
            "/workers",
            '{"url": "http://127.0.0.1:1", "name": "c", "ranks": 2}',
            JSON,
            "give each its rank",
        ),
        ("POST", "/workers", "{}", JSON, "url is 'missing'"),
        ("POST", "/workers", "[]", JSON, "expected a JSON object"),
        ("POST", "/workers", "{", JSON, "expected JSON"),
        ("POST", "/workers", b"\xff", JSON, "expected JSON"),
        ("PUT", "/policy", b"[" * 100_000, JSON, "expected JSON"),
        ("POST", "/workers", "{}", {"Content-Type": "text/plain"}, "Content-Type is 'text/plain'"),
        ("PUT", "/policy", '{"policy": 3}', JSON, "policy is 3; expected text"),
        ("PUT", "/policy", '{"policy": "br-h:horizon=-1"}', JSON, "expected an integer >= 0 as horizon, not -1."),
    ],
)
def test_what_is_wrong_with_a_body_is_said(method, path, body, headers, said):
    async def story():
        async with operating() as all_:
            answer = await all_.client.request(method, path, data=body, headers=headers)
            assert answer.status == 400
            assert said in (await answer.json())["error"]["message"]
            assert not [asked for asked in all_.gateway.asked if asked != "snapshot"]

    asyncio.run(story())


def test_settings_are_shown_with_origins_and_without_secrets():
    async def story():
        async with operating(keys='[{"key": "sk-1", "tenant": "t"}]', decisions__salt="sk-2") as all_:
            text = await (await all_.client.get("/config")).text()
            assert "sk-" not in text and '"origin":"command line"' in text
            all_.gateway.here["a"] = all_.gateway.here["a"].__class__("http://a:1", name="a", api_key="sk-3")
            assert "sk-" not in await (await all_.client.get("/workers")).text()

    asyncio.run(story())


def test_draining_and_reloading_reach_the_gateway(tmp_path):
    file = tmp_path / "gateway.yaml"
    file.write_text("version: 1\nlimits: {body_s: 3}\n")

    async def story():
        async with operating(file=str(file)) as all_:
            file.write_text("version: 1\nlimits: {body_s: 4}\n")
            answer = await all_.client.post("/reload")
            assert (await answer.json())["changed"] == ["limits.body_s"]
            assert all_.gateway.now.limits.body_s == 4.0
            file.write_text("version: 1\nlimit: {}\n")
            answer = await all_.client.post("/reload")
            assert answer.status == 400 and "Did you mean limits" in (await answer.json())["error"]["message"]
            answer = await all_.client.post("/drain")
            assert (answer.status, await answer.json()) == (202, {"draining": True})
            assert (await (await all_.client.get("/readyz")).json())["why"] == "draining"

    asyncio.run(story())


def test_with_an_admin_key_only_health_is_open():
    async def story():
        async with operating(admin__key="sk-admin") as all_:
            client = all_.client
            for headers in ({}, {"Authorization": "Bearer sk-admins"}, {"Authorization": "sk-admin"}):
                answer = await client.get("/config", headers=headers)
                assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, "Bearer")
                assert "sk-" not in await answer.text()
            assert (await client.get("/config", headers={"Authorization": "Bearer sk-admin"})).status == 200
            assert (await client.get("/readyz")).status == (await client.get("/healthz")).status == 200

    asyncio.run(story())


def test_a_key_that_is_not_utf_8_is_a_wrong_key():
    async def story():
        async with operating(admin__key="sk-admin") as all_:
            port = all_.client._base_url.port
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /config HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer \xff\r\n\r\n")
            assert (await reader.readline()).split()[1] == b"401"
            writer.close()

    asyncio.run(story())


def test_a_body_that_is_not_json_does_not_come_back_with_its_key():
    async def story():
        async with operating() as all_:
            body = '{"url": "http://c:1", "api_key": "s3cret",}'
            answer = await all_.client.post("/workers", data=body, headers=JSON)
            assert answer.status == 400 and "s3cret" not in await answer.text()

    asyncio.run(story())


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Host": "evil.example:8090"},
        {"Origin": "null"},
    ],
)
def test_a_page_in_an_operators_browser_reaches_nothing(headers):
    async def story():
        async with operating() as all_:
            answer = await all_.client.post("/drain", headers=headers)
            assert answer.status == 403 and not all_.gateway.why
            shown = headers.get("Origin", headers.get("Host", ""))
            assert (await answer.json())["error"]["value"] == shown

    asyncio.run(story())


@pytest.mark.parametrize(
    ("host", "status"), [("localhost", 200), ("[::1]", 200), ("[::1]:80", 200), ("127.0.0.1", 200), ("[::2]", 403)]
)
def test_without_a_key_loopback_names_are_answered_with_and_without_a_port(host, status):
    async def story():
        async with operating() as all_:
            assert (await all_.client.get("/policy", headers={"Host": host})).status == status

    asyncio.run(story())


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (PolicyError("a policy exits"), 400, "a policy exits"),
        (ZeroDivisionError("x"), 500, "This is a bug of evenstep; its log"),
    ],
)
def test_only_a_bug_of_ours_is_said_to_be_one_and_logged(error, status, said, monkeypatch, caplog):
    def fails(self):
        raise error

    async def story():
        async with operating() as all_:
            monkeypatch.setattr(FakeGateway, "workers", fails)
            answer = await all_.client.get("/workers")
            assert answer.status == status and (await answer.json())["error"]["message"].startswith(said)

    asyncio.run(story())
    assert [record.exc_info[1] for record in caplog.records if record.exc_info] == [error] * (status == 500)


def test_a_data_path_that_hangs_is_said_so(monkeypatch):
    monkeypatch.setattr("evenstep.gateway.operate.admin._ASK_S", 0.01)

    async def story():
        async with operating() as all_:
            monkeypatch.setattr(all_.operation._proxy, "_loop", asyncio.new_event_loop())
            answer = await all_.client.get("/healthz")
            assert answer.status == 503 and "does not answer" in await answer.text()

    asyncio.run(story())


def test_unknown_paths_and_methods_are_json_errors():
    async def story():
        async with operating() as all_:
            unknown, taken = "/nothing: Not Found. GET /openapi.json", "/policy: takes GET,HEAD,PUT. GET /openapi.json"
            for method, path, status, said in (("GET", "/nothing", 404, unknown), ("DELETE", "/policy", 405, taken)):
                answer = await all_.client.request(method, path)
                assert answer.status == status
                assert (await answer.json())["error"]["message"].startswith(said)

    asyncio.run(story())
