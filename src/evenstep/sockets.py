"""What every host of sockets needs first: an address, a fast event loop, enough files, the parser."""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import signal
import socket
import sys
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING

from evenstep.errors import InputError

if TYPE_CHECKING:
    import asyncio

_FILES = 65536


def listening(where: str, host: str, port: int) -> socket.socket:
    """Make a TCP socket bound to an address. It does not listen yet: the caller does that, and closes it.

    Args:
        where: the command's name in errors.
        host, port: the address, a name or an IP address of this machine; port 0 = any free one.

    Raises:
        InputError: the port cannot be bound, or the host is not an address of this machine.
    """
    ours = "an address of this machine"
    try:
        family, kind, proto, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        found = socket.socket(family, kind, proto)
    except UnicodeError:
        raise InputError(where, "--host", host, ours, "It is no host name.") from None
    except OSError as error:
        raise InputError(where, "--host", host, ours, f"{error.strerror}.") from None
    try:
        if sys.platform != "win32":
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
    except OSError as error:
        found.close()
        if error.errno == errno.EADDRNOTAVAIL:
            raise InputError(where, "--host", host, ours, f"{error.strerror}.") from None
        hint = f"{error.strerror}. Give another --port, or 0 for any free one."
        raise InputError(where, "--port", f"{host}:{port}", "a free port" if port else ours, hint) from None
    return found


def in_url(host: str) -> str:
    """A host as URLs write it: an IPv6 address in brackets."""
    return f"[{host}]" if ":" in host else host


def need_gateway_extra(where: str) -> None:
    """Check that httptools (HTTP parser) and aiohttp (server of the admin API) are installed; see `need_package`."""
    for package in ("httptools", "aiohttp"):
        need_package(where, package)


def need_package(where: str, package: str, extra: str = "gateway") -> None:
    """Check that a package, by its import name, is installed. The error says to install ``evenstep[<extra>]``.

    `where` is the command's name in the error.

    Raises:
        InputError: it is not.
    """
    if find_spec(package) is None:
        hint = f"Install it with: pip install 'evenstep[{extra}]'."
        raise InputError(where, package, "missing", f"the package {package.replace('_', '-')}", hint)


def said(line: str) -> None:
    """Print a line about a service to stdout, at once. If stdout is full or closed, no error is raised.

    All that the process prints later is then discarded.
    """
    try:
        print(line, flush=True)
    except (OSError, ValueError):
        with contextlib.suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, sys.stdout.fileno())
            os.close(nowhere)


def on_end(end: Callable[[], None]) -> None:
    """Call `end` on the running event loop at each SIGINT and SIGTERM, in place of what these signals did before."""
    import asyncio

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        try:
            loop.add_signal_handler(number, end)
        except NotImplementedError:  # Windows
            signal.signal(number, lambda _number, _frame: loop.call_soon_threadsafe(end))


def collect_rarely() -> None:
    """Make the garbage collector of this process run rarely, so that it seldom interrupts streams.

    Objects alive now are never examined again; the others only after 50,000 new ones. Call it when a service has started.
    """
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """The function that makes event loops: uvloop's if it is installed, else the standard one."""
    if find_spec("uvloop") is None:
        import asyncio

        return asyncio.new_event_loop
    import uvloop  # type: ignore[import-not-found,unused-ignore]

    return uvloop.new_event_loop


def allow_files() -> None:
    """Raise this process's limit of open files to 65,536, or to the system's hard limit if that is lower.

    A higher limit stays as it is. On Windows nothing is done.
    """
    if sys.platform == "win32":
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES if hard == resource.RLIM_INFINITY else min(_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
