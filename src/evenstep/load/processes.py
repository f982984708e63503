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

HOST = "127.0.0.1"  #: where all of them listen
_STARTS = "import sys; from evenstep.cli.main import main; sys.exit(main())"
_COMPILE = "import sys; from evenstep.gateway.operate.compiling import compile_all; compile_all(*sys.argv[1:])"
_PAUSE_S, _END_S = 0.05, 10.0
_PORTS = range(20_000, 32_768)  # an operating system gives those above to connections that name no port
_tried = itertools.count(64 * os.getpid())  # processes that look at the same time begin at different ports


def free_ports(count: int) -> list[int]:
    """Find different ports of 127.0.0.1 that are free now, and that the system gives to no outgoing connection.

    They are not reserved: another server may take one. Later calls begin with other ports.

    Raises:
        EngineError: there are not that many.
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
    """Run an ``evenstep`` command for the duration of the block, which begins once the command is ready.

    At the block's end the command is terminated, and killed if it has not ended 10 s later. Its output is not shown.

    Args:
        words: the subcommand and its flags.
        port: its port on this machine.
        path: a path that answers 200 once it is ready.
        wait_s: longest wait for that, seconds.

    Yields:
        Its process id.

    Raises:
        EngineError: it ended before it was ready, or was not ready in time; with the last line of its output.
    """
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen([sys.executable, "-c", _STARTS, *words], stdout=said, stderr=subprocess.STDOUT)
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
    """Run a gateway during the block, once the kernels of its policy are compiled; yields its process id.

    One that begins in plain Python is too slow for its budget: its figures would be those of least load.

    Args:
        config: the content of its YAML file, without version and addresses.
        listen, admin: its ports on this machine.
        wait_s: as in `beside`, and so are the errors; compiling is not limited.
    """
    places = {name: {"host": HOST, "port": port} for name, port in (("listen", listen), ("admin", admin))}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "gateway.yaml"
        path.write_text(json.dumps({"version": 1, **places, **config}))
        subprocess.run([sys.executable, "-c", _COMPILE, config["policy"], ""], check=False)
        with beside(["serve", "--config", str(path)], listen, "/readyz", wait_s) as pid:
            yield pid


def emulator(port: int, options: Mapping[str, Any]) -> list[str]:
    """The words after ``evenstep`` that start emulated engines on this machine; `options` are values by flag (no dashes)."""
    flags = {"host": HOST, "port": port, **options}
    return ["emulate", *(word for name, value in flags.items() for word in (f"--{name}", str(value)))]


def cpu_s(pid: int) -> float:
    """CPU seconds, user and system, that a process has used since its start; nan if the system does not say (Linux does)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return math.nan
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mb(pid: int) -> float:
    """Megabytes (10**6 bytes) that a process has in memory; nan if the system does not say (Linux does)."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return math.nan
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def _until_ready(
    process: subprocess.Popen[bytes], target: Target, path: str, wait_s: float, words: Sequence[str], said: IO[bytes]
) -> None:
    end_s = time.monotonic() + wait_s
    while True:
        code = process.poll()
        if code is not None or time.monotonic() > end_s:
            what = f"ended with {code}" if code is not None else f"was not ready within {wait_s:g} s"
            raise EngineError(f"evenstep {words[0]} {what}: {_last(said)}")
        with contextlib.suppress(InputError):
            if get(target, path)[0] == 200:
                return
        time.sleep(_PAUSE_S)


def _last(said: IO[bytes]) -> str:
    """The last line it said."""
    said.seek(0)
    lines = said.read().decode("utf-8", "replace").strip().splitlines()
    return lines[-1] if lines else "nothing was said"
