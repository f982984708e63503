"""Discovers workers that come and go: by DNS name, or by label in a Kubernetes cluster.

A failed lookup changes nothing: while DNS or the API server gives no answer, the last known workers stay. The breaker
handles engines that fail.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import socket
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from evenstep.errors import InputError
from evenstep.gateway.config.worker import Discovery, Dns, Worker
from evenstep.gateway.operate.logs import fields
from evenstep.gateway.operate.membership import Membership

_log = logging.getLogger("evenstep.gateway.operate.discovery")
#: Takes all workers of a source.
Tell = Callable[[list[Worker]], Awaitable[None]]
_AGAIN_S, _AGAIN_CAP_S = 1.0, 30.0


def sources(discovery: Discovery) -> dict[str, Callable[[Tell], Coroutine[Any, Any, None]]]:
    """Each source by name, with the coroutine that runs it until it is cancelled, or fails and is restarted.

    Raises:
        InputError: an invalid setting, or a missing package.
    """
    found: dict[str, Callable[[Tell], Coroutine[Any, Any, None]]] = {}
    for place, dns in enumerate(discovery.dns):
        where = f"discovery.dns[{place}]"
        check(where, dns.worker, dns.port, dns.every_s)
        if not dns.name:
            raise InputError(where, "name", dns.name, "a host name")
        found[f"dns:{dns.name}:{dns.port}"] = lambda tell, dns=dns: follow_dns(dns, tell)
    for place, pods in enumerate(discovery.kubernetes):
        from evenstep.gateway.operate.kubernetes import Pods

        where = f"discovery.kubernetes[{place}]"
        check(where, pods.worker, pods.port, pods.every_s)
        found[f"kubernetes:{pods.namespace}:{pods.selector}"] = Pods(pods, where).follow
    return found


async def discover(
    name: str, follow: Callable[[Tell], Coroutine[Any, Any, None]], membership: Membership
) -> None:
    """Keep a source's workers in the fleet; begin it again, later and later, when it fails."""
    again_s = _AGAIN_S

    async def tell(workers: list[Worker]) -> None:
        nonlocal again_s
        again_s = _AGAIN_S
        try:
            await membership.replace(name, workers)
        except InputError as error:
            _log.error("discovered workers were refused", extra=fields(source=name, why=str(error)))

    while True:
        try:
            await follow(tell)
        except Exception as error:
            said = str(error) or type(error).__name__
            _log.warning(
                "discovery fails; workers stay as they are", extra=fields(source=name, why=said[:500])
            )
        await asyncio.sleep(again_s)
        again_s = min(2 * again_s, _AGAIN_CAP_S)


async def follow_dns(dns: Dns, tell: Tell) -> None:
    """Look a name up again and again, and tell the workers at its addresses.

    Raises:
        OSError: it cannot be looked up.
    """
    loop = asyncio.get_running_loop()
    while True:
        found = await loop.getaddrinfo(dns.name, dns.port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
        hosts = sorted({str(address[0]) for *_, address in found})
        await tell([worker for host in hosts for worker in at_address(dns.worker, host, dns.port)])
        await asyncio.sleep(dns.every_s)


def at_address(common: Worker, host: str, port: int, name: str = "", group: str = "") -> list[Worker]:
    """The worker at an address, or its ranks.

    Args:
        common: the settings it shares with its neighbours; scheme and path of its URL apply.
        host: IPv4 or IPv6 address.
        name, group: of the worker, if not derived from its address and from `common`.
    """
    scheme, _, path, _, _ = urlsplit(common.url)
    shown = f"[{host}]" if ":" in host else host
    url = urlunsplit((scheme, f"{shown}:{port}", path, "", ""))
    return dataclasses.replace(common, url=url, name=name, group=group or common.group).each()


def check(where: str, common: Worker, port: int, every_s: float) -> None:
    """See that workers can be made of a source's settings.

    Raises:
        InputError: they cannot.
    """
    if not 0 < port < 65536:
        raise InputError(where, "port", port, "a number from 1 to 65535")
    if not 0 < every_s < float("inf"):
        raise InputError(where, "every_s", every_s, "a number above 0")
    if urlsplit(common.url).scheme not in ("http", "https") or urlsplit(common.url).netloc:
        raise InputError(
            where, "worker.url", common.url, "http:// or https://, with a path where there is one"
        )
    if common.name:
        raise InputError(
            where, "worker.name", common.name, "no name", "Each worker is called by its address."
        )
    for one in at_address(common, "127.0.0.1", port):
        one.spec()
