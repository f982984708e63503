"""Workers in a Kubernetes cluster: the ready pods that a label selector finds, watched.

Built from the API's documentation and tested against a fake API server; not tried against a real cluster. The gateway's
service account needs ``get``, ``list`` and ``watch`` on pods of the namespace.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from evenstep.errors import InputError
from evenstep.gateway.config.secrets import read_secret
from evenstep.gateway.config.worker import Kubernetes, Worker, at_address
from evenstep.sockets import need_package

#: A function that takes all workers of a source.
Tell = Callable[[list[Worker]], Awaitable[None]]
_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_LEAVE_S = 5.0


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
        server or of the connection to it is raised.
        """
        from kubernetes_asyncio import client, watch

        async with client.ApiClient(self._configuration()) as api:
            pods: Any = client.CoreV1Api(api)
            asked = {"namespace": self._namespace, "label_selector": self._settings.selector}
            while True:
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

        A worker is called ``POD@ADDRESS``; each rank is a worker. Before `follow` has listed pods, there are no workers.
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
            found.api_key["BearerToken"] = f"Bearer {read_secret(settings.token, self._where, 'token')}"
        return found


def _is_ready(pod: Mapping[str, Any]) -> bool:
    if pod["metadata"].get("deletionTimestamp"):
        return False
    conditions = (pod.get("status") or {}).get("conditions") or []
    return any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)


def _own_namespace(where: str) -> str:
    try:
        return _NAMESPACE.read_text(encoding="utf-8").strip()
    except OSError:
        raise InputError(where, "namespace", "missing", "a namespace", "This process does not run in a pod.") from None
