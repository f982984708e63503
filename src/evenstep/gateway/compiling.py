"""What decisions need, compiled before the first request, and without the gateway's own process standing still for it.

The first start on a machine compiles for up to a minute, in a process of its own: the compiler holds the interpreter's lock
and much memory. What it made is on disk then, and this process loads it in a second.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from contextlib import suppress
from pathlib import Path

from evenstep import compiled, dispatch, engines, names
from evenstep.dispatch.delivering import warm as warm_delivering
from evenstep.dispatch.warming import warm
from evenstep.engines.quick import warm as warm_quick
from evenstep.gateway.lane import warm as warm_lane
from evenstep.gateway.relay import warm as warm_relay
from evenstep.gateway.shedding import shed_compiler

_log = logging.getLogger("evenstep.gateway")
_CODE = "import sys; from evenstep.gateway.compiling import warm_all; warm_all(*sys.argv[1:])"


async def compile_and_warm(policy: str, predictor: str) -> None:
    """Return when this process decides without compiling.

    Args:
        policy, predictor: ``NAME[:key=value,...]``.

    Raises:
        InputError: an unknown policy, predictor or option.
    """
    await compile_beside(policy, predictor)
    await _warmed(policy, predictor)


async def compile_beside(policy: str, predictor: str) -> None:
    """Compile in a process of its own what is not on disk yet.

    Raises:
        InputError: an unknown policy or option.
    """
    if not is_compiled(policy):
        _log.info("compiling what decisions need; the first start on a machine takes up to a minute")
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", _CODE, policy, predictor,
            stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        try:
            await process.wait()  # where it fails, this process compiles
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    process.kill()


async def _warmed(policy: str, predictor: str) -> None:
    """Load and run everything in a thread that nobody waits for when the process ends."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def told(error: BaseException | None) -> None:
        if done.done():
            return
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(error)

    def run() -> None:
        error: BaseException | None = None
        try:
            warm_all(policy, predictor)
            shed_compiler()
        except Exception as found:
            error = found
        with suppress(RuntimeError):  # the loop is gone
            loop.call_soon_threadsafe(told, error)

    threading.Thread(target=run, name="evenstep-warming", daemon=True).start()
    await done


def warm_all(policy: str, predictor: str) -> None:
    """Load, and compile where that was not done yet, what decisions and streams need.

    Raises:
        InputError: an unknown policy, predictor or option.
    """
    warm_quick()
    warm_relay()
    warm_lane()
    warm_delivering()
    warm(policy, predictor)


def is_compiled(policy: str) -> bool:
    """Whether the kernels of a policy, of the dispatcher and of streams are on disk, as far as their folders show."""
    if compiled.numba is None:
        return True
    home = sys.modules[type(names.build("routing", names.parse(policy))).__module__].__file__
    kernels = [
        Path(path) / f"{name}_kernel.py" for path in dispatch.__path__ for name in ("ahead", "delivering")
    ]
    kernels += [Path(path) / "quick_kernel.py" for path in engines.__path__]
    kernels += [Path(__file__).with_name(f"{name}_kernel.py") for name in ("relay", "lane")]
    if home is not None:
        kernels.append(Path(home).with_name(f"{Path(home).stem}_kernel.py"))
    return all(
        not kernel.exists() or any((kernel.parent / "__pycache__").glob(f"{kernel.stem}.*.nbi"))
        for kernel in kernels
    )
