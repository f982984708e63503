"""Getting, starting and weighing the routers of `bench_gateway` and `bench_promises`, modules of ``contenders/gateways``.

A contender module has ``NAME``, ``SHARE`` (of the load it is given, 1 = all; a slow one takes less so that a round ends),
``have()`` (installs what is needed, returns a version or raises `AbsentError`) and ``command(folder, engines, port)``.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType

HERE = Path(__file__).parent
SCRATCH = HERE.parent / "build" / "peers"
ORDER = ("evenstep", "nginx", "vllm_router", "sglang_router", "litellm")
KEY = "sk-bench-0123456789"


class AbsentError(Exception):
    """A peer that cannot be had here, and why."""


def contenders(names: Sequence[str]) -> dict[str, ModuleType]:
    """Their modules by name."""
    return {name: importlib.import_module(f"contenders.gateways.{name}") for name in names}


def python_with(name: str, *requirements: str) -> Path:
    """The Python of a virtual environment of its own that has them; it is made once.

    Raises:
        AbsentError: pip could not install them.
    """
    folder = SCRATCH / name
    python, told = folder / "bin" / "python", folder / "installed.txt"
    wanted = "\n".join(requirements)
    if told.is_file() and told.read_text() == wanted:
        return python
    shutil.rmtree(folder, ignore_errors=True)
    run([sys.executable, "-m", "venv", str(folder)], name)
    run([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements], name)
    told.write_text(wanted)
    return python


def run(command: Sequence[str], name: str, cwd: Path | None = None) -> str:
    """What it prints.

    Raises:
        AbsentError: it failed.
    """
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=cwd)
    except OSError as error:
        raise AbsentError(f"{name}: {error}") from None
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise AbsentError(f"{name}: {' '.join(command[:4])} ... failed: {lines[-1] if lines else done.returncode}")
    return done.stdout or done.stderr


def compile_kernels(policy: str) -> None:
    """Compile what a gateway with this policy needs, where that was not done yet; else it would begin in plain Python."""
    code = "import sys; from evenstep.gateway.operate.compiling import compile_all; compile_all(sys.argv[1], '')"
    subprocess.run([sys.executable, "-c", code, policy], check=True)


@contextlib.contextmanager
def started(command: Sequence[str], core: int, log: Path, env: dict[str, str] | None = None) -> Iterator[subprocess.Popen]:
    """A process group on one core, killed at the end."""
    with log.open("wb") as out:
        process = subprocess.Popen(
            ["taskset", "-c", str(core), *command],
            stdout=out,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(env or {})},
            start_new_session=True,
        )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def wait_for(port: int, process: subprocess.Popen, log: Path, body: bytes, limit_s: float = 300.0, key: str = KEY) -> None:
    """Until a chat request is answered with 200.

    Raises:
        AbsentError: the process ended, or nothing was answered in time.
    """
    end = time.monotonic() + limit_s
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
    told = "nothing"
    while time.monotonic() < end:
        if process.poll() is not None:
            raise AbsentError(f"it ended with {process.returncode}: {_last_line(log)}")
        asked = urllib.request.Request(f"http://127.0.0.1:{port}/v1/chat/completions", data=body, headers=headers)
        try:
            with urllib.request.urlopen(asked, timeout=5):
                return
        except OSError as error:
            told = str(error)
        time.sleep(0.2)
    raise AbsentError(f"no answer within {limit_s:.0f} s: {told}; {_last_line(log)}")


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1][-300:] if lines else "it printed nothing"


def tree(root: int) -> list[int]:
    """A process and all its descendants."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(entry.name))
    found, left = [], [root]
    while left:
        pid = left.pop()
        found.append(pid)
        left += children.get(pid, [])
    return found


def cpu_s(root: int) -> float:
    """CPU seconds, user and system, of the processes that live in its tree, their ended threads included."""
    total = 0.0
    for pid in tree(root):
        with contextlib.suppress(OSError):
            total += time.clock_gettime(~pid << 3 | 2)  # the process's own CPU clock, as `clock_getcpuclockid` names it
    return total


def resident_mb(root: int) -> float:
    """Resident memory of its tree, MB."""
    pages = 0
    for pid in tree(root):
        with contextlib.suppress(OSError):
            pages += int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
