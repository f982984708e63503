"""Discovers workers that come and go: by DNS name, or by label in a Kubernetes cluster.

A failed lookup changes nothing: while DNS or the API server gives no answer, the last known workers stay. The dispatcher
ejects engines that fail.

The part for Kubernetes is built from the API's documentation and tested against a fake API server; not tried against a real
cluster. The gateway's service account needs ``get``, ``list`` and ``watch`` on pods of the namespace.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from evenstep.errors import InputError
from evenstep.gateway.config.secrets import read_secret
from evenstep.gateway.config.worker import Discovery, Dns, Kubernetes, Worker, at_address
from evenstep.gateway.operate.membership import Membership
from evenstep.sockets import need_package

#: A function that takes all workers of a source.
Tell = Callable[[list[Worker]], Awaitable[None]]
_log = logging.getLogger("evenstep.gateway.operate.discovery")
_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_LIST_S, _LEAVE_S = 30.0, 5.0  # longest wait for a list, and for the end of a watch after its time
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

    The wait doubles with each failure, and is short again after one that came later than the longest wait.

    Args:
        name: of the source, which owns its workers in `membership`.
        follow: watches the source. It is given a function, which it calls with all workers after each change or look-up. The
            function logs workers that `membership` refuses.
    """
    loop, again_s = asyncio.get_running_loop(), _AGAIN_S

    async def tell(workers: list[Worker]) -> None:
        try:
            await membership.replace(name, workers)
        except InputError as error:
            _log.error("discovered workers were refused", extra={"source": name, "why": str(error)})

    while True:
        begun_s = loop.time()
        try:
            await follow(tell)
        except Exception as error:
            said = str(error) or type(error).__name__
            _log.warning("discovery fails; workers stay as they are", extra={"source": name, "why": said[:500]})
        if loop.time() - begun_s > _AGAIN_CAP_S:
            again_s = _AGAIN_S
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


class Pods:
    """The pods that one selector finds, as workers.

    `settings` gives selector, namespace and API server, and `where` their place in the config, for errors. Raises InputError
    if the package is missing, or if there is no namespace.
    """

    def __init__(self, settings: Kubernetes, where: str) -> None:
        need_package(where, "kubernetes_asyncio", "k8s")
        self._settings, self._where = settings, where
        self._namespace = settings.namespace or _own_namespace(where)
        self._pods: dict[str, Mapping[str, Any]] = {}

    async def follow(self, tell: Tell) -> None:
        """List the pods, watch them for `Kubernetes.every_s` seconds, and repeat until cancelled.

        `tell` is called with all workers after each list, and whenever a watched change alters them. Any error of the API
        server or of the connection to it is raised; TimeoutError if it does not answer.
        """
        from kubernetes_asyncio import client, watch

        async with client.ApiClient(self._configuration()) as api:
            pods: Any = client.CoreV1Api(api)
            asked = {"namespace": self._namespace, "label_selector": self._settings.selector}
            while True:
                async with asyncio.timeout(_LIST_S):
                    listed = await pods.list_namespaced_pod(**asked)
                plain = api.sanitize_for_serialization(listed)
                self._pods = {one["metadata"]["name"]: one for one in plain.get("items") or []}
                told = self.workers()
                await tell(told)
                seconds = max(1, round(self._settings.every_s))
                version = plain["metadata"]["resourceVersion"]
                async with asyncio.timeout(seconds + _LEAVE_S), watch.Watch() as changes:
                    stream = changes.stream(
                        pods.list_namespaced_pod, **asked, resource_version=version, timeout_seconds=seconds
                    )
                    async for change in stream:
                        self._take(change["type"], change["raw_object"])
                        if self.workers() != told:
                            told = self.workers()
                            await tell(told)

    def workers(self) -> list[Worker]:
        """The workers of all pods that are ready and not terminating, by pod name, as last listed or watched.

        A worker is called ``POD@ADDRESS``, with ``#RANK`` if it has `ranks`. Before `follow` has listed pods, there are no
        workers.
        """
        settings, found = self._settings, list[Worker]()
        for name, pod in sorted(self._pods.items()):
            host = (pod.get("status") or {}).get("podIP")
            if host and _is_ready(pod):
                labels = pod["metadata"].get("labels") or {}
                group = labels.get(settings.group_label, "") if settings.group_label else ""
                found += at_address(settings.worker, host, settings.port, f"{name}@{host}", group)
        return found

    def _take(self, kind: str, pod: Mapping[str, Any]) -> None:
        """Apply a watched change (``ADDED``, ``MODIFIED``, ``DELETED``) to the known pods; ignores other kinds."""
        name = pod["metadata"].get("name", "")
        if kind == "DELETED":
            self._pods.pop(name, None)
        elif kind in ("ADDED", "MODIFIED"):
            self._pods[name] = pod

    def _configuration(self) -> Any:
        from kubernetes_asyncio import client, config

        settings = self._settings
        found = client.Configuration()
        if not settings.api:
            config.load_incluster_config(client_configuration=found)
            return found
        found.host = settings.api
        if settings.ca:
            found.ssl_ca_cert = settings.ca
        if settings.token:

            def renew(configuration: Any) -> None:  # called before each request, since the file's token may be renewed
                token = read_secret(settings.token, self._where, "token")
                configuration.api_key["BearerToken"] = f"Bearer {token}"

            renew(found)
            found.refresh_api_key_hook = renew
        return found


def _is_ready(pod: Mapping[str, Any]) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or []
    is_ready = any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)
    return is_ready and not pod["metadata"].get("deletionTimestamp")


def _own_namespace(where: str) -> str:
    try:
        return _NAMESPACE.read_text(encoding="utf-8").strip()
    except OSError:
        raise InputError(where, "namespace", "missing", "a namespace", "This process does not run in a pod.") from None
