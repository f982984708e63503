"""Makes workers of the addresses that a source of discovery found; shared by DNS and Kubernetes."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit, urlunsplit

from evenstep.errors import InputError, check_range
from evenstep.gateway.config.worker import Worker
from evenstep.sockets import in_url

#: Takes all workers of a source.
Tell = Callable[[list[Worker]], Awaitable[None]]


def at_address(common: Worker, host: str, port: int, name: str = "", group: str = "") -> list[Worker]:
    """The worker at an address, or its ranks in order, as `Worker.each` returns them.

    Args:
        common: settings of all workers of the source; only scheme and path of its URL are used.
        host: IPv4 or IPv6 address.
        port: of the worker.
        name: of the worker; empty = derived from its address.
        group: its barrier group; empty = that of `common`.

    Raises:
        InputError: see `Worker.each`.
    """
    scheme, _, path, _, _ = urlsplit(common.url)
    url = urlunsplit((scheme, f"{in_url(host)}:{port}", path, "", ""))
    return dataclasses.replace(common, url=url, name=name, group=group or common.group).each()


def check(where: str, common: Worker, port: int, every_s: float) -> None:
    """Check the settings of a source of discovery: port, interval, and a `worker` without host and name.

    Args:
        where: place of the settings, for errors.

    Raises:
        InputError: one of them is invalid.
    """
    check_range(where, "a number from 1 to 65535", above=0, below=65536, port=port)
    check_range(where, "a number above 0", above=0, finite=True, every_s=every_s)
    if urlsplit(common.url).scheme not in ("http", "https") or urlsplit(common.url).netloc:
        raise InputError(where, "worker.url", common.url, "http:// or https://, with a path where there is one")
    if common.name:
        raise InputError(where, "worker.name", common.name, "no name", "Each worker is called by its address.")
    for one in at_address(common, "127.0.0.1", port):
        one.spec()
