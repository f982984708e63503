"""Shows a config to people and programs: every setting with its value and origin, secrets covered."""

from __future__ import annotations

import json
from typing import Any, cast

import msgspec

from evenstep.config import Settled
from evenstep.gateway.config.config import GatewayConfig, value_at
from evenstep.gateway.config.secrets import covered

_SECRETS = {"key", "api_key", "salt", "token"}


def rows(settled: Settled[GatewayConfig]) -> list[dict[str, Any]]:
    """One row a setting, in the order of `settled.origin`: ``setting`` (dotted name), ``value`` in plain values, ``origin``.

    A secret is shown as `covered` returns it. A setting of a section that is missing has the value None.
    """
    return [
        {"setting": name, "value": _covered(name, msgspec.to_builtins(value_at(settled.value, name))), "origin": origin}
        for name, origin in settled.origin.items()
    ]


def as_json(settled: Settled[GatewayConfig]) -> str:
    """The `rows` as an indented JSON list."""
    return json.dumps(rows(settled), indent=2)


def as_text(settled: Settled[GatewayConfig]) -> str:
    """A table of the `rows` as text: name, value and origin in columns, one line each.

    A list of sections, such as `workers`, takes one line for each item, without its empty values.
    """
    lines: list[tuple[str, str, str]] = []
    for row in rows(settled):
        value, name, origin = row["value"], row["setting"], row["origin"]
        if isinstance(value, list) and value and isinstance(value[0], dict):
            for place, item in enumerate(cast("list[dict[str, Any]]", value)):
                said = ", ".join(f"{k}: {_text(v)}" for k, v in item.items() if v not in ("", None, [], {}))
                lines.append((f"{name}[{place}]", said, origin))
        else:
            lines.append((name, _text(value), origin))
    width = max(len(name) for name, _, _ in lines)
    middle = max((len(value) for _, value, _ in lines if len(value) <= 40), default=0)
    return "\n".join(f"{name:<{width}}  {value:<{middle}}  {origin}" for name, value, origin in lines)


def _text(value: Any) -> str:
    if value is None:
        return "none"
    return value if isinstance(value, str) and value else json.dumps(value)


def _covered(name: str, value: Any) -> Any:
    if isinstance(value, list):
        return [_covered(name, item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {key: _covered(str(key), item) for key, item in cast("dict[Any, Any]", value).items()}
    if isinstance(value, str) and name.rpartition(".")[2] in _SECRETS and not name.endswith(".tls.key"):
        return covered(value)
    return value
