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

from evenstep import kernel_cache
from evenstep.dispatch.deliveries import warm as warm_delivering
from evenstep.dispatch.warming import warm
from evenstep.engines.streams.template import warm as warm_quick
from evenstep.errors import PolicyError
from evenstep.gateway.connections.relay import warm as warm_relay
from evenstep.gateway.operate.shedding import shed_compiler
from evenstep.gateway.starting import COMPILE, is_compiled

_log = logging.getLogger("evenstep.gateway")


async def compile_and_warm(policy: str, predictor: str) -> None:
    """Return when this process decides without compiling.

    Args:
        policy, predictor: ``NAME[:key=value,...]``.

    Raises:
        InputError: an unknown policy, predictor or option.
        PolicyError: a policy that ends Python.
    """
    await compile_beside(policy, predictor)
    await _warmed(policy, predictor)


async def compile_beside(policy: str, predictor: str) -> None:
    """Compile in a process of its own what is not on disk yet.

    Raises:
        InputError: an unknown policy or option.
    """
    if kernel_cache.place().is_kept and not is_compiled(policy):
        _log.info("compiling what decisions need; the first start on a machine takes up to a minute")
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", COMPILE, policy, predictor,
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
        except SystemExit as stop:  # it would end this thread alone, without a word
            error = PolicyError(f"a policy, or a module it imports, exits Python with {stop.code!r}")
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
    warm_delivering()
    warm(policy, predictor)
