"""Ours: `evenstep serve` with every feature on: keys, metrics of the engines, mirror, policy br-0, usage of every chunk."""

from __future__ import annotations

import json
import sys
from importlib.metadata import version
from pathlib import Path

from evenstep.load.processes import free_ports
from gateway_peers import KEY, compile_kernels

NAME, SHARE = "evenstep", 1.0


def have() -> str:
    compile_kernels("br-0")
    return f"{version('evenstep')} (uvloop {version('uvloop')}, httptools {version('httptools')})"


def command(folder: Path, engines: list[int], port: int) -> list[str]:
    conf = folder / "gateway.yaml"
    settings = {
        "version": 1,
        "listen": {"port": port},
        "admin": {"port": free_ports(1)[0]},
        "policy": "br-0",
        "workers": [{"url": f"http://127.0.0.1:{engine}"} for engine in engines],
        "keys": [{"key": KEY, "tenant": "bench", "classes": ["*"]}],
        "classes": {"usual": {"ttft_s": 2.0}},
        "engines": {"first_byte_s": 5.0, "silence_s": 5.0},
    }
    conf.write_text(json.dumps(settings))
    return [sys.executable, "-m", "evenstep", "serve", "--config", str(conf)]
