"""One generation request, from its arrival to the last byte of its answer, and its calls to engines.

Rules of this file. A leg is one call to an engine. It reads what its connection gives it, judges it, and reports one result
to its exchange at the end: complete, lost and why, or refused. The exchange decides what reaches the client and when. Until
the first token the client gets nothing: head, role chunk and comments are held back, so that another engine can still
answer. From then on events are sent as they come. The exchange carries out the dispatcher's commands about one request,
and reports the result to it once.
"""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import Literal

from evenstep.dispatch import events as ev
from evenstep.dispatch.commands import Broken, Continue, Fail, Reject, SendDecode, SendPrefill
from evenstep.dispatch.events import Kind
from evenstep.engines.requests import bodies, refusals
from evenstep.engines.requests.continuation import can_break, continuation
from evenstep.engines.requests.parsing import GenerationRequest
from evenstep.engines.requests.refusals import MOST_REFUSAL, Refusal, blames_request, denies_model, is_foreign, of_engine
from evenstep.engines.streams.answers import Answer, read_answer, read_prefilled
from evenstep.engines.streams.closing import closing
from evenstep.engines.streams.reply import ReplyStream
from evenstep.engines.streams.usage import SoFar
from evenstep.engines.view import UsageOptions
from evenstep.errors import EngineError
from evenstep.gateway.connections.client import Client
from evenstep.gateway.connections.engine import EngineConnection, cancel
from evenstep.gateway.connections.request_context import RequestContext
from evenstep.gateway.serve.backend import Backend
from evenstep.gateway.serve.ended import Ended, Outcome
from evenstep.gateway.serve.served import ServedModel
from evenstep.http.head import ResponseHead

_log = logging.getLogger("evenstep.gateway")
_EVENTS = b"text/event-stream; charset=utf-8"
_NO_CACHE = b"Cache-Control: no-cache\r\nX-Accel-Buffering: no\r\n"
_OK, _TOO_MANY, _BUG = 200, 429, 500  # 500: of ours, or of an engine
_FAULTS = {"client", "failed", "expired", "overdue", "no-worker"}
_EVENT_BYTES = 1 << 20
#: Bytes of an event for each byte of the prompt that it repeats: as token ids, or as tokens with log probabilities.
_BYTES_PER_ID, _BYTES_PER_ECHO = 8, 256
_MOST_ANSWER = 64 * 1024 * 1024
#: From this age of a hand-over on, its lease may have ended (vLLM's `kv_lease_duration` is 30 s).
_LEASE_S = 20.0
#: Statuses below 500 that are about the engine's state, not about the request.
_NOT_THE_CLIENTS = {408, 421, 425, 429}
_WHY: dict[Broken, str] = {
    "failed": "no engine could go on with it",
    "expired": "no engine was free in time",
    "overdue": "it lasted as long as a request may",
    "cannot-continue": "this kind of request cannot be continued on another engine",
}


class Exchange:
    """One generation: a client's request, its legs to engines, and the answer.

    Register it with `ServedModel.number`. The methods up to `fail` carry out the dispatcher's commands; its legs call those
    up to `count_prompt`. Its `name` is an id that is shown to client and engines.

    Attributes:
        number: the dispatcher's number of the request; 0 = not registered yet.
        can_continue: the request allows its stream to continue elsewhere after the first token.
        has_started: the client has the head of a stream.
        size: size of its prompt, in tokens where the model has a tokenizer, else in bytes; 0 = the request gives its tokens.
        is_counted: an engine has reported the prompt's true length.
        story: notes for the sinks; None if there are no sinks.
    """

    number = size = 0
    has_started = is_counted = False
    story: Ended | None = None
    _leg: Collecting | None = None
    _before: SoFar | None = None
    _handover = _body = b""
    _rest = b""  # of a closed leg: the last events of an answer whose every choice had ended
    _usage_options = UsageOptions()
    _handed_s = 0.0  # when the hand-over came
    _is_late = False  # the present leg has a hand-over that is `_LEASE_S` old
    _lost_as: Kind | None = None  # why the last leg that failed did so
    _refusal: Refusal | None = None  # the last one that a failed leg had for the client
    _why_not = ""  # of the last leg that failed or was closed (`Collecting.why_not`)

    def __init__(
        self, model: ServedModel, client: Client, request: GenerationRequest, name: str, context: RequestContext
    ) -> None:
        self.model, self.client, self.request, self.name, self.context = model, client, request, name, context
        self.can_continue = request.stream and can_break(request)
        self._since_s = model.now_s()  # time since which it waits, while no leg runs
        self._failures = set[str]()  # of the legs that failed (`Collecting.failure`)

    # --- called by the dispatcher --------------------------------------------------------------------------------

    def prefill(self, command: SendPrefill, backend: Backend) -> None:
        """Send the prefill leg; unless aborted, it ends in `prefilled` or `lost` at most ``Engines.answer_s`` after that."""
        self._handover = b""
        self._begin_call(backend)
        leg = self._leg = Prefill(self, command.leg, backend)
        self._send(leg, backend, bodies.prefill_leg(self._body), backend.endpoint.settings.answer_s)

    def decode(self, command: SendDecode, backend: Backend) -> None:
        """Send the request to a decoding worker; after a prefill leg, with its hand-over (``kv_transfer_params``)."""
        self._begin_call(backend)
        self._is_late = bool(self._handover) and self.model.now_s() - self._handed_s >= _LEASE_S
        self._before = None
        body = bodies.decode_leg(self._body, self._handover) if self._handover else self._body
        settings = backend.endpoint.settings
        if self.request.stream:
            leg = self._leg = Stream(self, command.leg, backend, command.row, self._reply(backend, None))
            self._send(leg, backend, body, settings.first_byte_s)
        else:
            leg = self._leg = Whole(self, command.leg, backend, command.row)
            self._send(leg, backend, body, settings.answer_s)

    def resume(self, command: Continue, backend: Backend) -> None:
        """Continue the answer on another engine, after the text that the client already has.

        If it cannot be continued there, the leg is `lost` without being sent. If the client already has every token it asked
        for, or the end of every choice, its stream ends as complete.
        """
        if self._rest:
            self._end_early(self._rest, command.leg)
            return
        before = self._before
        assert before is not None
        self._begin_call(backend)
        found = continuation(self.request, self._body, before, backend.continuing)
        if found.spent and self.has_started:
            self._end_spent(before, command.leg)
            return
        reply = self._reply(backend, before, found.ids)
        leg = self._leg = Stream(self, command.leg, backend, command.row, reply)
        leg.counted, leg.why_not = max(leg.counted, command.produced), found.why_not
        if not found.body:
            self.lost(leg, "unable" if found.is_engines else "client", found.why_not, 0.0)
            return
        self._send(leg, backend, found.body, backend.endpoint.settings.first_byte_s)

    def abort(self, number: int) -> None:
        """Close the leg with this number, if it has not ended, and drop the prefiller's hand-over.

        Keeps its tokens for `resume`, if `can_continue`, and the last events of an answer whose every choice has ended.
        """
        self._handover = b""
        leg = self._leg
        if leg is not None and leg.number == number:
            cancel(leg)
            self._take_off(leg)
            if isinstance(leg, Stream) and leg.reply.finished and self.has_started:
                self._rest = leg.reply.end()

    def release(self) -> None:
        """Drop the prefiller's hand-over: no later decode leg fetches its KV cache, whose lease expires by itself."""
        self._handover = b""

    def reject(self, command: Reject) -> int:
        """Refuse the request with the status that the reason calls for, and return that status. It has ended then."""
        refusal = self._worded(command)
        self.client.refuse(refusal)
        self._over("error" if command.reason in _FAULTS else "refused", refusal.status)
        return refusal.status

    def fail(self, command: Fail) -> bool:
        """Tell the client, by a last event in its stream, that the answer cannot continue.

        An answer whose every choice had ended is completed; then True is returned.
        """
        if self._rest:
            self.client.send(self._rest, last=True)
            self._over("complete", _OK)
            return True
        self.client.send(refusals.stream_broken(self._why_not or _WHY[command.reason]).event(), last=True)
        self._over("error", _OK)
        return False

    # --- called by legs ------------------------------------------------------------------------------------------

    def start(self, out: bytes) -> None:
        """Send the client the head of the stream, and `out`, which has the first token."""
        self._begin_answer()
        if out:
            self.client.send(out)

    def _begin_answer(self) -> None:
        """Begin the client's answer as a stream of events, and note it for the sinks."""
        self.has_started = True
        if self.story is not None:
            self.story.started()
        self.client.start(_OK, _EVENTS, _NO_CACHE)

    def prefilled(self, leg: Prefill, prompt_tokens: int, handover: bytes) -> None:
        """Handle the answer of the prefill leg: keep its hand-over for `decode`, and tell the dispatcher."""
        self._leg, self._handover, self._since_s = None, handover, self.model.now_s()
        self._handed_s = self._since_s
        self._counted_now(prompt_tokens)
        tokens = max(0, prompt_tokens)
        self.model.tell(ev.PrefillDone(now_s=self._since_s, request=self.number, leg=leg.number, prompt_tokens=tokens))

    def answered(self, leg: Whole, answer: Answer, body: bytes) -> None:
        """Send the client a whole answer, which does not stream, and tell the dispatcher that the request is complete.

        `answer` was parsed from `body`, the engine's bytes.
        """
        self._leg = None
        leg.backend.answers.add(self.request.chat)
        self.client.reply(200, body)
        produced = answer.produced if answer.produced > 0 else 0
        self.model.finished(self, leg.number, self._counted_now(answer.prompt_tokens), produced)
        if self.story is not None:
            self.story.started()
            self.story.output_tokens = produced
            self._over("complete", _OK)

    def completed(self, leg: Stream, out: bytes, news: int, now_s: float) -> None:
        """Send the end of a complete stream, and tell the dispatcher that the request is complete.

        Args:
            out: the last bytes for the client; all bytes if no token came before.
            news: output tokens not yet reported to the dispatcher.
            now_s: time of the tokens, in seconds of `time.monotonic`.
        """
        self._leg = None
        leg.backend.answers.add(self.request.chat)
        if not self.has_started:
            self._begin_answer()
        self.client.send(out, last=True)
        if news > 0:
            self.model.produced(leg.row, news, now_s)
        self.model.finished(self, leg.number, self._counted_now(leg.reply.prompt_tokens))
        self._note_tokens(leg)
        self._over("complete", _OK)

    def lost(self, leg: Collecting, kind: Kind, why: str, retry_after_s: float) -> None:
        """Handle a failed leg that is closed or was never sent; a leg that is not the present one is ignored.

        The dispatcher decides what follows. But if the client already has every token it asked for, and the request is not
        at fault, its stream ends as complete.

        Args:
            kind: what failed (`Kind`), for the event `Failed`; ``client`` = the request is at fault.
            why: a clause for the log.
            retry_after_s: seconds that the engine asks to wait; 0 = it does not ask.
        """
        if self._leg is not leg:
            return
        self._take_off(leg)
        self._lost_as, self._refusal = kind, leg.refusal or self._refusal
        self._failures.add(leg.failure)
        leg.backend.was_stale |= kind == "stale"
        worker = leg.backend.name
        _log.info("%s: %s (%s)", worker, why, kind, extra={"worker": worker, "kind": kind, "request": self.name})
        before = self._before
        if self.has_started and before is not None and before.produced and kind != "client":
            found = continuation(self.request, self._body, before, leg.backend.dialect)
            if found.spent:
                self._end_spent(before, leg.number)
                return
        now_s, counts = self.model.now_s(), not (self._is_late and (leg.may_lack_kv or kind == "recomputed"))
        ids = {"request": self.number, "leg": leg.number}
        self.model.tell(ev.Failed(now_s=now_s, **ids, kind=kind, retry_after_s=retry_after_s, is_counted=counts))

    def at_fault(self, leg: Collecting, kind: Kind) -> Kind:
        """The kind of a failure whose engine is alive and gave an error; `kind` unless a hand-over may be at fault.

        Before the first token, the lease of the KV cache that the hand-over names may have ended. Then `may_lack_kv` of the
        leg is set, and another engine is asked after another prefill leg (``status``), or the same one if no other is
        healthy (``recomputed``).
        """
        if not self._handover or self.has_started:
            return kind
        leg.may_lack_kv = True
        return "status" if self.model.has_another(leg.row, leg.backend.name) else "recomputed"

    def _end_spent(self, before: SoFar, leg: int) -> None:
        """End a stream that has every token as complete, in place of the leg with this number."""
        request = self.request
        self._end_early(closing(before, chat=request.chat, model=request.model, usage=request.asked.usage), leg)

    def _end_early(self, out: bytes, leg: int) -> None:
        """End a stream as complete by the bytes `out`, in place of the leg with this number."""
        self.client.send(out, last=True)
        self.model.finished(self, leg)
        self._over("complete", _OK)

    def count_prompt(self, row: int, tokens: int) -> None:
        """Pass an engine's first count of the prompt's tokens to the dispatcher; ignores later ones and those below 1.

        `row` is the request's, as `SendDecode` and `Continue` give it.
        """
        news = self._counted_now(tokens)
        if news:
            self.model.counted(self, row, news)

    def _counted_now(self, tokens: int) -> int:
        """Note an engine's first count of the prompt's tokens, let `sizes` learn from it, and return it; 0 for any other."""
        if tokens <= 0 or self.is_counted:
            return 0
        self.is_counted = True
        if self.story is not None:
            self.story.prompt_tokens = tokens
        self.model.sizes.learn(self.request.model, self.size, tokens)
        return tokens

    # --- called for the client ------------------------------------------------------------------------------------

    def client_gone(self) -> None:
        """The client left: close the leg, let the dispatcher free its slot or place in the pool, and end the request."""
        leg, self._leg = self._leg, None
        if leg is not None:
            cancel(leg)
        self.model.tell(ev.ClientGone(now_s=self.model.now_s(), request=self.number))
        self.model.over(self)
        self._note_tokens(leg)
        self._over("cancelled", _OK if self.has_started else 0)

    def failed(self) -> None:
        """A bug of ours met it: end the request as `client_gone` does, but as an error; the connection answers."""
        self._end_as("error", _BUG)

    def give_up(self) -> None:
        """The gateway stops: end the request as `client_gone` does, and send status 503, or an error event in a stream."""
        self._end_unserved(refusals.overloaded(1.0), "error", "the gateway is being stopped")

    def withdraw(self) -> None:
        """No worker of its model is left: end the request like a new one, by 404, or its stream by an error event."""
        outcome: Outcome = "error" if self.has_started else "refused"
        self._end_unserved(refusals.unknown_model(self.request.model), outcome, _WHY["failed"])

    def _end_unserved(self, refusal: Refusal, outcome: Outcome, why: str) -> None:
        """End the request as `client_gone` does, and send the refusal, or an error event, with `why`, in a stream."""
        self._end_as(outcome, refusal.status)
        if self.has_started:
            self.client.send(refusals.stream_broken(why).event(), last=True)
        else:
            self.client.refuse(refusal)

    def _end_as(self, outcome: Outcome, status: int) -> None:
        """End the request as `client_gone` does, but with this outcome; `status` is for a client without a stream."""
        self.model.dispatcher.ends_as(self.number, 0 if self.has_started else status)
        self._note_tokens(self._leg)
        self._over(outcome, _OK if self.has_started else status)
        self.client_gone()

    @property
    def event_bytes(self) -> int:
        """Bytes of the largest event of a stream; before the first token, each of its sequences may send as many."""
        request = self.request
        return _EVENT_BYTES + (_BYTES_PER_ECHO if request.echoes else _BYTES_PER_ID) * request.prompt_bytes

    def client_resumed(self) -> None:
        """The client has read what was buffered: read from the engine again."""
        leg = self._leg
        if leg is not None and leg.connection is not None:
            leg.connection.resume(self.model.now_s() + leg.backend.endpoint.settings.silence_s)

    # --- small things --------------------------------------------------------------------------------------------

    def _over(self, outcome: Outcome, status: int) -> None:
        """Report the end of the request to the sinks; only the first call does."""
        story, self.story = self.story, None
        if story is not None:
            story.ended(outcome, status)

    def _begin_call(self, backend: Backend) -> None:
        """Note that a leg goes to this worker; write the body in its engine's dialect, or keep it if it goes unchanged."""
        if self.story is not None:
            self.story.sent(backend.name)
        self._is_late = False
        request = self.request
        if request.goes_unchanged:
            self._body = request.body
            return
        dialect = backend.dialect
        wants_ids = self.can_continue and (dialect.chat_from_ids or not self.request.chat)
        self._body, self._usage_options = bodies.upstream(request, dialect, token_ids=wants_ids)

    def _send(self, leg: Collecting, backend: Backend, body: bytes, patience_s: float) -> None:
        """Send a leg to a worker; its first deadline is `patience_s` seconds away.

        After ``stale``, it goes on a new connection: the request's next leg, and the worker's next generation.
        """
        context = self.context
        head = backend.generation_head(self.request.chat, self.name, len(body), context.carried, context.credentials)
        is_fresh, backend.was_stale = self._lost_as == "stale" or backend.was_stale, False
        send = backend.endpoint.send_fresh if is_fresh else backend.endpoint.send
        send(leg, (head, body), patience_s)

    def _reply(self, backend: Backend, before: SoFar | None, given: bytes = b"") -> ReplyStream:
        """A new reader for an engine's stream, which continues `before` if any, from the token ids `given` (JSON) if any."""
        request, dialect = self.request, backend.dialect
        return ReplyStream(
            dialect,
            chat=request.chat,
            client=dialect.given(request.asked),
            engine=self._usage_options,
            choices=request.n,
            prompts=request.prompts,
            before=before,
            given=given,
            keep=self.can_continue,
            fingerprint=backend.fingerprint,
            bytes_per_token=0.0 if dialect.counts else self.model.sizes.bytes_per_token(request.model),
            limit=self.event_bytes,
            templates=backend.templates,
            hands_back=not request.stops_at_recomputed,
        )

    def _take_off(self, leg: Collecting) -> None:
        """The present leg brings no more: keep what came, for the sinks, and for another engine if it can be continued."""
        self._leg, self._since_s, self._why_not = None, self.model.now_s(), leg.why_not
        self._note_tokens(leg)
        if isinstance(leg, Stream) and self.can_continue and leg.reply.produced:
            self._before = leg.reply.so_far()

    def _note_tokens(self, leg: Collecting | None) -> None:
        """Note for the sinks how many tokens a stream has brought so far; other legs are ignored."""
        if self.story is not None and isinstance(leg, Stream):
            self.story.output_tokens = leg.reply.produced

    def _worded(self, command: Reject) -> Refusal:
        """The refusal, with status and text, for a `Reject`; what engines said before may change it."""
        retry_s, told, failures = command.retry_after_s, self._refusal, self._failures
        match command.reason:
            case "client" if told is not None:
                return told
            case "pool-full" | "no-worker" | "draining":
                return refusals.overloaded(retry_s)
            case "expired" if failures - {"busy"}:
                return refusals.no_other_engine(retry_s)
            case "expired" if told is None:
                return refusals.waited_too_long(self.model.now_s() - self._since_s, retry_s)
            case "overdue":
                return refusals.lasted_too_long(self.model.dispatcher.settings.total_s)
            case "tenant-limit" | "rate-limit":
                said = "at a time" if command.reason == "tenant-limit" else "in a short time"
                return refusals.too_many(f"Too many requests {said}.", retry_s)
            case "too-long":
                message = "The prompt is longer than any engine's memory."
                return Refusal(400, "invalid_request_error", message, "context_length_exceeded")
            case "too-wide":
                message = "The request asks for more answers at a time than any engine has slots."
                return Refusal(400, "invalid_request_error", message, param="n" if self.request.prompts == 1 else "prompt")
            case _:
                if told is not None and failures == {"denied"}:
                    return told
                if told is not None and failures == {"busy"}:
                    return replace(told, retry_after_s=told.retry_after_s or 1.0)
                if told is not None and (told.retry_after_s or told.status == _TOO_MANY):
                    return refusals.overloaded(told.retry_after_s or 1.0)
                return refusals.ENGINE_TOO_SLOW if self._lost_as == "stall" else refusals.ENGINE_FAILED


class Collecting:
    """One call to an engine, a `Leg`: gathers the answer, judges it, and tells the exchange how it ended.

    Args:
        exchange: the request that it is part of.
        number: the dispatcher's number of the leg.
        backend: the worker.
        row: the request's row, as `SendDecode` and `Continue` give it; -1 at a prefiller.

    Attributes:
        kind: the content type that its answer with status 200 must have.
        refusal: what its engine's answer means for the client, or that this gateway has too few open files; None = neither.
        failure: the kind, if it fails: ``busy`` = its engine answered 429, ``denied`` = that does not serve the model.
        why_not: why the stream cannot continue, for the client; empty = not known.
        may_lack_kv: its engine gave an error that the end of the lease of its hand-over's KV cache explains.
    """

    kind = "application/json"
    connection: EngineConnection | None = None
    is_off = is_head = may_lack_kv = False
    failure: Literal["busy", "denied", "other"] = "other"
    refusal: Refusal | None = None
    why_not = ""
    _refused: ResponseHead | None = None  # the head of its answer, if the status is not 200
    _size = 0

    def __init__(self, exchange: Exchange, number: int, backend: Backend, row: int = -1) -> None:
        self.exchange, self.number, self.backend, self.row = exchange, number, backend, row
        self._pieces: list[bytes] = []

    def head(self, head: ResponseHead, length: int) -> None:
        if head.status != 200:
            self._refused, self.failure = head, "busy" if head.status == _TOO_MANY else "other"
        elif head.kind != self.kind or not head.is_plain:
            self._lose("status", "its answer has another content type than was asked for, or is compressed")

    def at_once(self, head: ResponseHead, body: bytes) -> None:
        """Handle a whole answer that one read brought, of any status; the connection is released already."""
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
        if self._size <= (_MOST_ANSWER if self._refused is None else MOST_REFUSAL):
            self._pieces.append(data)
        elif self._refused is None:
            self._lose("stream", "its answer is too large")
        else:
            self._judge(self._refused)

    def ended(self) -> None:
        if self._refused is not None:
            self._judge(self._refused)
        else:
            pieces = self._pieces
            self.whole(pieces[0] if len(pieces) == 1 else b"".join(pieces))

    def broke(self, kind: Kind, why: str) -> None:
        if kind == "unable":
            self.refusal = refusals.overloaded(1.0)
        self._lose(kind if self._refused is None else "status", why)

    def whole(self, body: bytes) -> None:
        """Take the whole body of an answer with status 200 and the content type `kind`; subclasses implement it."""
        raise NotImplementedError

    def _judge(self, head: ResponseHead) -> None:
        """End a leg whose engine answered with another status than 200: set `refusal`, and report the leg as lost.

        The kind is ``client`` if the request is at fault, and no other server answers in the engine's place. It is
        ``unable`` if the engine has answered the other kind of request, and seems to lack this one. If the engine does not
        serve the model, tells the `ServedModel`; the kind is ``unable`` if it does not list that model, and others do.
        """
        status, exchange = head.status, self.exchange
        is_clients = blames_request(status) and status not in _NOT_THE_CLIENTS
        is_clients = is_clients and not self.backend.refuses_our_key(status, exchange.context.credentials)
        said = b"".join(self._pieces)
        self.refusal = of_engine(said, status, head.retry_after_s)
        kind: Kind = "client" if is_clients else exchange.at_fault(self, "status") if status == _BUG else "status"
        if is_foreign(said, status):
            kind = "unable" if self.backend.answers == {not exchange.request.chat} else "status"
        if denies_model(said, status):
            self.failure = "denied"
            kind = "unable" if exchange.model.has_elsewhere(exchange.request.model, self.backend) else "status"
        self._lose(kind, f"it answered {status}", head.retry_after_s)
        if self.failure == "denied":
            exchange.model.denied(self.backend, exchange.request.model)

    def _lose(self, kind: Kind, why: str, retry_after_s: float = 0.0) -> None:
        """Close the leg, and report it to the exchange as lost. `retry_after_s`: the wait that the engine asks for, or 0."""
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
        self.exchange.prefilled(self, *found)


class Whole(Collecting):
    """A call whose answer does not stream; ends in `Exchange.answered` or `Exchange.lost`."""

    def whole(self, body: bytes) -> None:
        try:
            hands_back = not self.exchange.request.stops_at_recomputed
            answer = read_answer(body, self.backend.dialect.finish_reasons, hands_back)
        except EngineError as error:
            self._lose(self.exchange.at_fault(self, "stream"), str(error))
            return
        if answer.recomputed:
            self._lose("recomputed", "it hands the request back")
        else:
            self.exchange.answered(self, answer, body)


class Stream(Collecting):
    """A call whose answer streams in chunks; ends in `Exchange.completed` or `Exchange.lost`.

    `reply` counts the tokens of the stream, and makes the client's bytes of it.
    """

    kind = "text/event-stream"
    at_once = None  # type: ignore[assignment]  # a stream is sent piece by piece

    def __init__(self, exchange: Exchange, number: int, backend: Backend, row: int, reply: ReplyStream) -> None:
        super().__init__(exchange, number, backend, row)
        self.reply = reply
        self.counted = reply.produced  # tokens reported to the dispatcher
        self._has_told = False  # a token of this leg was reported to the dispatcher
        self._seen = reply.produced  # tokens at the last check
        self._held = b""  # what came before the first token
        self.silence_s = backend.endpoint.settings.silence_s

    def chunks(self, data: bytes) -> bytes:
        exchange, reply = self.exchange, self.reply
        if not self._has_told:
            return data
        client = exchange.client
        at, out = reply.feed_chunks(data, client.is_framed)
        if not at:
            return data
        now_s = time.monotonic()
        self.connection.deadline.at = now_s + self.silence_s  # type: ignore[union-attr]  # set while it calls this leg
        client.forward(out)
        if client.paused:
            self.connection.pause()  # type: ignore[union-attr]
        produced = self._seen = reply.produced
        news, self.counted = produced - self.counted, produced
        if news > 0:
            exchange.model.produced(self.row, news, now_s)
        return data[at:]

    def body(self, data: bytes) -> None:
        if self._refused is not None:
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
                self.connection.deadline.set(now_s + self.silence_s)  # type: ignore[union-attr]  # set while it calls this leg
            if out:
                exchange.client.send(out)
                if exchange.client.paused:
                    self.connection.pause()  # type: ignore[union-attr]
        elif has_grown:
            self.connection.deadline.set(now_s + self.silence_s)  # type: ignore[union-attr]
            out, self._held = self._held + out, b""
            exchange.start(out)
            self.connection.acknowledge_late()  # type: ignore[union-attr]
        elif out:
            self._held += out
            if len(self._held) > exchange.request.slots * exchange.event_bytes:
                self._lose("stream", "it sends without a token and without an end")
                return
        news = produced - self.counted
        if news > 0:
            self.counted = produced
            exchange.model.produced(self.row, news, now_s)
            if not self._has_told:
                self._has_told = True
                exchange.model.look_soon()
            if not exchange.is_counted:
                exchange.count_prompt(self.row, reply.prompt_tokens)
        if reply.recomputed:
            self._lose("recomputed", "it hands the request back")
        elif reply.failure is not None:
            self._fail("stream", str(reply.failure))

    def ended(self) -> None:
        if self._refused is not None:
            self._judge(self._refused)
        else:
            self._end("stream", "its stream ended before the answer was complete")

    def broke(self, kind: Kind, why: str) -> None:
        if self._refused is not None or kind == "unable":
            super().broke(kind, why)
        else:
            self._end(kind, why)

    def _end(self, kind: Kind, why: str) -> None:
        """Handle the end of the engine's answer, which may still be complete; else the leg fails as `kind`."""
        out, now_s = self.reply.end(), time.monotonic()
        if self.reply.done:
            self._complete(out, now_s)
            return
        if out and self.exchange.has_started:
            self.exchange.client.send(out)
        self._fail(kind, why)

    def _fail(self, kind: Kind, why: str) -> None:
        """End a leg as lost: its stream broke off, has an error (to `refusal`) or restarts (`cannot_continue`)."""
        exchange, reply = self.exchange, self.reply
        if reply.error_body:
            self.refusal, kind = of_engine(reply.error_body, 200), exchange.at_fault(self, kind)
        if reply.starts_anew:
            self.why_not = "the engine asked for the rest answers from the start"
            if reply.restarts:
                self.backend.cannot_continue(exchange.request.chat)
            kind = "status"
        self._lose(kind, why)

    def _complete(self, out: bytes, now_s: float) -> None:
        """End the leg as complete, with the last bytes for the client."""
        if self.connection is not None:
            self.connection.let_go()
        reply = self.reply
        self.backend.fingerprint = reply.fingerprint
        self.exchange.completed(self, self._held + out, reply.produced - self.counted, now_s)
