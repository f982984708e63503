"""Real engines on this machine: started together, waited for together, and ended whatever happens."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from evenstep.load.processes import free_ports

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
READY_S = 600.0  # on two cores that others use; 20 to 50 otherwise


def engine_python() -> str:
    """The interpreter beside which vLLM is installed.

    Raises:
        RuntimeError: there is none. The engine tier does not pass without engines.
    """
    path = Path(os.environ.get("EVENSTEP_ENGINES_PYTHON", ROOT / ".venv-engines" / "bin" / "python"))
    if not path.exists():
        raise RuntimeError(f"{path} is missing; run `make engines`, which installs requirements/engines.lock")
    return str(path)


def make_model(kind: str, folder: Path) -> Path:
    """A tiny ``dense`` or ``moe`` model in this folder."""
    out = folder / kind
    if not out.exists():
        command = [engine_python(), str(HERE / "tiny_model.py"), kind, str(out)]
        done = subprocess.run(
            command, capture_output=True, text=True, env={**os.environ, "HF_HUB_OFFLINE": "1"}, check=False
        )
        if done.returncode:
            raise RuntimeError(done.stderr)
    return out


@dataclass
class Process:
    """Something that listens on a port, and what it printed."""

    name: str
    port: int
    popen: subprocess.Popen[bytes]
    log: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def tail(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-40:])

    def kill(self) -> None:
        """SIGKILL to it and all it started, at once."""
        _signal(self.popen, signal.SIGKILL)


@dataclass
class Fleet:
    """Processes of one test module. As a context manager it ends them all.

    Args:
        folder: for what they print.
    """

    folder: Path
    processes: list[Process] = field(default_factory=list)

    def __enter__(self) -> Fleet:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop(*self.processes)

    def stop(self, *processes: Process) -> None:
        """End them as an operator would, and what is left of them after 20 seconds by force."""
        for process in processes:
            _signal(process.popen, signal.SIGTERM)
        deadline_s = time.monotonic() + 20
        for process in processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.popen.wait(max(0.1, deadline_s - time.monotonic()))
            _signal(process.popen, signal.SIGKILL)  # children may outlive their parent
            process.popen.wait()
        self.processes = [process for process in self.processes if process not in processes]

    def start(self, name: str, command: list[str], port: int, env: Mapping[str, str] | None = None) -> Process:
        """Start something that will answer ``/health`` at this port."""
        log = self.folder / f"{name}.log"
        with log.open("wb") as out:
            popen = subprocess.Popen(
                command,
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**_OURS, **(env or {})},
                start_new_session=True,
            )
        process = Process(name, port, popen, log)
        self.processes.append(process)
        return process

    def vllm(self, name: str, model: Path, *flags: str, env: Mapping[str, str] | None = None) -> Process:
        """A vLLM instance that serves the model as ``tiny``."""
        (port,) = free_ports(1)
        command = [
            engine_python(),
            str(HERE / "vllm_serve.py"),
            "serve",
            str(model),
            "--served-model-name",
            "tiny",
            "--host",
            "127.0.0.1",
            "--port",
            str(port),
            "--dtype",
            "bfloat16",
            "--enforce-eager",
            "--block-size",
            "32",
            *flags,
        ]
        return self.start(name, command, port, {**_OFFLINE, **(env or {})})

    def transformers(self, name: str, model: Path) -> Process:
        """An instance of ``transformers serve``, whose model name is the folder."""
        (port,) = free_ports(1)
        command = [
            engine_python(),
            "-c",
            "from transformers.cli.transformers import main; main()",
            "serve",
            str(model),
            "--continuous-batching",
            "--device",
            "cpu",
            "--dtype",
            "bfloat16",
            "--cb-num-blocks",
            "64",
            "--cb-block-size",
            "32",
            "--host",
            "127.0.0.1",
            "--port",
            str(port),
        ]
        return self.start(name, command, port, _OFFLINE)

    def gateway(self, name: str, *flags: str) -> Process:
        """``evenstep serve`` of this tree."""
        (port,) = free_ports(1)
        command = [
            sys.executable,
            "-m",
            "evenstep",
            "serve",
            "--port",
            str(port),
            "--admin-port",
            "0",
            "--debug",
            *flags,
        ]
        return self.start(name, command, port)

    def ready(self, *processes: Process, path: str = "/health") -> None:
        """Wait until each of them answers 200.

        Raises:
            RuntimeError: one of them ended, or took too long.
        """
        deadline_s = time.monotonic() + READY_S
        for process in processes:
            while not _answers(process.url + path):
                if process.popen.poll() is not None:
                    raise RuntimeError(f"{process.name} ended with {process.popen.returncode}:\n{process.tail()}")
                if time.monotonic() > deadline_s:
                    raise RuntimeError(f"{process.name} is not ready after {READY_S:.0f} s:\n{process.tail()}")
                time.sleep(0.1)


#: Without variables of ours: a gateway refuses those it does not know.
_OURS = {name: value for name, value in os.environ.items() if not name.startswith("EVENSTEP_")}
_OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "OMP_NUM_THREADS": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "PYTHONFAULTHANDLER": "1",
    "PYTHONPATH": os.pathsep.join([str(HERE / "plug"), str(ROOT / "src")]),
}


def nixl(role: str) -> tuple[list[str], dict[str, str]]:
    """Flags and environment of an instance that hands its KV over (``kv_producer``) or fetches it (``kv_consumer``)."""
    transfer = f'{{"kv_connector":"NixlConnector","kv_role":"{role}","kv_buffer_device":"cpu","kv_connector_extra_config":{{"kv_lease_duration":10}}}}'
    env = {
        "UCX_TLS": "tcp,self,sm",
        "UCX_NET_DEVICES": "lo",
        "UCX_RCACHE_MAX_UNRELEASED": "1024",
        "VLLM_NIXL_SIDE_CHANNEL_HOST": "127.0.0.1",
        "VLLM_NIXL_SIDE_CHANNEL_PORT": str(*free_ports(1)),
    }
    return ["--kv-transfer-config", transfer], env


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.status == 200
    except (urllib.error.URLError, OSError):
        return False


def _signal(popen: subprocess.Popen[bytes], number: int) -> None:
    try:
        os.killpg(popen.pid, number)
    except ProcessLookupError:
        return
