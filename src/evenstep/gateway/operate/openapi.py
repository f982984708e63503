"""The admin API's OpenAPI 3.1 document; schemas of bodies come from the dataclasses that parse them."""

from __future__ import annotations

from functools import cache
from typing import Any

from evenstep import __version__
from evenstep.config.schema import file_schema
from evenstep.gateway.config.worker import Worker

_TEXT = {"type": "string"}
_FLAG = {"type": "boolean"}
_TEXTS = {"type": "array", "items": _TEXT}
_COMPILES = "a policy never compiled on this machine takes up to a minute"
_EXAMPLES: dict[str, dict[str, Any]] = {
    "Worker": {"url": "http://10.0.0.7:8000", "slots": 64, "group": "east"},
    "Policy": {"policy": "br-h:horizon=20", "predictor": "survival"},
}


@cache
def document() -> dict[str, Any]:
    """The OpenAPI document, as plain data; the same object each time, so do not change it."""
    joined = _object(workers=_TEXTS)
    return {
        "openapi": "3.1.0",
        "info": {"title": "evenstep admin API", "version": __version__},
        "security": [{"adminKey": []}],
        "paths": {
            "/healthz": {"get": _op("Whether the data path answers", _object(ok=_FLAG), 503, is_open=True)},
            "/readyz": {"get": _readiness()},
            "/metrics": {"get": _op("Prometheus page", _TEXT, 503, kind="text/plain")},
            "/snapshot": {"get": _op("Everything measured", {"type": "object"}, 503)},
            "/workers": {
                "get": _op("Every worker, with its source and its state", _ref("Workers"), 503),
                "post": _op("Add a worker, or change its description", joined, 400, 503, good="201 Joined", body="Worker"),
            },
            "/workers/{name}": {"delete": _removal()},
            "/policy": {
                "get": _op(
                    "Policy and predictor in force; how often and why least load decided instead", _ref("PolicyInForce"), 503
                ),
                "put": _op(
                    f"Use another policy until the next reload; {_COMPILES}", _ref("Policy"), 400, 503, body="Policy"
                ),
            },
            "/config": {"get": _op("Every setting, its value and its origin", _ref("Config"))},
            "/reload": {
                "post": _op(
                    f"Read file, environment and keys again, and apply them; {_COMPILES}", _ref("Reloaded"), 400, 503
                )
            },
            "/drain": {"post": _op("Accept no new requests", _object(draining=_FLAG), 503, good="202 Draining")},
            "/openapi.json": {"get": _op("This document", {"type": "object"})},
        },
        "components": {"securitySchemes": {"adminKey": {"type": "http", "scheme": "bearer"}}, "schemas": _schemas()},
    }


def _schemas() -> dict[str, Any]:
    worker = file_schema(Worker, "a worker")
    worker["properties"].pop("version")
    worker["required"].remove("version")
    for key in ("$schema", "title"):
        worker.pop(key)
    policy = _object(policy=_TEXT, predictor=_TEXT)
    policy |= {"required": ["policy"], "additionalProperties": False}
    return {
        "Worker": worker,
        "Workers": _object(workers={"type": "array", "items": {"type": "object"}}),
        "Policy": policy,
        "PolicyInForce": _object(policy=_TEXT, predictor=_TEXT, models={"type": "object"}),
        "Readiness": _object(ready=_FLAG, why=_TEXT, notes=_TEXTS),
        "Config": _object(settings={"type": "array", "items": _object(setting=_TEXT, value={}, origin=_TEXT)}),
        "Reloaded": _object(changed=_TEXTS, joined=_TEXTS, left=_TEXTS, needs_restart=_TEXTS),
        "Error": _object(error=_object(message=_TEXT, field=_TEXT, value=_TEXT)),
    }


def _readiness() -> dict[str, Any]:
    said = "Whether the gateway should get requests, the reason if not, and notes on problems to mend"
    found = _op(said, _ref("Readiness"), is_open=True)
    good, not_ready = found["responses"]["200"], _content("Not ready", {"anyOf": [_ref("Readiness"), _ref("Error")]})
    found["responses"] = {"200": good, "503": not_ready, **found["responses"]}
    return found


def _removal() -> dict[str, Any]:
    said = "Remove a worker: its requests finish there, or with drain=false continue elsewhere at once"
    found = _op(said, _object(worker=_TEXT), 400, 404, 503, good="202 Leaves")
    name = {"in": "path", "name": "name", "schema": _TEXT, "required": True}
    drain = {"in": "query", "name": "drain", "schema": {"enum": ["true", "false"]}, "required": False}
    rank = {"in": "query", "name": "rank", "schema": {"type": "integer", "minimum": 0}, "required": False}
    rank["description"] = "Remove only this rank: the worker NAME#RANK"
    return {**found, "parameters": [name, drain, rank]}


def _op(
    summary: str,
    shape: dict[str, Any],
    *bad: int,
    good: str = "200 As asked",
    kind: str = "application/json",
    is_open: bool = False,
    body: str = "",
) -> dict[str, Any]:
    """The OpenAPI description of one operation: one method of one path.

    Args:
        shape, kind: schema and content type of the good answer.
        bad: statuses of its errors, besides 403 and 401.
        good: status and description of the good answer.
        is_open: it needs no key.
        body: name of its body's schema; empty = it has no body.
    """
    code, _, said = good.partition(" ")
    codes = [*bad, 403, *([] if is_open else [401])]
    found: dict[str, Any] = {
        "summary": summary,
        "responses": {
            code: _content(said, shape, kind),
            **{str(code): _content("An error", _ref("Error")) for code in sorted(codes)},
        },
    }
    if is_open:
        found["security"] = []
    if body:
        content = {"schema": _ref(body), "examples": {"one": {"value": _EXAMPLES[body]}}}
        found["requestBody"] = {"required": True, "content": {"application/json": content}}
    return found


def _content(said: str, shape: dict[str, Any], kind: str = "application/json") -> dict[str, Any]:
    return {"description": said, "content": {kind: {"schema": shape}}}


def _object(**properties: Any) -> dict[str, Any]:
    """The schema of an object in which all these properties are required."""
    return {"type": "object", "properties": properties, "required": list(properties)}


def _ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}
