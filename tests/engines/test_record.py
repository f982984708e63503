"""A new engine is recorded by the requests of an earlier record."""

from __future__ import annotations

import json

import tests.engines.record as module
from tests.engines.record import HERE, record

LIKE = HERE / "vllm-0.32.0.json"


def test_each_stream_is_asked_for_as_a_client_would_and_as_we_do(monkeypatch):
    told = []

    def says(url, body=None):
        told.append((url, json.loads(body)))
        return f"answer {len(told)}"

    monkeypatch.setattr(module, "ask", says)
    found, known = record("http://e", "other", "vllm:version=0.32.0", LIKE, ("ignore_eos",)), json.loads(LIKE.read_text())
    assert [*found] == [*known]
    assert found["completions plain"]["client"] == "answer 1" and found["completions plain"]["engine"] == "answer 2"
    (url, plain), (_, asked) = told[:2]
    assert url == "http://e/v1/completions" and plain == found["completions plain"]["request"]
    assert plain["model"] == "other" and "ignore_eos" not in plain
    assert asked["return_token_ids"] and asked["stream_options"]["include_usage"]
    assert isinstance(found["chat answer"], str) and told[-1][1]["n"] == 2
