"""What every process that opens sockets needs: an address, a fast event loop, enough open files, the HTTP packages."""

from __future__ import annotations

import contextlib
import errno
import gc
import ipaddress
import os
import re
import signal
import socket
import sys
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING

from evenstep.errors import InputError
from evenstep.wording import install_extra

if sys.platform != "win32":
    import fcntl
    import termios

if TYPE_CHECKING:
    import asyncio

_FILES = 65536
#: Copies of a listening socket: new connections that uvloop accepts a turn, less one. Each costs a system call a connection.
_COPIES = 7


def listening(where: str, host: str, port: int) -> socket.socket:
    """Make a TCP socket bound to an address; the caller calls `listen` with it, and closes it.

    Args:
        where: the command's name in errors.
        host, port: a name or IP address of this machine, and the port; port 0 = any free one.

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
        raise _taken(where, host, port, error) from None
    return found


def listen(where: str, bound: socket.socket, backlog: int) -> None:
    """Begin to listen at a socket of `listening`, before an event loop gets it: uvloop tells no failure of its own.

    A port at which another process listens by now, though both were bound to it, raises `InputError` and closes the socket.
    """
    try:
        bound.listen(backlog)
    except OSError as error:
        host, port = bound.getsockname()[:2]
        bound.close()
        raise _taken(where, host, port, error) from None


def handles(bound: socket.socket, loop: asyncio.AbstractEventLoop) -> list[socket.socket]:
    """A listening socket and, for uvloop, copies of it: give each to a server of its own, all of them alike.

    uvloop accepts one connection a turn of the loop and server. With one server it would turn once for each new connection,
    and the gateway would decide about one request at a time. asyncio's own loop accepts all at once and needs no copy. There
    are fewer copies where the system allows no more open files.
    """
    is_uvloop = type(loop).__module__.partition(".")[0] == "uvloop"
    found = [bound]
    with contextlib.suppress(OSError):
        for _ in range(_COPIES if is_uvloop else 0):
            found.append(bound.dup())
    return found


def _taken(where: str, host: str, port: int, error: OSError) -> InputError:
    """The error for a port that cannot be had; with port 0, the address is at fault."""
    expected = "a free port" if port else "an address of this machine"
    hint = f"{error.strerror}. Give another --port, or 0 for any free one."
    return InputError(where, "--port", f"{host}:{port}", expected, hint)


def in_flight(sock: socket.socket | None) -> int:
    """Bytes that the system has not delivered; 0 where it does not say. More may wait below TLS only if there are some."""
    if sock is not None and sys.platform != "win32":
        with contextlib.suppress(OSError, ValueError):  # closed already
            return int.from_bytes(fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, bytes(4)), sys.byteorder)
    return 0


def in_url(host: str) -> str:
    """A host as URLs write it: an IPv6 address in brackets."""
    return f"[{host}]" if ":" in host else host


def is_address(host: str) -> bool:
    """Whether a host is an IP address, and not a name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def without_user(url: str) -> str:
    """The URL for an error, with user and password replaced by ``(hidden)``; no server URL may have them here."""
    return re.sub(r"^(https?:)?/*.*@", r"\1//(hidden)@", url, flags=re.IGNORECASE | re.DOTALL)


def need_gateway_extra(where: str) -> None:
    """Raise an `InputError` of the command `where` if httptools (HTTP parser) or aiohttp (admin API) is not installed."""
    for package in ("httptools", "aiohttp"):
        need_package(where, package)


def need_package(where: str, package: str, extra: str = "gateway") -> None:
    """Raise an `InputError` of the command `where` if a package (import name) is missing: install ``evenstep[<extra>]``."""
    if find_spec(package) is None:
        raise InputError(where, package, "missing", f"the package {package.replace('_', '-')}", install_extra(extra))


def said(line: str) -> None:
    """Print a line to stdout at once; if stdout is full or closed, discard it and all later output, without an error."""
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
    """Make the garbage collector run rarely, so that it seldom interrupts streams. Call it when a service has started.

    Objects alive now are never examined again; the others only after 50,000 new ones.
    """
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """The function that makes event loops: that of uvloop if it is installed, else the one of asyncio."""
    if find_spec("uvloop") is None:
        import asyncio

        return asyncio.new_event_loop
    import uvloop  # type: ignore[import-not-found,unused-ignore]

    return uvloop.new_event_loop


def allow_files(needed: int = 0) -> int:
    """Raise this process's limit of open files to `needed`, at least 65,536, or to the hard limit if lower; never lower it.

    A system that refuses so many, as macOS may below its hard limit, is asked for 65,536. Returns `needed`, or the limit in
    force if it is lower. On Windows there is no limit.
    """
    if sys.platform == "win32":
        return needed
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return needed
    for wanted in (max(_FILES, needed), _FILES):
        if hard != resource.RLIM_INFINITY:
            wanted = min(wanted, hard)
        if soft < wanted:
            with contextlib.suppress(OSError, ValueError):
                resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
                soft = wanted
    return min(needed, soft)
