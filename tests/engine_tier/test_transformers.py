"""`transformers serve`: the least a server with the two OpenAI endpoints tells, and what the gateway makes of it."""

from __future__ import annotations

import json

import pytest
from tests.engine_tier.clients import ask_curl, body
from tests.engine_tier.engines import Fleet, make_model

pytestmark = pytest.mark.engine
TOKENS = 24


@pytest.fixture(scope="module")
def served(models, tmp_path_factory):
    """The engine, the gateway in front of it, and the model's name."""
    model = make_model("dense", models)
    with Fleet(tmp_path_factory.mktemp("transformers")) as fleet:
        engine = fleet.transformers("engine", model)
        fleet.ready(engine)
        config = {
            "version": 1,
            "admin": {"enabled": False},
            "workers": [
                {
                    "url": engine.url,
                    "slots": 4,
                    "engine": "openai:finish_reasons=false",
                    "scraped": False,
                    "models": [str(model)],
                }
            ],
        }
        path = fleet.folder / "gateway.yaml"
        path.write_text(json.dumps(config))
        gateway = fleet.gateway("gateway", "--config", str(path))
        fleet.ready(gateway, path="/readyz")
        yield engine, gateway, str(model)


@pytest.mark.parametrize("kind", ["completions", "chat"])
def test_a_server_that_tells_neither_usage_nor_ids_is_passed_on_whole(served, kind):
    engine, gateway, model = served
    asked = {
        "model": model,
        **{k: v for k, v in body(kind, "hello", TOKENS, stream=True).items() if k not in OURS},
    }
    direct, through = ask_curl(engine.url, kind, asked), ask_curl(gateway.url, kind, asked)
    assert direct.text
    assert through.text == direct.text
    assert through.is_done and not through.error


OURS = {"model", "return_token_ids", "ignore_eos"}
