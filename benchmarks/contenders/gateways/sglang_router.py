"""SGLang's model gateway (Rust, from PyPI), round robin over the engines."""

from __future__ import annotations

from pathlib import Path

from evenstep.load.processes import free_ports
from gateway_peers import python_with

NAME, SHARE = "sglang-router", 1.0
_WANTED = "sglang-router==0.3.2"


def have() -> str:
    python_with("sglang-router", _WANTED)
    return _WANTED.partition("==")[2]


def command(folder: Path, engines: list[int], port: int) -> list[str]:
    urls = [f"http://127.0.0.1:{engine}" for engine in engines]
    python = str(python_with("sglang-router", _WANTED))
    listen = ["--host", "127.0.0.1", "--port", str(port), "--prometheus-port", str(*free_ports(1))]
    log = ["--log-level", "warn", "--policy", "round_robin"]
    return [python, "-m", "sglang_router.launch_router", *listen, *log, "--worker-urls", *urls]
