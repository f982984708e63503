"""Calls to engines for one request: the stream, the whole answer, the prefill leg.

A leg reads what its connection hands it, judges it, and tells its exchange one thing in the end: complete, lost and why, or
refused. What reaches the client and when is the exchange's business.
"""

from __future__ import annotations

import time
from typing import Protocol

from evenstep.dispatch.events import Kind
from evenstep.engines.requests.parsing import GenerationRequest
from evenstep.engines.requests.refusals import MOST_REFUSAL, Refusal, denies_model, of_engine
from evenstep.engines.streams.answers import Answer, Prefilled, read_answer, read_prefilled
from evenstep.engines.streams.reply import ReplyStream
from evenstep.errors import EngineError
from evenstep.gateway.connections.client import Client
from evenstep.gateway.connections.engine import EngineConnection, cancel
from evenstep.gateway.connections.request_context import RequestContext
from evenstep.gateway.serve.backend import Backend
from evenstep.http.head import ResponseHead

_MOST_ANSWER = 64 * 1024 * 1024
#: Statuses below 500 that are about the engine's state, not about the request.
_NOT_THE_CLIENTS = {408, 421, 425, 429}
_ABOUT_KEYS = {401, 403}


class Counter(Protocol):
    """The served model, as a leg sees it; `ServedModel` says what each member means."""

    def produced(self, row: int, tokens: int, now_s: float) -> None: ...

    def denied(self, backend: Backend, model: str) -> None: ...


class Owner(Protocol):
    """The exchange, as its legs see it; `Exchange` says what each member means."""

    refusal: Refusal | None
    held: bytes
    why: str

    @property
    def context(self) -> RequestContext: ...

    @property
    def client(self) -> Client: ...

    @property
    def model(self) -> Counter: ...

    @property
    def request(self) -> GenerationRequest: ...

    @property
    def has_started(self) -> bool: ...

    @property
    def is_counted(self) -> bool: ...

    def start(self, out: bytes) -> None: ...

    def prefilled(self, leg: Prefill, found: Prefilled) -> None: ...

    def answered(self, leg: Whole, answer: Answer, body: bytes) -> None: ...

    def completed(self, leg: Stream, out: bytes, news: int, now_s: float) -> None: ...

    def lost(self, leg: Collecting, kind: Kind, why: str, retry_after_s: float) -> None: ...

    def count_prompt(self, row: int, tokens: int) -> None: ...


class Collecting:
    """One call to an engine, a `Leg`: gathers the answer, judges it, and tells the exchange how it ended.

    Args:
        exchange: the request that it is part of.
        number: the dispatcher's number of the leg.
        backend: the worker.

    Attributes:
        kind: the content type that its answer must have.
        is_denied: the engine says that it does not serve the model.
    """

    kind = "application/json"
    connection: EngineConnection | None = None
    is_off = is_head = is_denied = False
    _answer: ResponseHead | None = None
    _refused = False
    _size = 0

    def __init__(self, exchange: Owner, number: int, backend: Backend) -> None:
        self.exchange, self.number, self.backend = exchange, number, backend
        self._pieces: list[bytes] = []

    def head(self, head: ResponseHead, length: int) -> None:
        self._answer = head
        if head.status != 200:
            self._refused = True
        elif head.kind != self.kind or not head.is_plain:
            self._lose("status", "its answer has another content type than was asked for")

    @property
    def status(self) -> int:
        """The HTTP status of its answer if it is not 200; 0 if it is 200 or has not come."""
        return self._answer.status if self._refused and self._answer is not None else 0

    def at_once(self, head: ResponseHead, body: bytes) -> None:
        """Handle an answer that arrived whole, of any status; see `Leg.at_once`."""
        if head.status == 200 and head.kind == self.kind and head.is_plain and len(body) <= _MOST_ANSWER:
            self.whole(body)
            return
        self.head(head, len(body))
        if not self.is_off:
            self.body(body)
        if not self.is_off:
            self.ended()

    def chunks(self, data: bytes) -> bytes:
        return data

    def body(self, data: bytes) -> None:
        self._size += len(data)
        if self._size > (MOST_REFUSAL if self._refused else _MOST_ANSWER):
            if self._refused:
                self._judge()
            else:
                self._lose("stream", "its answer is too large")
            return
        self._pieces.append(data)

    def ended(self) -> None:
        if self._refused:
            self._judge()
        else:
            pieces = self._pieces
            self.whole(pieces[0] if len(pieces) == 1 else b"".join(pieces))

    def broke(self, kind: Kind, why: str) -> None:
        self._lose("status" if self._refused else kind, why)

    def whole(self, body: bytes) -> None:
        """Take the whole body of an answer with status 200 and the content type `kind`; implemented by subclasses."""
        raise NotImplementedError

    def _judge(self) -> None:
        """End a leg whose engine answered with another status than 200; decide whether the client is at fault."""
        head = self._answer
        assert head is not None
        status, exchange = head.status, self.exchange
        is_clients = 400 <= status < 500 and status not in _NOT_THE_CLIENTS
        if status in _ABOUT_KEYS:
            is_clients = exchange.context.carries_key and not self.backend.has_key
        said = b"".join(self._pieces)
        exchange.refusal = of_engine(said, status, head.retry_after_s)
        if denies_model(said, status):  # it gets only models it is configured to serve
            is_clients, self.is_denied = False, True
        self._lose("client" if is_clients else "status", f"it answered {status}", head.retry_after_s)
        if self.is_denied:
            exchange.model.denied(self.backend, exchange.request.model)

    def _lose(self, kind: Kind, why: str, retry_after_s: float = 0.0) -> None:
        cancel(self)
        self.exchange.lost(self, kind, why, retry_after_s)


class Prefill(Collecting):
    """The call to a prefiller; ends in `Exchange.prefilled` or `Exchange.lost`."""

    def whole(self, body: bytes) -> None:
        try:
            found = read_prefilled(body)
        except EngineError as error:
            self._lose("status", str(error))
            return
        self.exchange.prefilled(self, found)


class Whole(Collecting):
    """A call whose answer does not stream; ends in `Exchange.answered` or `Exchange.lost`.

    Args:
        row: the request's row, as `Dispatcher.produced` takes it.
    """

    def __init__(self, exchange: Owner, number: int, backend: Backend, row: int) -> None:
        self.exchange, self.number, self.backend, self.row = exchange, number, backend, row
        self._pieces = []

    def whole(self, body: bytes) -> None:
        try:
            hands_back = not self.exchange.request.stops_at_recomputed
            answer = read_answer(body, self.backend.dialect.finish_reasons, hands_back)
        except EngineError as error:
            self._lose("stream", str(error))
            return
        if answer.recomputed:
            self._lose("recomputed", "it hands the request back")
        else:
            self.exchange.answered(self, answer, body)


class Stream(Collecting):
    """A call whose answer streams in chunks; ends in `Exchange.completed` or `Exchange.lost`.

    Args:
        row: the request's row, as `Dispatcher.produced` takes it.
        reply: counts the tokens of the stream, and makes the client's bytes of it.
    """

    kind = "text/event-stream"
    at_once = None  # type: ignore[assignment]  # it goes out piece by piece

    def __init__(self, exchange: Owner, number: int, backend: Backend, row: int, reply: ReplyStream) -> None:
        self.exchange, self.number, self.backend, self.row, self.reply = exchange, number, backend, row, reply
        self._pieces = []
        self.counted = reply.produced  # tokens reported to the dispatcher
        self._seen = reply.produced  # tokens at the last check
        self.silence_s = backend.endpoint.settings.silence_s

    def chunks(self, data: bytes) -> bytes:
        exchange, reply = self.exchange, self.reply
        if not exchange.has_started:
            return data
        client = exchange.client
        at, out = reply.feed_chunks(data, client.is_framed)
        if not at:
            return data
        now_s = time.monotonic()
        self.connection.deadline.at = now_s + self.silence_s  # type: ignore[union-attr]  # it calls us
        client.forward(out)
        if client.paused:
            self.connection.pause()  # type: ignore[union-attr]
        produced = self._seen = reply.produced
        news, self.counted = produced - self.counted, produced
        if news > 0:
            exchange.model.produced(self.row, news, now_s)
        return data[at:]

    def body(self, data: bytes) -> None:
        if self._refused:
            super().body(data)
            return
        reply, exchange = self.reply, self.exchange
        out = reply.feed(data)
        now_s = time.monotonic()
        if reply.done:
            self._complete(out, now_s)
            return
        produced = reply.produced
        has_grown, self._seen = produced > self._seen, produced
        if exchange.has_started:
            if has_grown:  # comments and empty chunks are silence
                self.connection.deadline.set(now_s + self.silence_s)  # type: ignore[union-attr]  # it calls us
            if out:
                exchange.client.send(out)
                if exchange.client.paused:
                    self.connection.pause()  # type: ignore[union-attr]
        elif has_grown:
            self.connection.deadline.set(now_s + self.silence_s)  # type: ignore[union-attr]
            exchange.start(out)
            self.connection.acknowledge_late()  # type: ignore[union-attr]
        elif out:
            exchange.held += out
        news = produced - self.counted
        if news > 0:
            self.counted = produced
            exchange.model.produced(self.row, news, now_s)
            if not exchange.is_counted:
                exchange.count_prompt(self.row, reply.prompt_tokens)
        if reply.recomputed:
            self._lose("recomputed", "it hands the request back")
        elif reply.failure is not None:
            self._fail("stream", str(reply.failure))

    def ended(self) -> None:
        if self._refused:
            self._judge()
        else:
            self._end("stream", "its stream ended before the answer was complete")

    def broke(self, kind: Kind, why: str) -> None:
        if self._refused:
            self._lose("status", why)
        else:
            self._end(kind, why)

    def _end(self, kind: Kind, why: str) -> None:
        """The answer has ended; it may still be complete."""
        out, now_s = self.reply.end(), time.monotonic()
        if self.reply.done:
            self._complete(out, now_s)
            return
        if out and self.exchange.has_started:
            self.exchange.client.send(out)
        self._fail(kind, why)

    def _fail(self, kind: Kind, why: str) -> None:
        """The stream cannot continue; the engine's error decides what follows."""
        exchange, reply = self.exchange, self.reply
        if reply.error_body:
            exchange.refusal = of_engine(reply.error_body, 200)
        if reply.starts_anew:
            exchange.why = "the engine asked for the rest answers from the start"
            if reply.restarts:
                self.backend.cannot_continue(exchange.request.chat)
            kind = "status"
        self._lose(kind, why)

    def _complete(self, out: bytes, now_s: float) -> None:
        if self.connection is not None:
            self.connection.let_go()
        reply = self.reply
        self.backend.fingerprint = reply.fingerprint
        self.exchange.completed(self, out, reply.produced - self.counted, now_s)
