"""Sends GET requests to a server, and finds the name of a model that it serves."""

from __future__ import annotations

import http.client

import msgspec

from evenstep.errors import EngineError, InputError
from evenstep.load.settings import Target

_TIMEOUT_S = 10.0


class _Model(msgspec.Struct):
    id: str


class _Models(msgspec.Struct):
    data: list[_Model]


def first_model(target: Target, api_key: str | None) -> str:
    """Ask the server's ``/v1/models`` for the name of the first model that it lists.

    Raises:
        InputError: the server cannot be reached, is silent for 10 s, or refuses access (401, 403).
        EngineError: its answer is another status than 200, or no list of at least one model.
    """
    status, body = get(target, "/v1/models", api_key)
    if status in (401, 403):
        raise InputError("evenstep load", "--api-key", "(hidden)", "a key the server takes", f"It answered {status}.")
    hint = "Name the model with --model."
    if status != 200:
        raise EngineError(f"{target.authority}: /v1/models answered {status}; expected 200. {hint}")
    try:
        models = msgspec.json.decode(body, type=_Models).data
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise EngineError(f"{target.authority}: /v1/models is not a list of models. {hint}") from None
    if not models:
        raise EngineError(f"{target.authority}: /v1/models lists no model. {hint}")
    return models[0].id


def get(target: Target, path: str, api_key: str | None = None) -> tuple[int, bytes]:
    """Send a GET request for a path, appended to the target's `base`, and wait; returns status (any) and body.

    A key that is not empty is sent as bearer token. Redirects are not followed. A server that cannot be reached, does not
    speak HTTP, or is silent for 10 s raises `InputError`.
    """
    kind = http.client.HTTPSConnection if target.secure else http.client.HTTPConnection
    connection = kind(target.host, target.port, timeout=_TIMEOUT_S)
    try:
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        connection.request("GET", target.base + path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    except (OSError, http.client.HTTPException) as error:
        said = getattr(error, "strerror", None) or str(error) or type(error).__name__
        shown = f"{'https' if target.secure else 'http'}://{target.authority}"
        raise InputError("evenstep load", "--url", shown, "a server that answers", f"{said}.") from None
    finally:
        connection.close()
