"""Error answers for clients: OpenAI's error object, the HTTP status, and Retry-After."""

from __future__ import annotations

import re
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import msgspec

from evenstep.errors import InputError

#: Most bytes of an engine's error answer that are read.
MOST_REFUSAL = 64 * 1024


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error answer to a client."""

    status: int  # HTTP status
    kind: str  # OpenAI's ``type``
    message: str  # text for the client, without addresses of engines
    code: str | None = None  # a word for programs to match; None, as in OpenAI's API, for plain faults of a request
    param: str | None = None  # the invalid field; None if the error is not about one field
    retry_after_s: float = 0.0  # seconds until the client may try again; 0 = no Retry-After header

    def body(self) -> bytes:
        """The HTTP body: JSON with one member ``error``, which has message, type, param and code."""
        error = {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}
        return msgspec.json.encode({"error": error})

    def event(self) -> bytes:
        """The same JSON as one server-sent event, for a stream whose head has been sent; ``[DONE]`` is not included."""
        return b"data: " + self.body() + b"\n\n"

    @property
    def retry_after(self) -> bytes:
        """Value of the Retry-After header: whole seconds, rounded up; empty = no header."""
        seconds = -int(-self.retry_after_s // 1)
        return b"%d" % seconds if seconds > 0 else b""


#: A request without an API key, or with an unknown one.
UNAUTHORIZED = Refusal(401, "invalid_request_error", "Incorrect API key provided.", "invalid_api_key")
#: The client did not send its request in time.
TOO_SLOW = Refusal(408, "invalid_request_error", "The request did not arrive in time.", "request_timeout")
#: A bug of ours met the request.
BUG = Refusal(500, "server_error", "The gateway failed.", "internal_error")
#: Every engine that was tried failed.
ENGINE_FAILED = Refusal(502, "server_error", "The request could not be completed by any engine.", "engine_failed")
#: No engine answered in time.
ENGINE_TOO_SLOW = Refusal(504, "server_error", "No engine answered in time.", "engine_timeout")


def bad_request(error: InputError) -> Refusal:
    """The refusal (400) of an invalid request: the text of the error, with its field as `param`."""
    return Refusal(400, "invalid_request_error", str(error), param=error.field)


def compressed(coding: str) -> Refusal:
    """The refusal (415) of a body that cannot be read, and has this Content-Encoding (RFC 9110 section 15.5.16)."""
    message = f"The body has the Content-Encoding {short(coding)}; only uncompressed bodies are read."
    return Refusal(415, "invalid_request_error", message, "unsupported_encoding")


def unknown_model(name: str) -> Refusal:
    """The refusal (404) of a request for a model that no worker serves."""
    message = f"The model `{short(name)}` does not exist or you do not have access to it."
    return Refusal(404, "invalid_request_error", message, "model_not_found", "model")


def unknown_path(method: str, path: str) -> Refusal:
    """The refusal (404) of a request to an unknown endpoint."""
    return Refusal(404, "invalid_request_error", f"Unknown request URL: {method} {short(path)}.", "unknown_url")


def too_many(message: str, retry_after_s: float) -> Refusal:
    """The refusal (429) of a request beyond a tenant's limit; `message` is the text for the client."""
    return Refusal(429, "rate_limit_error", message, "rate_limit_exceeded", retry_after_s=retry_after_s)


def overloaded(retry_after_s: float) -> Refusal:
    """The refusal (503) of a request while the waiting pool is full, or no worker can take requests."""
    message = "The server is overloaded or not ready yet. Try again later."
    return Refusal(503, "service_unavailable_error", message, "overloaded", retry_after_s=retry_after_s)


def waited_too_long(waited_s: float, retry_after_s: float) -> Refusal:
    """The refusal (503) of a request that waited `waited_s` seconds in the pool, the longest time allowed."""
    message = f"The request waited {waited_s:.1f} s for a free slot; that is as long as it may. Try again later."
    return Refusal(503, "service_unavailable_error", message, "pool_timeout", retry_after_s=retry_after_s)


def no_other_engine(retry_after_s: float) -> Refusal:
    """The refusal (503) of a request that one engine failed, and for which no other became free in time."""
    message = "An engine failed the request, and no other was free in time. Try again later."
    return Refusal(503, "service_unavailable_error", message, "pool_timeout", retry_after_s=retry_after_s)


def lasted_too_long(limit_s: float) -> Refusal:
    """The refusal (504) of a request that took longer than `limit_s` seconds from its arrival on."""
    message = f"The request was not answered within {limit_s:g} s, which is as long as one may take."
    return Refusal(504, "server_error", message, "request_timeout")


def stream_broken(why: str) -> Refusal:
    """The error (502) of an answer that broke off after its first token; `why` is a clause on why it cannot continue."""
    return Refusal(502, "server_error", f"The answer broke off and cannot be continued: {why}.", "stream_broken")


class _Fault(msgspec.Struct):
    message: str = ""
    type: str | None = None
    param: str | None = None
    code: int | str | None = None


_NO_MODEL = re.compile(r"\bmodel\b.*\b(does not exist|not found|not served|unknown)\b", re.IGNORECASE | re.DOTALL)
#: A URL, an IPv4 or bracketed IPv6 address, or the name of a host with its port: a name has a dot or a
#: hyphen, and a port is 80, 443 or has four digits or more, so that other numbers stay.
_ADDRESS = re.compile(
    r"\bhttps?://\S+|\b\d{1,3}(?:\.\d{1,3}){3}\b(?::\d+)?|\[[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*\](?::\d+)?"
    r"|\blocalhost:\d+|\b[A-Za-z]\w*[.-][\w.-]*:(?:80|443|\d{4,5})\b"
)


def of_engine(body: bytes, status: int, retry_after_s: float = 0.0) -> Refusal:
    """Turn an engine's error into a refusal in OpenAI's form. Host names and addresses in its text become ``(address)``.

    Args:
        body: of the engine's answer, or the data of an error event.
        status: HTTP status of that answer. If it is outside 400 to 599, as inside a stream, the code in the error object is
            used if that is in the range, else 502.
        retry_after_s: the engine's Retry-After in seconds; 0 = no such header. A 503 without one gets 1 s.

    Returns:
        If the status blames the request (`blames_request`): that status with the engine's message, type, param, and code if
        text. For 503 `overloaded`; for any other status `ENGINE_FAILED` (502).
    """
    fault = _fault(body)
    if not 400 <= status < 600:
        status = fault.code if isinstance(fault.code, int) and 400 <= fault.code < 600 else 502
    if status == 503:
        return overloaded(retry_after_s or 1.0)
    if not blames_request(status):
        return ENGINE_FAILED
    message = _without_addresses(fault.message) or "The engine refused the request."
    code = _without_addresses(fault.code) if isinstance(fault.code, str) else None
    kind = _without_addresses(fault.type or "") or "invalid_request_error"
    param = None if fault.param is None else _without_addresses(fault.param)
    return Refusal(status, kind, message, code, param, retry_after_s)


def blames_request(status: int) -> bool:
    """True for an engine's status that is about the request: 400 to 499, and 501, for what its model cannot do."""
    return 400 <= status < 500 or status == HTTPStatus.NOT_IMPLEMENTED


def _without_addresses(text: str) -> str:
    """The text with each URL, IP address and host with a port (see `_ADDRESS`) replaced by ``(address)``."""
    return _ADDRESS.sub("(address)", text)


def denies_model(body: bytes, status: int) -> bool:
    """True if an engine answered 404 because it does not serve the model: by code, param or message of the error object."""
    if status != 404:
        return False
    fault = _fault(body)
    return fault.code == "model_not_found" or fault.param == "model" or bool(_NO_MODEL.search(fault.message))


def is_foreign(body: bytes, status: int) -> bool:
    """True if another server seems to answer at an engine's address: 404 or 405 without the message that engines give."""
    return status in (404, 405) and not _fault(body).message


def _fault(body: bytes) -> _Fault:
    """The error object in an engine's answer, nested, flat or FastAPI's ``detail``; an empty one if the body has none.

    A member of another type than in `_Fault` counts as absent.
    """
    try:
        told = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _Fault()
    if not isinstance(told, dict):
        return _Fault()
    error = told.get("error")
    fault = error if isinstance(error, dict) else told
    message, code = error if isinstance(error, str) and error else fault.get("message"), fault.get("code")
    return _Fault(
        _text(message) or _detail(told.get("detail")) or "",
        _text(fault.get("type")),
        _text(fault.get("param")),
        code if isinstance(code, int) else _text(code),
    )


def _text(value: Any) -> str | None:
    """A value that is text; None for any other."""
    return value if isinstance(value, str) else None


def _detail(detail: Any) -> str | None:
    """FastAPI's ``detail`` as text: a text, or a list of faults, each with its place (``loc``) and ``msg``; None if neither.

    Source: FastAPI's HTTPException and HTTPValidationError.
    """
    if not isinstance(detail, list):
        return _text(detail)
    said = list[str]()
    for one in detail:
        if isinstance(one, dict) and isinstance(one.get("msg"), str):
            place = ".".join(map(str, one["loc"])) if isinstance(one.get("loc"), list) else ""
            said.append(f"{place}: {one['msg']}" if place else one["msg"])
    return "; ".join(said)


def short(text: str) -> str:
    """A client's text for an answer or a log, cut to 120 characters."""
    return text if len(text) <= 120 else text[:117] + "..."
