"""Pods of a label selector become workers; spoken with a fake API server."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from evenstep.errors import InputError
from evenstep.gateway.config.worker import Kubernetes, Worker
from evenstep.gateway.operate import discovery
from evenstep.gateway.operate.discovery import Pods


def pod(name: str, ip: str = "10.0.0.1", ready: str = "True", **more: Any) -> dict[str, Any]:
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"name": name, "namespace": "here", "resourceVersion": "7", "labels": {"rack": "r1"}, **more},
        "status": {"podIP": ip, "conditions": [{"type": "Ready", "status": ready}]},
    }


class Api:
    """Answers lists with `pods`, and watches with whatever is put into `changes`."""

    def __init__(self) -> None:
        self.pods: list[dict[str, Any]] = []
        self.changes: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self.asked: list[dict[str, str]] = []
        self.url = ""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append({**request.query, "key": request.headers.get("Authorization", "")})
        if request.query.get("watch") not in ("true", "True"):
            metadata = {"resourceVersion": "42"}
            return web.json_response({"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": self.pods})
        stream = web.StreamResponse(headers={"Content-Type": "application/json"})
        await stream.prepare(request)
        while (change := await self.changes.get()) is not None:
            await stream.write(json.dumps(change).encode() + b"\n")
        return stream


@asynccontextmanager
async def following(api: Api, **settings: Any):
    """Tells of the workers, as a queue, while an API server answers."""
    app = web.Application()
    app.router.add_get("/api/v1/namespaces/here/pods", api.answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    told: asyncio.Queue[list[Worker]] = asyncio.Queue()
    pods = Pods(Kubernetes("app=vllm", "here", port=8000, api=url, **{"token": "sk-1", **settings}), "discovery")
    task = asyncio.create_task(pods.follow(told.put))
    try:
        yield told, task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await runner.cleanup()


def story(told):
    asyncio.run(asyncio.wait_for(told(), 60))


@pytest.mark.slow
def test_ready_pods_are_workers_and_changes_are_followed():
    async def told():
        api = Api()
        api.pods = [pod("a"), pod("b", "10.0.0.2", ready="False"), pod("c", "")]
        async with following(api) as (found, _):
            assert [(w.name, w.url) for w in await found.get()] == [("a@10.0.0.1", "http://10.0.0.1:8000")]
            api.changes.put_nowait({"type": "MODIFIED", "object": pod("b", "10.0.0.2")})
            assert [w.name for w in await found.get()] == ["a@10.0.0.1", "b@10.0.0.2"]
            api.changes.put_nowait({"type": "MODIFIED", "object": pod("b", "10.0.0.2")})  # nothing new
            api.changes.put_nowait({"type": "MODIFIED", "object": pod("a", deletionTimestamp="2026-01-01T00:00:00Z")})
            assert [w.name for w in await found.get()] == ["b@10.0.0.2"]
            api.changes.put_nowait({"type": "DELETED", "object": pod("b", "10.0.0.2")})
            assert await found.get() == []
        listed, watched = api.asked[:2]
        assert listed["labelSelector"] == watched["labelSelector"] == "app=vllm"
        assert watched["resourceVersion"] == "42" and listed["key"] == "Bearer sk-1"

    story(told)


@pytest.mark.slow
def test_a_watch_that_ends_is_followed_by_a_list():
    async def told():
        api = Api()
        api.pods = [pod("a")]
        async with following(api) as (found, _):
            await found.get()
            api.pods = [pod("d", "10.0.0.4")]
            api.changes.put_nowait(None)
            assert [w.name for w in await found.get()] == ["d@10.0.0.4"]

    story(told)


@pytest.mark.slow
def test_what_the_server_has_forgotten_ends_the_watch_with_its_reason():
    async def told():
        api = Api()
        async with following(api) as (found, task):
            assert await found.get() == []
            gone = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}
            api.changes.put_nowait({"type": "ERROR", "object": gone})
            with pytest.raises(Exception, match="too old resource version"):
                await task

    story(told)


@pytest.mark.slow
def test_a_server_that_does_not_answer_a_list_is_not_waited_for_for_ever(monkeypatch):
    class Silent(Api):
        async def answer(self, request):
            await asyncio.Event().wait()

    async def told():
        async with following(Silent()) as (_, task):
            monkeypatch.setattr(discovery, "_LIST_S", 0.0)
            with pytest.raises(TimeoutError):
                await task

    story(told)


@pytest.mark.slow
def test_a_token_that_is_renewed_in_its_file_is_shown_from_then_on(tmp_path):
    async def told():
        api, file = Api(), tmp_path / "token"
        file.write_text("one\n")
        async with following(api, token=f"file:{file}") as (found, _):
            await found.get()
            file.write_text("two\n")
            api.changes.put_nowait(None)
            await found.get()
            keys = [asked["key"] for asked in api.asked if "watch" not in asked]
            assert keys == ["Bearer one", "Bearer two"]

    story(told)


@pytest.mark.slow
def test_a_label_says_who_shares_a_barrier():
    async def told():
        api = Api()
        api.pods = [pod("a"), pod("b", "10.0.0.2")]
        async with following(api, group_label="rack", worker=Worker("https:///x", slots=3)) as (found, _):
            workers = await found.get()
            assert {(w.group, w.slots) for w in workers} == {("r1", 3)}
            assert workers[0].url == "https://10.0.0.1:8000/x"

    story(told)


@pytest.mark.slow
def test_outside_a_cluster_what_is_missing_is_named(monkeypatch):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(InputError, match="namespace is 'missing'"):
        Pods(Kubernetes("app=vllm"), "discovery")
    with pytest.raises(Exception, match="Service host/port is not set"):
        asyncio.run(Pods(Kubernetes("app=vllm", "here"), "discovery").follow(lambda _: asyncio.sleep(0)))
