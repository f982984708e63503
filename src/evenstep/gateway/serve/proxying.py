"""Forwards requests other than generations, healthy workers with few requests first. No dispatcher counts them.

Until the first byte of an answer reaches the client, a failed engine is replaced by another. So is one that lacks the model,
or whose model cannot do what is asked (501). Each is tried once; the last is tried again, on a new connection, if its reused
one was stale. Errors of an engine are converted to OpenAI's form. A redirect is a failure. If none is left, the client gets
the last 501 or 503, also one of our own for lack of open files; else 502.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from http import HTTPStatus

from evenstep.dispatch.events import Kind
from evenstep.engines.requests import refusals
from evenstep.engines.requests.refusals import MOST_REFUSAL, Refusal, blames_request, denies_model, is_foreign, of_engine
from evenstep.gateway.connections.client import Client, Received
from evenstep.gateway.connections.engine import EngineConnection, cancel
from evenstep.gateway.connections.request_context import carried
from evenstep.gateway.serve.backend import Backend
from evenstep.gateway.serve.ended import Ended, Outcome
from evenstep.http.head import ResponseHead

#: Client fields that describe its body and the answer it accepts.
_REQUEST_FIELDS = ("content-type", "content-encoding", "accept", "range")
_ANSWER_FIELDS = ("content-disposition", "content-encoding", "content-range", "cache-control", "etag", "last-modified")
_EVENTS = "text/event-stream"
_TELLING = (HTTPStatus.NOT_IMPLEMENTED, HTTPStatus.SERVICE_UNAVAILABLE)
_MOST_HELD = 1 << 20  # bytes of an answer of known length that is passed on only when it is whole
_CUT = refusals.stream_broken("no other engine has its beginning")


class ProxiedRequest:
    """One request that is forwarded without the dispatcher. Make it the client's job, and call `send`.

    Args:
        engines: candidates, best first.
        over: called with this request when it has ended.
        story: notes for the sinks; None if there are no sinks.
    """

    at_once = None

    def __init__(
        self,
        client: Client,
        request: Received,
        engines: Sequence[Backend],
        over: Callable[[ProxiedRequest], None],
        story: Ended | None = None,
    ) -> None:
        self.client, self._request, self._over, self._story = client, request, over, story
        self.connection: EngineConnection | None = None
        self.is_off = False
        self.is_head = request.context.head.method == "HEAD"
        self._left = list(engines)
        self._refusal = refusals.ENGINE_FAILED  # for a client whose request no engine is left for
        self._backend: Backend | None = None
        self._more = carried(request.context.head.headers, _REQUEST_FIELDS)
        self._answer: ResponseHead | None = None
        self._refused, self._started, self._is_repeated, self._is_held = False, False, False, False
        self._pieces: list[bytes] = []
        self._size = self._length = 0  # bytes of the body so far, and in all by its head (below 0 = not stated)

    def send(self) -> None:
        """Send the request to the best candidate that is left; without one, refuse it."""
        if not self._left:
            self.client.refuse(self._refusal)
            self._end("error", self._refusal.status)
            return
        backend = self._left.pop(0)
        backend.passing += 1
        self._backend, self._answer, self._refused, self._is_held = backend, None, False, False
        self._pieces.clear()
        self._size = 0
        if self._story is not None:
            self._story.sent(backend.name)
        head, body = self._request.context.head, self._request.body
        credentials = self._request.context.credentials
        data = backend.head(head.method, head.target, self._request.name, len(body), self._more, credentials), body
        send = backend.endpoint.send_fresh if self._is_repeated else backend.endpoint.send
        send(self, data, backend.endpoint.settings.answer_s)

    # --- called by the engine's connection -----------------------------------------------------------------------

    def head(self, head: ResponseHead, length: int) -> None:
        self._answer = head
        self._refused = head.status >= 300
        self._length, self._is_held = length, 0 <= length <= _MOST_HELD
        if self.is_head:  # no body follows; a GET would have this many bytes
            self._length = int(head.headers.get("content-length", -1))

    def _start(self) -> None:
        """Begin the client's answer with the head of this engine's answer; no other engine is tried from now on."""
        head = self._answer
        assert head is not None
        self._started = True
        if self._story is not None:
            self._story.started()
        kind = head.headers.get("content-type", "application/octet-stream").encode("latin-1")
        lines = [f"{name}: {head.headers[name]}\r\n" for name in _ANSWER_FIELDS if name in head.headers]
        self.client.start(head.status, kind, "".join(lines).encode("latin-1"), max(-1, self._length))

    def chunks(self, data: bytes) -> bytes:
        return data

    def body(self, data: bytes) -> None:
        if self._refused:
            self._size += len(data)
            if self._size > MOST_REFUSAL:
                cancel(self)
                self.ended()
            else:
                self._pieces.append(data)
            return
        if self._is_held:
            self._pieces.append(data)
            return
        assert self.connection is not None and self._backend is not None
        self.connection.deadline.set(time.monotonic() + self._backend.endpoint.settings.silence_s)
        if not self._started:
            self._start()
        self.client.send(data)
        if self.client.paused:
            self.connection.pause()

    def ended(self) -> None:
        head, backend = self._answer, self._backend
        assert head is not None and backend is not None
        said, status = b"".join(self._pieces), head.status
        if status in _TELLING:
            self._refusal = of_engine(said, status, head.retry_after_s)
        is_engines = self._refused and not blames_request(status)
        if is_engines or backend.refuses_our_key(status, self._request.context.credentials):
            self._again()
            return
        if self._refused:
            is_others = is_foreign(said, status) and not self.is_head  # no answer to HEAD has a message
            if self._left and (status == HTTPStatus.NOT_IMPLEMENTED or denies_model(said, status) or is_others):
                self._again()
                return
            self.client.refuse(of_engine(said, status, head.retry_after_s))
        else:
            if not self._started:
                self._start()
            self.client.send(said, last=True)
        self._end("error" if self._refused else "complete", status)

    def broke(self, kind: Kind, why: str) -> None:
        if self._started:  # bytes sent cannot be taken back
            self._break_off(_CUT)
            return
        if kind == "unable":
            self._refusal = refusals.overloaded(1.0)
        if kind == "stale" and not self._left and not self._is_repeated and self._backend is not None:
            self._left.append(self._backend)  # no other engine is left, and it may not have seen the request
            self._is_repeated = True
        self._again()

    # --- called for the client ------------------------------------------------------------------------------------

    def client_gone(self) -> None:
        """The client left: close the call to the engine, and end the request."""
        cancel(self)
        self._end("cancelled", self._answer.status if self._answer is not None and self._started else 0)

    def failed(self) -> None:
        """A bug of ours met it: close the call to the engine, and end the request as an error; the connection answers."""
        cancel(self)
        self._end("error", self._answer.status if self._answer is not None and self._started else 500)

    def give_up(self) -> None:
        """The gateway stops: break off an answer that has begun; else refuse the request with status 503."""
        cancel(self)
        if self._started:
            self._break_off(refusals.stream_broken("the gateway is being stopped"))
        else:
            refusal = refusals.overloaded(1.0)
            self._end("error", refusal.status)
            self.client.refuse(refusal)

    def client_resumed(self) -> None:
        """Read from the engine again, because the client has read what was buffered."""
        if self.connection is not None and self._backend is not None:
            self.connection.resume(time.monotonic() + self._backend.endpoint.settings.silence_s)

    def _break_off(self, refusal: Refusal) -> None:
        """End an incomplete answer: by an error event in a chunked event stream, else by closing the client's connection."""
        answer = self._answer
        assert answer is not None
        self._end("error", answer.status)
        if answer.kind == _EVENTS and self.client.is_framed:
            self.client.send(b"\n\n" + refusal.event(), last=True)
        else:  # the HTTP framing shows that the answer is not whole
            self.client.abort()

    def _again(self) -> None:
        """Leave this engine, and try the next one."""
        self._leave()
        self.send()

    def _leave(self) -> None:
        """Stop counting the request at its present worker."""
        if self._backend is not None:
            self._backend.passing -= 1
            self._backend = None

    def _end(self, outcome: Outcome, status: int) -> None:
        """Report that the request has ended, to `over` and to the sinks."""
        self._leave()
        self._over(self)
        story, self._story = self._story, None
        if story is not None:
            story.ended(outcome, status)
