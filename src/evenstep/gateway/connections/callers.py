"""Maps a client's key to its tenant and allowed classes, and reads the client's other headers."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from evenstep.engines.requests.refusals import UNAUTHORIZED, Refusal, bad_request
from evenstep.errors import InputError
from evenstep.gateway.config.config import GatewayConfig
from evenstep.gateway.config.secrets import digest_of

#: The tenant if no keys are configured.
ANONYMOUS = "anonymous"
CLASS_HEADER = "x-evenstep-class"
EXPECTED_HEADER = "x-evenstep-expected-tokens"
#: Groups the calls of one agent's task, as a session does.
TASK_HEADER = "x-evenstep-task"
#: The smallest goes first, where ``dispatch.order`` looks at priorities.
PRIORITY_HEADER = "x-evenstep-priority"
_MOST_EXPECTED = 1 << 31


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of a request."""

    tenant: str  # the tenant whose limits its requests count against
    classes: Mapping[str, int]  # names of the classes it may ask for -> their numbers, from 1
    default_class: int = 0  # number of the class for a request that names no class; 0 = no class


def renumbered(before: Iterable[str], after: Iterable[str]) -> tuple[int, ...]:
    """The number in a new config of each class of the config before, in order, by name; 0 = the new one lacks it.

    `before` and `after` are the names in the order of the configs. Empty if no class has another number.
    """
    numbers, now = _numbers(before), _numbers(after)
    found = tuple(now.get(name, 0) for name in numbers)
    return () if found == tuple(numbers.values()) else found


def _numbers(names: Iterable[str]) -> dict[str, int]:
    """Class -> its number, from 1."""
    return {name: number for number, name in enumerate(names, start=1)}


class Callers:
    """All callers that may send requests, by key, from the keys and classes of a checked config. Rebuilt at every reload.

    Without keys every client is the tenant `ANONYMOUS` and may ask for every class. Raises InputError for a key that is
    unreadable, invalid or given twice.
    """

    def __init__(self, config: GatewayConfig) -> None:
        numbers = self._numbers = _numbers(config.classes)
        self._anybody = Caller(ANONYMOUS, numbers)
        self._keys: dict[bytes, Caller] = {}  # by the key's hash
        for place, key in enumerate(config.keys):
            digest = digest_of(key.key, f"keys[{place}]", "key")
            if digest in self._keys:
                raise InputError(f"keys[{place}]", "key", f"(of {key.tenant})", "each key once")
            allowed = numbers if "*" in key.classes else {name: numbers[name] for name in key.classes}
            first = next((numbers[name] for name in key.classes[:1] if name != "*"), 0)
            self._keys[digest] = Caller(key.tenant, allowed, first)

    @property
    def has_keys(self) -> bool:
        """Whether callers need a key: the config has one."""
        return bool(self._keys)

    def number_of(self, caller: Caller, number: int) -> int:
        """The number here of a class that `caller`, perhaps of an earlier config, knows as `number`; 0 = there is none."""
        return next((self._numbers.get(name, 0) for name, known in caller.classes.items() if known == number), 0)

    def find(self, authorization: bytes) -> Caller | Refusal:
        """The caller of a request, or a refusal with status 401 if its key is missing or unknown.

        `authorization` is the header's value, ``Bearer KEY``; empty = no header. Without configured keys it is ignored. The
        key is hashed before any lookup, so the time taken reveals nothing about how close a wrong key is to a right one.
        """
        if not self._keys:
            return self._anybody
        scheme, _, key = authorization.partition(b" ")
        key = key.strip()
        if scheme.lower() != b"bearer" or not key:
            return UNAUTHORIZED
        return self._keys.get(hashlib.sha256(key).digest()) or UNAUTHORIZED


def origin_lines(headers: Mapping[str, str], allowed: frozenset[str]) -> bytes:
    """Lines of the answer's head for a page in a browser, each with its CRLF; empty if its origin is not in `allowed`.

    `allowed` are lower-case origins; ``*`` = every origin. The last lines answer a browser that asks what it may send.
    """
    origin = headers.get("origin", "")
    if not (origin and allowed and ("*" in allowed or origin.lower() in allowed)):
        return b""
    lines = [
        f"Access-Control-Allow-Origin: {'*' if '*' in allowed else origin}",
        "Access-Control-Expose-Headers: X-Request-Id, Retry-After",
        "Vary: Origin",
    ]
    if (method := headers.get("access-control-request-method", "")) != "":
        lines += [f"Access-Control-Allow-Methods: {method}", "Access-Control-Max-Age: 600"]
        lines += [f"Access-Control-Allow-Headers: {headers.get('access-control-request-headers', '')}"]
    return "".join(f"{line}\r\n" for line in lines).encode("latin-1")


def class_of(caller: Caller, name: str) -> int | Refusal:
    """The number of a request's class, 0 = no class; or a refusal with status 403 if the caller may not ask for it.

    `name` is the class that the request's header names; empty = no header, which gives the caller's default.
    """
    if not name:
        return caller.default_class
    number = caller.classes.get(name)
    if number is None:
        its = ", ".join(sorted(caller.classes)) or "none"
        message = f"The header {CLASS_HEADER} asks for a class that this key may not ask for; its classes: {its}."
        return Refusal(403, "invalid_request_error", message, "class_not_allowed", CLASS_HEADER)
    return number


def expected_tokens(value: str) -> int | Refusal:
    """The output tokens that a client expects, from its header's value; 0 if that is empty.

    Returns a refusal with status 400 unless the value is a whole number from 1 to 2^31 - 1.
    """
    if not value:
        return 0
    number = int(value) if value.isascii() and value.isdecimal() and len(value) < 11 else 0
    if not 0 < number < _MOST_EXPECTED:
        return _bad_header(EXPECTED_HEADER, value, f"an integer from 1 to {_MOST_EXPECTED - 1}")
    return number


def priority(value: str) -> float | Refusal:
    """The priority that a client states in its header's value, a number of any sign; 0 if that is empty.

    The smallest goes first, where ``dispatch.order`` looks at priorities. Returns a refusal with status 400 unless the value
    is a finite number.
    """
    try:
        number = float(value or 0)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        return _bad_header(PRIORITY_HEADER, value, "a finite number")
    return number


def _bad_header(name: str, value: str, expected: str) -> Refusal:
    return replace(bad_request(InputError("request", name, value, expected)), code="bad_header")
