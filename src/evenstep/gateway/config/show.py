"""Shows a config to people and programs: every setting with its value and origin, and with secrets hidden."""

from __future__ import annotations

import json
from typing import Any, cast

import msgspec

from evenstep.config.layers import Settled
from evenstep.gateway.config.config import GatewayConfig, value_at
from evenstep.gateway.config.secrets import covered
from evenstep.sockets import without_user

_SECRETS = {"key", "api_key", "salt", "token"}


def rows(settled: Settled[GatewayConfig]) -> list[dict[str, Any]]:
    """One row for each setting, in the order of `settled.origin`: ``setting`` (its dotted name), ``value`` and ``origin``.

    Values are plain, as in JSON. A secret, or the user of a URL, is ``(hidden)`` unless it is empty, env:NAME or file:PATH.
    A setting of a missing section has the value None.
    """
    return [
        {"setting": name, "value": _covered(name, msgspec.to_builtins(value_at(settled.value, name))), "origin": origin}
        for name, origin in settled.origin.items()
    ]


def as_json(settled: Settled[GatewayConfig]) -> str:
    """The `rows` as an indented JSON list."""
    return json.dumps(rows(settled), indent=2)


def as_text(settled: Settled[GatewayConfig]) -> str:
    """The `rows` as a text table: name, value and origin in columns, one line for each row.

    A list of dataclasses, such as `workers`, takes one line for each item, without the item's empty values.
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
    """A plain value as text in the table: text as it is, None as ``none``, anything else and empty text as JSON."""
    if value is None:
        return "none"
    return value if isinstance(value, str) and value else json.dumps(value)


def _covered(name: str, value: Any) -> Any:
    """The value with all secrets in it hidden: text whose setting or key is called `name`, and users in URLs."""
    if isinstance(value, list):
        return [_covered(name, item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {key: _covered(str(key), item) for key, item in cast("dict[Any, Any]", value).items()}
    if not isinstance(value, str):
        return value
    if name.rpartition(".")[2] in _SECRETS and not name.endswith(".tls.key"):
        return covered(value)
    return without_user(value) if value.startswith(("http://", "https://")) else value
