"""LiteLLM's proxy (Python, from PyPI) with the engines as deployments of one model. It gets a fiftieth of the load."""

from __future__ import annotations

import json
from pathlib import Path

from gateway_engine import MODEL
from gateway_peers import python_with, run

NAME, SHARE = "LiteLLM", 0.02
_WANTED = "litellm[proxy]"


def have() -> str:
    python = python_with("litellm", _WANTED)
    return run([str(python), "-c", "from importlib.metadata import version; print(version('litellm'))"], NAME).strip()


def command(folder: Path, engines: list[int], port: int) -> list[str]:
    models = [
        {
            "model_name": MODEL,
            "litellm_params": {
                "model": f"openai/{MODEL}",
                "api_base": f"http://127.0.0.1:{engine}/v1",
                "api_key": "none",
            },
        }
        for engine in engines
    ]
    conf = folder / "litellm.yaml"
    conf.write_text(
        json.dumps({"model_list": models, "general_settings": {"dangerously_permit_weak_or_unset_master_key": True}})
    )
    script = str(python_with("litellm", _WANTED).parent / "litellm")
    return [script, "--config", str(conf), "--host", "127.0.0.1", "--port", str(port), "--num_workers", "1"]
