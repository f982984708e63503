"""What a client's head says of a request, worked out once for all requests whose heads say the same."""

from __future__ import annotations

import re
from dataclasses import dataclass

from evenstep.engines.refusals import Refusal
from evenstep.engines.requests import Kind, kind_of
from evenstep.gateway.attached import carried
from evenstep.gateway.callers import (
    CLASS_HEADER,
    EXPECTED_HEADER,
    TASK_HEADER,
    Caller,
    Callers,
    class_of,
    expected_tokens,
)
from evenstep.gateway.head import RequestHead

_NAME = re.compile(r"[A-Za-z0-9._\-]{1,128}")


@dataclass(frozen=True, slots=True)
class Asking:
    """A head, and what follows from it under the config of the day.

    Args:
        head: as it was read; its `length` is of the request that was first to say so.
        name: the request's id as the client gave it, where that is plain text; empty = it gets a new one.
        kind: whether tokens are generated.
        caller: who asks; None where `refusal` says why it is turned away.
        refusal: of its key, its class or its guess; None = none.
        number: of its class.
        expected: output tokens it expects, 0 = unknown.
        carried: lines that go on to engines.
        carries_key: its credentials are among them.
        session: what names its session; empty = nothing in the head.
        task: what names its task.
        traceparent: W3C trace context; empty = none.
    """

    head: RequestHead
    name: str
    kind: Kind
    caller: Caller | None
    refusal: Refusal | None
    number: int
    expected: int
    carried: bytes
    carries_key: bool
    session: str
    task: str
    traceparent: str


def asking_of(head: RequestHead, callers: Callers, session_headers: tuple[str, ...]) -> Asking:
    """What a head asks for.

    Args:
        callers: everybody who may ask.
        session_headers: names of headers that name a session, the first that is there.
    """
    headers = head.headers
    found = callers.find(headers.get("authorization", "").encode("latin-1"))
    caller, refusal = (None, found) if isinstance(found, Refusal) else (found, None)
    number = expected = 0
    if caller is not None:
        number = class_of(caller, headers.get(CLASS_HEADER, ""))
        expected = expected_tokens(headers.get(EXPECTED_HEADER, ""))
        refusal = next((one for one in (number, expected) if isinstance(one, Refusal)), None)
    given = headers.get("x-request-id", "")
    carries_key = not callers.has_keys and "authorization" in headers
    return Asking(
        head=head,
        name=given if _NAME.fullmatch(given) else "",
        kind=kind_of(head.method, head.target),
        caller=caller,
        refusal=refusal,
        number=0 if isinstance(number, Refusal) else number,
        expected=0 if isinstance(expected, Refusal) else expected,
        carried=carried(headers, carries_key),
        carries_key=carries_key,
        session=next((headers[name] for name in session_headers if headers.get(name)), ""),
        task=headers.get(TASK_HEADER, ""),
        traceparent=headers.get("traceparent", ""),
    )
