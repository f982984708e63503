"""Derives from a client's head what it says about the request, and caches that by the head."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import msgspec

from evenstep.engines.requests.parsing import Kind, kind_of
from evenstep.engines.requests.refusals import Refusal
from evenstep.gateway.connections import callers as calling
from evenstep.gateway.connections.callers import Caller, Callers
from evenstep.http.head import RequestHead
from evenstep.http.heads import Heads

_TRACE = re.compile(r"[\x20-\x7e]{1,512}")
_NAME = re.compile(r"[A-Za-z0-9._\-]{1,128}")


class RequestContext(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A parsed head, and what follows from it under the current config."""

    head: RequestHead  # as read; its `length` belongs to the first request with this head
    name: str  # the request's id from X-Request-Id, if it is up to 128 of A-Z a-z 0-9 . _ -; empty = it gets a new one
    kind: Kind  # ``chat`` or ``completions``, which generate tokens; ``other`` = it does not
    caller: Caller | None  # the client; None if its key is missing or wrong
    refusal: Refusal | None  # for an invalid key, class, expected tokens or priority; None = not refused
    number: int  # number of its class, from 1; 0 = no class
    expected: int  # output tokens the client expects; 0 = unknown
    priority: float  # the smallest goes first, where ``dispatch.order`` looks at priorities; 0 if not stated
    carried: bytes  # header lines that are forwarded to engines, each with its CRLF
    #: the client's Authorization line, with its CRLF, for engines to which the gateway has no key; empty if it sent none,
    #: None if the gateway has keys for clients
    credentials: bytes | None
    session: str  # the text that names its session; empty = the head has none
    task: str  # the text that names its task; empty = the head has no task
    traceparent: str  # W3C trace context; empty = the head has no such header
    for_page: bytes  # header lines of the answer that let a page of an allowed origin read it (`callers.origin_lines`)

    @property
    def asks_what_is_allowed(self) -> bool:
        """Whether a browser asks what an allowed page may send, before it sends it (OPTIONS); no key comes with that."""
        headers = self.head.headers
        return self.head.method == "OPTIONS" and self.for_page != b"" and "access-control-request-method" in headers

    @property
    def wants_body(self) -> bool:
        """False if the key is missing or wrong: such a request is refused, or a health check, so its body is not needed."""
        return self.caller is not None


_TRACED = b"raceparent: "
_TRACEPARENT = re.compile(rb"\r\n(?i:traceparent): ([0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2})(?=\r\n)")


def cached(
    make: Callable[[bytes], tuple[RequestContext, int, bool]], session_headers: tuple[str, ...] = ()
) -> Callable[[bytes], tuple[RequestContext, int]]:
    """A function that parses and caches heads, and returns the context of a head and the length of its body.

    The length is bytes or `CHUNKED`. Heads of generations that differ only in length or ``traceparent`` share one entry.
    So the context may be that of an earlier equal head: its ``head.length`` is not this request's. `make` parses a head; it
    returns context, body length, and whether to cache both. Both functions may raise HttpError.
    """
    known = Heads(make).read
    if "traceparent" in session_headers:
        return known

    def read(head: bytes) -> tuple[RequestContext, int]:
        found = _TRACEPARENT.match(head, max(0, head.find(_TRACED) - 3))
        if found is None:
            return known(head)
        begin, end = found.span(1)
        context, length = known(head[:begin] + head[end:])
        if context.kind == "other" or context.traceparent:  # not a generation, or a second traceparent
            return known(head)
        traced = b"traceparent: %b\r\n%b" % (head[begin:end], context.carried)
        return msgspec.structs.replace(context, traceparent=found[1].decode("ascii"), carried=traced), length

    return read


def context_of(
    head: RequestHead, callers: Callers, session_headers: tuple[str, ...], origins: frozenset[str] = frozenset()
) -> RequestContext:
    """The context of a request, from its head. It never raises: an error is in the context's `refusal`.

    `callers` finds the client by its key. `session_headers` are lower-case names of headers that name a session; the first
    with a value counts. `origins` are lower-case origins of pages that may ask; ``*`` = all.
    """
    headers = head.headers
    found = callers.find(headers.get("authorization", "").encode("latin-1"))
    caller, refusal = (None, found) if isinstance(found, Refusal) else (found, None)
    number, expected, first = 0, 0, 0.0
    if caller is not None:
        number = calling.class_of(caller, headers.get(calling.CLASS_HEADER, ""))
        expected = calling.expected_tokens(headers.get(calling.EXPECTED_HEADER, ""))
        first = calling.priority(headers.get(calling.PRIORITY_HEADER, ""))
        refusal = next((one for one in (number, expected, first) if isinstance(one, Refusal)), None)
    given = headers.get("x-request-id", "")
    key = headers.get("authorization")
    credentials = f"authorization: {key}\r\n".encode("latin-1") if key else b""
    return RequestContext(
        head=head,
        name=given if _NAME.fullmatch(given) else "",
        kind=kind_of(head.method, head.target),
        caller=caller,
        refusal=refusal,
        number=0 if isinstance(number, Refusal) else number,
        expected=0 if isinstance(expected, Refusal) else expected,
        priority=0.0 if isinstance(first, Refusal) else first,
        carried=carried(headers),
        credentials=None if callers.has_keys else credentials,
        session=next((headers[name] for name in session_headers if headers.get(name)), ""),
        task=headers.get(calling.TASK_HEADER, ""),
        traceparent=headers.get("traceparent", ""),
        for_page=calling.origin_lines(headers, origins),
    )


def carried(headers: Mapping[str, str], others: tuple[str, ...] = ()) -> bytes:
    """The lines of a client's head that are forwarded to the engine, each with its CRLF; empty = no such line.

    These are ``traceparent``, ``tracestate`` and the headers named in `others`. Names are in lower case. A value that is
    empty, over 512 characters long, or has control or non-ASCII characters is left out.
    """
    wanted = (*(("traceparent", "tracestate") if "traceparent" in headers else ()), *others)
    lines = [f"{name}: {headers[name]}\r\n" for name in wanted if name in headers and _TRACE.fullmatch(headers[name])]
    return "".join(lines).encode("latin-1")
