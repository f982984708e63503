"""Starts other evenstep commands, waits until they respond, and ends them."""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from evenstep.errors import EngineError, InputError
from evenstep.load.models import get
from evenstep.load.settings import Target

HOST = "127.0.0.1"  #: address that all started commands listen at
_COMPILE = "import sys; from evenstep.gateway.operate.compiling import compile_all; compile_all(*sys.argv[1:])"
_PAUSE_S, _END_S = 0.05, 10.0
_PORTS = range(20_000, 32_768)  # operating systems take the ports of outgoing connections from those above
_tried = itertools.count(64 * os.getpid())  # so that processes begin their search at different ports


def free_ports(count: int) -> list[int]:
    """Find `count` ports of 127.0.0.1 that are free now; too few free ports raise `EngineError`.

    They are below the ports that the system gives to outgoing connections, and not reserved: another server may take one.
    Each call in a process continues the search where the previous one ended.
    """
    ports: list[int] = []
    for number in itertools.islice(_tried, len(_PORTS)):
        port = _PORTS[number % len(_PORTS)]
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind((HOST, port))
            ports.append(port)
        if len(ports) == count:
            return ports
    raise EngineError(f"this machine has no {count} free ports between {_PORTS[0]} and {_PORTS[-1]}; end some servers")


@contextlib.contextmanager
def beside(words: Sequence[str], port: int, path: str, wait_s: float) -> Generator[int]:
    """Context manager: run an ``evenstep`` command during the block; yields its process id once the command is ready.

    At the block's end the command is terminated, and killed if it has not ended 10 s later. Its output is not shown.

    Args:
        words: the subcommand and its flags.
        port: port of the command on this machine.
        path: path that answers status 200 once the command is ready.
        wait_s: longest wait until it is ready, in seconds.

    Raises:
        EngineError: it ended before it was ready, or was not ready in time; the message has the last line of its output.
    """
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen([sys.executable, "-m", "evenstep", *words], stdout=said, stderr=subprocess.STDOUT)
        try:
            _until_ready(process, Target(HOST, port, False, ""), path, wait_s, words, said)
            yield process.pid
        finally:
            process.terminate()
            try:
                process.wait(_END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextlib.contextmanager
def gateway(config: Mapping[str, Any], listen: int, admin: int, wait_s: float) -> Generator[int]:
    """Run a gateway during a ``with`` block, which begins once it is ready; yields its process id.

    First, another process compiles the kernels of its policy, however long that takes. A gateway that ends before it is
    ready, or is not ready in time, raises `EngineError`.

    Args:
        config: content of its YAML file, with ``policy``, without version and addresses.
        listen, admin: its ports on this machine.
        wait_s: longest wait until it is ready, in seconds, not counting the compiling.
    """
    places = {name: {"host": HOST, "port": port} for name, port in (("listen", listen), ("admin", admin))}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "gateway.yaml"
        path.write_text(json.dumps({"version": 1, **places, **config}))
        # In plain Python the policy would exceed its time budget, so that least load would decide in its place.
        subprocess.run([sys.executable, "-c", _COMPILE, config["policy"], ""], check=False)
        with beside(["serve", "--config", str(path)], listen, "/readyz", wait_s) as pid:
            yield pid


def emulator(port: int, options: Mapping[str, Any]) -> list[str]:
    """The command-line words after ``evenstep`` that start emulated engines; `options` has values by flag without ``--``."""
    flags = {"host": HOST, "port": port, **options}
    return ["emulate", *(word for name, value in flags.items() for word in (f"--{name}", str(value)))]


def cpu_s(pid: int) -> float:
    """CPU seconds, user and system, that a process has used since its start; nan if it is gone, and outside Linux."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return math.nan
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mb(pid: int) -> float:
    """Resident memory of a process in megabytes (10**6 bytes); nan if it is gone, and outside Linux."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return math.nan
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def _until_ready(
    process: subprocess.Popen[bytes], target: Target, path: str, wait_s: float, words: Sequence[str], said: IO[bytes]
) -> None:
    """Wait until a process answers status 200 at a path; if it ends first or `wait_s` pass, raise `EngineError`."""
    end_s = time.monotonic() + wait_s
    while True:
        code = process.poll()
        if code is not None or time.monotonic() > end_s:
            said.seek(0)
            lines = said.read().decode("utf-8", "replace").strip().splitlines() or ["nothing was said"]
            what = f"ended with {code}" if code is not None else f"was not ready within {wait_s:g} s"
            raise EngineError(f"evenstep {words[0]} {what}: {lines[-1]}")
        with contextlib.suppress(InputError):
            if get(target, path)[0] == 200:
                return
        time.sleep(_PAUSE_S)
