"""The admin API of a running gateway, on a port of its own.

Its handlers run in the operation thread, never on the data path. Answers but ``/metrics`` are JSON; errors are ``{"error":
{"message": ..., "field": ..., "value": ...}}``. ``GET /openapi.json`` describes the API.
"""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import hmac
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

import orjson
from aiohttp import web

from evenstep.config.convert import convert
from evenstep.config.messages import unless_secret
from evenstep.config.yaml_file import Document
from evenstep.engines.metrics.page import CONTENT_TYPE
from evenstep.errors import EvenstepError, InputError
from evenstep.gateway.config.config import is_loopback
from evenstep.gateway.config.secrets import covered, digest_of
from evenstep.gateway.config.sections import Admin
from evenstep.gateway.config.show import rows
from evenstep.gateway.config.worker import Worker, check_engine
from evenstep.gateway.operate.metrics_page import metrics_page
from evenstep.gateway.operate.openapi import document

if TYPE_CHECKING:
    from evenstep.gateway.operate.control import ControlProxy, Snapshots
    from evenstep.gateway.operate.membership import Membership
    from evenstep.gateway.operate.reloading import Reloader

T = TypeVar("T")
_log = logging.getLogger("evenstep.gateway.operate.admin")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_LARGEST_BODY = 1 << 20
_ASK_S = 5.0
#: Paths that need no key: what load balancers and Kubernetes ask.
OPEN = ("/healthz", "/readyz")


def digest_of_key(settings: Admin) -> bytes:
    """SHA-256 of the key that operators must send; empty = no key is needed. Raises InputError if it cannot be read."""
    return digest_of(settings.key, "admin", "key") if settings.key else b""


@dataclasses.dataclass(frozen=True, slots=True)
class NewPolicy:
    """The body of ``PUT /policy``: policy and predictor, each as NAME[:key=value,...].

    An empty predictor is the policy's default.
    """

    policy: str
    predictor: str = ""


class AdminApi:
    """The endpoints of the admin API; `app` builds the application that serves them.

    Only the key of `settings` is used; the caller listens at its address. Raises InputError if the key cannot be read.
    """

    def __init__(
        self, settings: Admin, proxy: ControlProxy, snapshots: Snapshots, membership: Membership, reloader: Reloader
    ) -> None:
        self._proxy, self._snapshots, self._membership, self._reloader = proxy, snapshots, membership, reloader
        self._digest = digest_of_key(settings)

    def renew(self, settings: Admin) -> None:
        """Take the key from its file again. Raises InputError if it cannot be read."""
        self._digest = digest_of_key(settings)

    def app(self) -> web.Application:
        """A new aiohttp application with all endpoints and the check of the key; serve it in the operation thread."""
        app = web.Application(middlewares=[_errors_as_json, self._allowed], client_max_size=_LARGEST_BODY)
        app.add_routes(
            [
                web.get("/healthz", self._healthz),
                web.get("/readyz", self._readyz),
                web.get("/metrics", self._metrics),
                web.get("/snapshot", self._snapshot),
                web.get("/workers", self._workers),
                web.post("/workers", self._add),
                web.delete("/workers/{name}", self._remove),
                web.get("/policy", self._policy),
                web.put("/policy", self._set_policy),
                web.get("/config", self._config),
                web.post("/reload", self._reload),
                web.post("/drain", self._drain),
                web.get("/openapi.json", self._openapi),
            ]
        )
        return app

    @web.middleware
    async def _allowed(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Middleware: pass on requests with the admin key or, if none is set, those sent to a loopback name; refuse others.

        Requests with an Origin, or from a page of another origin, get status 403. The paths of `OPEN` need no key.
        """
        origin = request.headers.get("Origin")
        if origin is not None or request.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
            return _error(403, "Pages of a browser may not ask this API.", "Origin", origin or "")
        if request.path in OPEN:
            return await handler(request)
        if not self._digest:
            host = request.host.rpartition(":")[0] if not request.host.endswith("]") else request.host
            if not is_loopback(host or request.host):
                message = "Without an admin key this API answers to loopback names only."
                return _error(403, message, "Host", request.host)
        elif not hmac.compare_digest(_shown_digest(request), self._digest):
            answer = _error(401, "The admin key is missing or wrong.", "Authorization", "")
            answer.headers["WWW-Authenticate"] = "Bearer"
            return answer
        return await handler(request)

    async def _healthz(self, request: web.Request) -> web.Response:
        """Answer 200 if the data path answers, else 503 after 5 seconds."""
        await self._ask(self._proxy.gateway.front.not_ready)
        return web.json_response({"ok": True})

    async def _readyz(self, request: web.Request) -> web.Response:
        """Answer 200 if the gateway should get requests, else 503, with the reason and with notes to the operator."""
        why = await self._ask(self._proxy.gateway.front.not_ready)
        notes = await self._ask(self._proxy.gateway.front.notes)
        found = {"ready": not why, "why": why, "notes": notes}
        return web.json_response(found, status=503 if why else 200)

    async def _metrics(self, request: web.Request) -> web.Response:
        found, age_s = await self._snapshots.latest()
        return web.Response(body=metrics_page(found, age_s), headers={"Content-Type": CONTENT_TYPE})

    async def _snapshot(self, request: web.Request) -> web.Response:
        found, age_s = await self._snapshots.latest()
        return web.json_response({"age_s": age_s, **found}, dumps=_dumps)

    async def _workers(self, request: web.Request) -> web.Response:
        """Answer with every worker: its settings, its source and its state."""
        known = await self._ask(self._proxy.gateway.workers)
        found, _ = await self._snapshots.latest()
        states = {
            one["worker"]: {"model": model, **one}
            for model, snapshot in found["models"].items()
            for one in (*snapshot["workers"], *snapshot["prefillers"])
        }
        return web.json_response({"workers": [self._shown(w, states.get(w.name)) for w in known]}, dumps=_dumps)

    async def _add(self, request: web.Request) -> web.Response:
        """Add the worker in the request's body, or change a known one; answer with the names, one for each rank."""
        worker = await _body(request, Worker)
        check_engine(worker)
        fleet = dataclasses.replace(self._reloader.settled.value, workers=[worker]).fleet()
        for one in fleet:
            one.spec()
        await self._membership.add(fleet)
        return web.json_response({"workers": [one.name for one in fleet]}, status=201)

    async def _remove(self, request: web.Request) -> web.Response:
        """Remove the worker of the URL, or only the ``rank`` of the query; ``drain=false``: at once. 404 if unknown."""
        drain = request.query.get("drain", "true")
        if drain not in ("true", "false"):
            raise InputError("query", "drain", drain, "true or false")
        name = request.match_info["name"]
        rank = request.query.get("rank")
        if rank is not None:
            name = f"{name}#{rank}"
        known = await self._ask(self._proxy.gateway.workers)
        if name not in {worker.name for worker in known}:
            return _error(404, self._no_worker(name), "name", name)
        await self._membership.remove(name, drain == "true")
        return web.json_response({"worker": name}, status=202)

    def _no_worker(self, name: str) -> str:
        """The message that no worker has this name. If its ranks are workers, it says how to write their names in a URL."""
        ranks = [one.name for one in self._membership.workers() if one.name.startswith(f"{name}#")]
        said = f"There is no worker {name}."
        if not ranks:
            return f"{said} GET /workers lists all."
        return (
            f"{said} Its ranks are workers of their own: {', '.join(ranks)}. A # in a URL is written %23: "
            f"DELETE /workers/{ranks[0].replace('#', '%23')}, or DELETE /workers/{name}?rank=0."
        )

    async def _policy(self, request: web.Request) -> web.Response:
        """Answer with the policy in force and, for each model, how often and why least load decided in its place."""
        found, _ = await self._snapshots.latest()
        shown = ("policy_is_off", "fallback_total", "fallback_last")
        models = {model: {name: one[name] for name in shown} for model, one in found["models"].items()}
        return web.json_response({**self._in_force(), "models": models}, dumps=_dumps)

    async def _set_policy(self, request: web.Request) -> web.Response:
        wanted = await _body(request, NewPolicy)
        await self._reloader.set_policy(wanted.policy, wanted.predictor)
        return web.json_response(self._in_force())

    def _in_force(self) -> dict[str, Any]:
        config = self._reloader.settled.value
        return {"policy": config.policy, "predictor": config.predictor}

    async def _config(self, request: web.Request) -> web.Response:
        return web.json_response({"settings": rows(self._reloader.settled)}, dumps=_dumps)

    async def _reload(self, request: web.Request) -> web.Response:
        done = await self._reloader.reload()
        return web.json_response(dataclasses.asdict(done))

    async def _drain(self, request: web.Request) -> web.Response:
        await self._ask(self._proxy.gateway.drain)
        return web.json_response({"draining": True}, status=202)

    async def _openapi(self, request: web.Request) -> web.Response:
        return web.json_response(document())

    async def _ask(self, call: Callable[[], T]) -> T:
        """Call a function on the gateway's loop and return its result. TimeoutError after 5 seconds."""
        async with asyncio.timeout(_ASK_S):
            return await asyncio.wrap_future(self._proxy.ask(call))

    def _shown(self, worker: Worker, state: dict[str, Any] | None) -> dict[str, Any]:
        """A worker's settings, with its key hidden, its source, and its state in the last snapshot (None = not in it)."""
        said = dataclasses.asdict(worker)
        said["api_key"] = covered(worker.api_key)
        return {**said, "source": self._membership.source_of(worker.name), "state": state}


@web.middleware
async def _errors_as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Middleware: turn each exception into a JSON error. One that we did not foresee is logged, and gets status 500."""
    try:
        return await handler(request)
    except InputError as error:
        return _error(400, str(error), error.field, error.value)
    except EvenstepError as error:
        return _error(400, str(error))
    except TimeoutError:
        return _error(503, "The data path does not answer.")
    except web.HTTPException as error:
        allow = {name: value for name, value in error.headers.items() if name == "Allow"}
        said = f"takes {allow['Allow']}" if allow else error.reason
        answer = _error(error.status, f"{request.path[:120]}: {said}. GET /openapi.json lists what this API takes.")
        answer.headers.update(allow)
        return answer
    except Exception:
        _log.exception("the admin API failed; this is a bug of evenstep")
        return _error(500, "This is a bug of evenstep; its log says more.")


def _error(status: int, message: str, field: str = "", value: object = "") -> web.Response:
    return web.json_response({"error": {"message": message, "field": field, "value": str(value)}}, status=status)


def _shown_digest(request: web.Request) -> bytes:
    """SHA-256 of the bearer token in a request; of empty bytes if there is none."""
    scheme, _, key = request.headers.get("Authorization", "").partition(" ")
    return hashlib.sha256(key.strip().encode("utf-8", "surrogateescape") if scheme.lower() == "bearer" else b"").digest()


async def _body(request: web.Request, kind: type[T]) -> T:
    """The JSON object in a request's body, converted to the dataclass `kind`.

    Raises InputError for another content type, a body that is no JSON object, an unknown key, or a value that does not fit.
    """
    if request.content_type != "application/json":
        raise InputError("request", "Content-Type", request.content_type, "application/json")
    raw = await request.read()
    try:
        values = orjson.loads(raw)
    except orjson.JSONDecodeError:
        shown = unless_secret("body", raw[:80].decode("utf-8", "replace"))
        raise InputError("request", "body", shown, "JSON") from None
    if not isinstance(values, dict):
        raise InputError("request", "body", type(values).__name__, "a JSON object")
    return convert(Document("request", values), kind)


def _dumps(value: Any) -> str:
    """JSON text; numbers that JSON lacks (nan, inf) become null."""
    return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY).decode()
