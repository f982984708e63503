"""Heads to engines are built anew: a worker's own description and a few fields of the client."""

from __future__ import annotations

import asyncio

import pytest

from evenstep.errors import InputError
from evenstep.gateway.config.sections import Engines
from evenstep.gateway.config.worker import Worker
from evenstep.gateway.connections.engine import Endpoint
from evenstep.gateway.connections.request_context import carried
from evenstep.gateway.serve.backend import Backend
from evenstep.http.head import read_request_head


def backend(**fields):
    async def made():
        worker = Worker(**{"url": "http://h:81/base/", "name": "w", **fields})
        return Backend(worker, Endpoint(worker.url, Engines(), asyncio.get_running_loop()), fields.get("api_key", ""))

    return asyncio.run(made())


def test_a_generations_head_has_the_workers_rank_and_key_and_the_requests_id():
    one = backend(rank=3, api_key="secret")
    found = read_request_head(one.generation_head(True, "abc", 12, carried({"traceparent": "00-1", "x-other": "1"})))
    assert found.path == "/base/v1/chat/completions"
    assert found.headers == {
        "host": "h:81",
        "x-data-parallel-rank": "3",
        "authorization": "Bearer secret",
        "content-type": "application/json",
        "x-request-id": "abc",
        "traceparent": "00-1",
        "content-length": "12",
    }
    assert read_request_head(one.generation_head(False, "a", 1, b"")).path == "/base/v1/completions"


def test_other_heads():
    one = backend()
    assert "content-length" not in read_request_head(one.head("GET", "/health", "", 0)).headers
    assert read_request_head(one.head("POST", "/v1/x?y", "n", 0)).headers["content-length"] == "0"


def test_of_a_client_only_what_is_listed_goes_on():
    headers = {"authorization": "Bearer x", "x-data-parallel-rank": "1", "accept": "a\x00", "tracestate": "t"}
    assert carried(headers, ("accept",)) == b"", "tracestate means nothing without traceparent (W3C)"
    headers["traceparent"] = "p"
    assert carried(headers, ("accept",)) == b"traceparent: p\r\ntracestate: t\r\n"
    assert carried(headers) == b"traceparent: p\r\ntracestate: t\r\n", "credentials go apart"


def test_a_version_that_is_nested_too_deep_is_no_version(monkeypatch):
    one = backend(engine="vllm")

    async def fetch(path, patience_s):
        return 200, b'{"version":"0.32.0","x":' + 100_000 * b"[" + 100_000 * b"]" + b"}"

    monkeypatch.setattr(type(one), "fetch", lambda self, path, patience_s: fetch(path, patience_s))
    asyncio.run(one.learn_version(1.0))
    assert one.adapter.version == ""


def test_an_engine_that_is_not_known_is_an_error():
    with pytest.raises(InputError, match="vlm"):
        backend(engine="vlm")


def test_an_engine_that_cannot_continue_a_chat_says_so_once_for_all_ranks_at_its_address(caplog):
    one = backend(engine="vllm:version=0.32.0")
    rank = Backend(Worker(url="http://h:81", name="w#1", engine="vllm:version=0.32.0"), one.endpoint)
    assert one.continuing is one.dialect and one.dialect.chat_from_ids
    one.cannot_continue(chat=True)
    rank.cannot_continue(chat=True)
    assert not one.continuing.chat_from_ids and not rank.continuing.chat_from_ids
    assert one.dialect.chat_from_ids, "it still tells ids, so that others can go on"
    assert [record.args for record in caplog.records] == [("w", "chat")]
    assert one.continuing.completions_go_on
    rank.cannot_continue(chat=False)
    assert not one.continuing.completions_go_on and one.dialect.completions_go_on
