"""The admin API's OpenAPI 3.1 document; schemas of bodies come from the dataclasses that parse them."""

from __future__ import annotations

from functools import cache
from typing import Any

from evenstep import __version__
from evenstep.config import schema
from evenstep.gateway.config.worker import Worker

_TEXT = {"type": "string"}
_FLAG = {"type": "boolean"}
_TEXTS = {"type": "array", "items": _TEXT}
_EXAMPLES: dict[str, dict[str, Any]] = {
    "Worker": {"url": "http://10.0.0.7:8000", "slots": 64, "group": "east"},
    "Policy": {"policy": "br-h:horizon=20", "predictor": "survival"},
}


@cache
def document() -> dict[str, Any]:
    """The OpenAPI document, as plain data; the same object each time, so do not change it."""
    return {
        "openapi": "3.1.0",
        "info": {"title": "evenstep admin API", "version": __version__},
        "security": [{"adminKey": []}],
        "paths": {
            "/healthz": {"get": _op("Whether the data path answers", _ok(_object(ok=_FLAG)), 503, is_open=True)},
            "/readyz": {
                "get": _op(
                    "Whether the gateway should get requests, the reason if not, and notes on problems to mend",
                    _ok(_ref("Readiness")),
                    is_open=True,
                    more={"503": _content("Not ready", {"anyOf": [_ref("Readiness"), _ref("Error")]})},
                )
            },
            "/metrics": {"get": _op("Prometheus page", _ok(_TEXT, "text/plain"), 503)},
            "/snapshot": {"get": _op("Everything measured", _ok({"type": "object"}), 503)},
            "/workers": {
                "get": _op("Every worker, with its source and its state", _ok(_ref("Workers")), 503),
                "post": _op(
                    "Add a worker, or change its description",
                    {"201": _content("Joined", _names("workers"))},
                    400,
                    503,
                    body="Worker",
                ),
            },
            "/workers/{name}": {
                "delete": _op(
                    "Remove a worker: its requests finish there, or with drain=false continue elsewhere at once",
                    {"202": _content("Leaves", _object(worker=_TEXT))},
                    400,
                    404,
                    503,
                    parameters=[
                        _in("path", "name", _TEXT, required=True),
                        _in("query", "drain", {"enum": ["true", "false"]}),
                    ],
                )
            },
            "/policy": {
                "get": _op(
                    "Policy and predictor in force; how often and why least load decided instead",
                    _ok(_ref("PolicyInForce")),
                    503,
                ),
                "put": _op("Use another policy until the next reload", _ok(_ref("Policy")), 400, 503, body="Policy"),
            },
            "/config": {"get": _op("Every setting, its value and its origin", _ok(_ref("Config")))},
            "/reload": {
                "post": _op("Read file, environment and keys again, and apply them", _ok(_ref("Reloaded")), 400, 503)
            },
            "/drain": {"post": _op("Accept no new requests", {"202": _content("Draining", _object(draining=_FLAG))}, 503)},
            "/openapi.json": {"get": _op("This document", _ok({"type": "object"}))},
        },
        "components": {
            "securitySchemes": {"adminKey": {"type": "http", "scheme": "bearer"}},
            "schemas": _schemas(),
        },
    }


def _schemas() -> dict[str, Any]:
    worker = schema(Worker, "a worker")
    worker["properties"].pop("version")
    worker["required"].remove("version")
    for key in ("$schema", "title"):
        worker.pop(key)
    policy = _object(policy=_TEXT, predictor=_TEXT)
    policy["required"] = ["policy"]
    policy["additionalProperties"] = False
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


def _op(
    summary: str,
    good: dict[str, Any],
    *bad: int,
    is_open: bool = False,
    body: str = "",
    more: dict[str, Any] | None = None,
    parameters: list[dict[str, Any]] | None = None,
) -> dict[str, Any]:
    codes = [*bad, 403, *([] if is_open else [401])]
    found: dict[str, Any] = {
        "summary": summary,
        "responses": {
            **good,
            **(more or {}),
            **{str(code): _content("An error", _ref("Error")) for code in sorted(codes)},
        },
    }
    if is_open:
        found["security"] = []
    if body:
        content = {"schema": _ref(body), "examples": {"one": {"value": _EXAMPLES[body]}}}
        found["requestBody"] = {"required": True, "content": {"application/json": content}}
    if parameters:
        found["parameters"] = parameters
    return found


def _ok(shape: dict[str, Any], kind: str = "application/json") -> dict[str, Any]:
    return {"200": _content("As asked", shape, kind)}


def _content(said: str, shape: dict[str, Any], kind: str = "application/json") -> dict[str, Any]:
    return {"description": said, "content": {kind: {"schema": shape}}}


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


def _names(field: str) -> dict[str, Any]:
    return _object(**{field: _TEXTS})


def _ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def _in(place: str, name: str, shape: dict[str, Any], required: bool = False) -> dict[str, Any]:
    return {"in": place, "name": name, "schema": shape, "required": required}
