"""Discovers workers that come and go: by DNS name, or by label in a Kubernetes cluster.

A failed lookup changes nothing: while DNS or the API server gives no answer, the last known workers stay. The dispatcher
ejects engines that fail.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from evenstep.errors import InputError
from evenstep.gateway.config.worker import Discovery, Dns, Worker, at_address
from evenstep.gateway.operate.kubernetes import Pods, Tell
from evenstep.gateway.operate.membership import Membership

_log = logging.getLogger("evenstep.gateway.operate.discovery")
_AGAIN_S, _AGAIN_CAP_S = 1.0, 30.0


def sources(discovery: Discovery) -> dict[str, Callable[[Tell], Coroutine[Any, Any, None]]]:
    """The discovery sources by name (`Discovery.sources`), each as the coroutine function that `discover` takes as `follow`.

    Raises InputError for an invalid setting, two sources with one name, or a missing package.
    """
    found: dict[str, Callable[[Tell], Coroutine[Any, Any, None]]] = {}
    for name, source in discovery.sources().items():
        if isinstance(source, Dns):
            found[name] = partial(follow_dns, source)
        else:
            found[name] = Pods(source, f"discovery.kubernetes[{discovery.kubernetes.index(source)}]").follow
    return found


async def discover(name: str, follow: Callable[[Tell], Coroutine[Any, Any, None]], membership: Membership) -> None:
    """Keep a source's workers in the fleet until cancelled; if the source fails, restart it after 1 to 30 seconds.

    Args:
        name: of the source, which owns its workers in `membership`.
        follow: watches the source. It is given a function, which it calls with all workers after each change or look-up. The
            function logs workers that `membership` refuses.
    """
    again_s = _AGAIN_S

    async def tell(workers: list[Worker]) -> None:
        nonlocal again_s
        again_s = _AGAIN_S
        try:
            await membership.replace(name, workers)
        except InputError as error:
            _log.error("discovered workers were refused", extra={"source": name, "why": str(error)})

    while True:
        try:
            await follow(tell)
        except Exception as error:
            said = str(error) or type(error).__name__
            _log.warning("discovery fails; workers stay as they are", extra={"source": name, "why": said[:500]})
        await asyncio.sleep(again_s)
        again_s = min(2 * again_s, _AGAIN_CAP_S)


async def follow_dns(dns: Dns, tell: Tell) -> None:
    """Look a DNS name up every `Dns.every_s` seconds until cancelled; call `tell` with the workers at its addresses.

    Raises OSError at a failed look-up, and InputError for settings that `at_address` rejects.
    """
    loop = asyncio.get_running_loop()
    while True:
        found = await loop.getaddrinfo(dns.name, dns.port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
        hosts = sorted({str(address[0]) for *_, address in found})
        await tell([worker for host in hosts for worker in at_address(dns.worker, host, dns.port)])
        await asyncio.sleep(dns.every_s)
