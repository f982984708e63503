"""One generation request, from its arrival to the last byte of its answer.

Rules of this file. Until a token is there the client hears nothing: head, role chunk and comments are held back, so that
another engine can still answer. From then on every byte goes out as it comes. The dispatcher decides; this carries out what
it says about one request, and tells it what became of it, once.
"""

from __future__ import annotations

from dataclasses import replace

from evenstep.dispatch import events as ev
from evenstep.dispatch.commands import Broken, Continue, Fail, Reject, SendDecode, SendPrefill
from evenstep.dispatch.events import Kind
from evenstep.engines.requests import bodies, refusals
from evenstep.engines.requests.continuation import can_break, continuation
from evenstep.engines.requests.parsing import GenerationRequest
from evenstep.engines.requests.refusals import Refusal
from evenstep.engines.streams.answers import Answer, Prefilled
from evenstep.engines.streams.closing import closing
from evenstep.engines.streams.reply import ReplyStream
from evenstep.engines.streams.usage import SoFar
from evenstep.engines.view import UsageOptions
from evenstep.gateway.connections.client import Client
from evenstep.gateway.connections.engine import cancel
from evenstep.gateway.connections.request_context import RequestContext
from evenstep.gateway.serve.backend import Backend
from evenstep.gateway.serve.ended import Outcome, Story
from evenstep.gateway.serve.legs import Collecting, Prefill, Stream, Whole
from evenstep.gateway.serve.served import ServedModel

_EVENTS = b"text/event-stream; charset=utf-8"
_NO_CACHE = b"Cache-Control: no-cache\r\nX-Accel-Buffering: no\r\n"
_OK, _TOO_MANY = 200, 429
_FAULTS = {"client", "failed", "expired", "overdue", "no-worker"}
_EVENT_BYTES = 1 << 20
#: Of an event that repeats the prompt, for each byte of it: its token ids, or each token with its log probabilities.
_BYTES_PER_ID, _BYTES_PER_ECHO = 8, 256


class Exchange:
    """One generation: a client's request, its legs to engines, and the answer.

    Register it with `ServedModel.number`. The methods up to `fail` carry out the dispatcher's commands; its legs call those
    up to `count_prompt`.

    Args:
        model: the model that serves it.
        client: the client's connection.
        request: the request.
        name: its id, shown to client and engines.
        context: the parsed head.

    Attributes:
        number: the dispatcher's number of the request; 0 = not registered yet.
        refusal: the last refusal or failure reported by an engine.
        only_too_many: all engines that refused or failed it so far answered 429.
        can_continue: the request allows its stream to continue elsewhere after the first token.
        has_started: the client has the head of a stream.
        held: bytes of a stream, before its first token, that the client has not received.
        why: why its stream cannot continue, for the client; empty = not known.
        size: of its prompt, in tokens where the model has a tokenizer, else bytes; 0 = the request gives its tokens.
        is_counted: an engine has reported the prompt's true length.
        story: notes for the sinks; None if there are no sinks.
    """

    number = size = 0
    refusal: Refusal | None = None
    only_too_many = True
    has_started = is_counted = False
    held = b""
    why = ""
    story: Story | None = None
    _leg: Collecting | None = None
    _before: SoFar | None = None
    _handover = _body = b""
    _usage_options = UsageOptions()
    _stalled = False
    _are_denials: bool | None = None  # whether all legs that were lost were of engines that do not serve the model

    def __init__(
        self, model: ServedModel, client: Client, request: GenerationRequest, name: str, context: RequestContext
    ) -> None:
        self.model, self.client, self.request, self.name, self.context = model, client, request, name, context
        self.can_continue = request.stream and can_break(request)
        self._since_s = model.now_s()  # the time from which on it waits, once no leg runs

    # --- called by the dispatcher --------------------------------------------------------------------------------

    def prefill(self, command: SendPrefill, backend: Backend) -> None:
        """Send the prefill leg to a prefiller; it ends in `prefilled` or `lost` after ``Engines.answer_s`` at most."""
        self._handover = b""
        self._begin_call(backend)
        leg = self._leg = Prefill(self, command.leg, backend)
        self._send(leg, backend, bodies.prefill_leg(self._body), backend.endpoint.settings.answer_s)

    def decode(self, command: SendDecode, backend: Backend) -> None:
        """Send the request to a decoding worker; after a prefill leg, with the prefiller's hand-over."""
        self._begin_call(backend)
        self._before, self.held = None, b""
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
        for, its stream ends as complete.
        """
        before = self._before
        assert before is not None
        self._begin_call(backend)
        found = continuation(self.request, self._body, before, backend.continuing)
        if found.spent and self.has_started:
            self._end_spent(before, command.leg)
            return
        reply = self._reply(backend, before, found.ids)
        leg = self._leg = Stream(self, command.leg, backend, command.row, reply)
        leg.counted, self.why = max(leg.counted, command.produced), found.why_not
        if not found.body:
            self.lost(leg, "unable" if found.is_engines else "client", found.why_not, 0.0)
            return
        self._send(leg, backend, found.body, backend.endpoint.settings.first_byte_s)

    def abort(self, number: int) -> None:
        """Close the leg with this number; if it has ended, do nothing. The tokens it brought are kept for `resume`."""
        leg = self._leg
        if leg is not None and leg.number == number:
            self._keep_what_is_there(leg)
            self._leg, self._since_s = None, self.model.now_s()
            cancel(leg)

    def release(self) -> None:
        """Drop the prefiller's hand-over, because no decode leg will fetch its KV cache; the lease expires by itself."""
        self._handover = b""

    def reject(self, command: Reject) -> int:
        """Answer with the status that the reason calls for, and return it: no token has reached the client.

        The request is over.
        """
        refusal = self._worded(command)
        self.client.refuse(refusal)
        self._over("error" if command.reason in _FAULTS else "refused", refusal.status)
        return refusal.status

    def fail(self, command: Fail) -> None:
        """Tell the client that the answer cannot continue: by a last event in a stream that has begun, else by 502."""
        refusal = refusals.stream_broken(self.why or _WHY[command.reason])
        if self.has_started:
            self.client.send(refusal.event(), last=True)
        else:
            self.client.refuse(refusal)
        self._over("error", _OK if self.has_started else refusal.status)

    # --- what legs say -------------------------------------------------------------------------------------------

    def start(self, out: bytes) -> None:
        """Send the client the head of the stream, what was `held`, and `out`, which has the first token."""
        self.has_started = True
        if self.story is not None:
            self.story.started()
        self.client.start(200, _EVENTS, _NO_CACHE)
        out, self.held = self.held + out, b""
        if out:
            self.client.send(out)

    def prefilled(self, leg: Prefill, found: Prefilled) -> None:
        """Handle the answer of the prefill leg: keep its hand-over for `decode`, and tell the dispatcher."""
        self._leg, self._handover, self._since_s = None, found.handover, self.model.now_s()
        self._counted_now(found.prompt_tokens)
        self.model.tell(
            ev.PrefillDone(
                now_s=self._since_s,
                request=self.number,
                leg=leg.number,
                prompt_tokens=max(0, found.prompt_tokens),
            )
        )

    def answered(self, leg: Whole, answer: Answer, body: bytes) -> None:
        """Send the client a whole answer, which does not stream, and tell the dispatcher that the request is complete.

        Args:
            answer: what was parsed from `body`.
            body: as the engine sent it.
        """
        self._leg = None
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
            out: the last bytes for the client; if no token came before, all that was held goes first.
            news: output tokens not yet reported to the dispatcher.
            now_s: time of the tokens, in seconds of `time.monotonic`.
        """
        self._leg = None
        if self.has_started:
            self.client.send(out, last=True)
        else:
            self.has_started = True
            self.client.start(200, _EVENTS, _NO_CACHE)
            self.client.send(self.held + out, last=True)
        if news > 0:
            self.model.produced(leg.row, news, now_s)
        self.model.finished(self, leg.number, self._counted_now(leg.reply.prompt_tokens))
        if self.story is not None:
            self.story.started()
            self.story.output_tokens = leg.reply.produced
            self._over("complete", _OK)

    def lost(self, leg: Collecting, kind: Kind, why: str, retry_after_s: float) -> None:
        """Handle a failed leg that is closed or was never sent; a leg that is not the present one is ignored.

        The dispatcher decides what follows. If the client already has every token it asked for, its stream ends as
        complete.

        Args:
            kind: what failed, as `Failed` takes it.
            why: a clause for the log.
            retry_after_s: seconds that the engine asks to wait; 0 = it asks for no wait.
        """
        if self._leg is not leg:
            return
        self._keep_what_is_there(leg)
        self._leg, self._stalled, self._since_s = None, kind == "stall", self.model.now_s()
        self._are_denials = leg.is_denied and self._are_denials is not False
        self.only_too_many &= leg.status == _TOO_MANY
        self.model.lost(leg.backend.name, kind, why, self.name)
        before = self._before
        if self.has_started and before is not None and before.produced and kind != "client":
            found = continuation(self.request, self._body, before, leg.backend.dialect)
            if found.spent:
                self._end_spent(before, leg.number)
                return
        self.model.tell(
            ev.Failed(
                now_s=self.model.now_s(),
                request=self.number,
                leg=leg.number,
                kind=kind,
                retry_after_s=retry_after_s,
            )
        )

    def _end_spent(self, before: SoFar, leg: int) -> None:
        """End a stream as complete that has every token, in place of the leg with this number."""
        self._close_stream(before)
        self.model.finished(self, leg)
        self._over("complete", _OK)

    def count_prompt(self, row: int, tokens: int) -> None:
        """Pass an engine's first count of the prompt's tokens to the dispatcher; ignore later ones and -1, not reported.

        Args:
            row: of its leg, as `Dispatcher.produced` takes it.
        """
        news = self._counted_now(tokens)
        if news:
            self.model.counted(self, row, news)

    def _counted_now(self, tokens: int) -> int:
        """The tokens of the prompt where an engine tells them for the first time, else 0."""
        if tokens <= 0 or self.is_counted:
            return 0
        self.is_counted = True
        if self.story is not None:
            self.story.prompt_tokens = tokens
        if self.size:
            self.model.sizes.learn(self.request.model, self.size, tokens)
        return tokens

    # --- called for the client ------------------------------------------------------------------------------------

    def client_gone(self) -> None:
        """The client left: abort its leg, and free its slot and its place in the pool."""
        leg, self._leg = self._leg, None
        if leg is not None:
            cancel(leg)
        self.model.tell(ev.ClientGone(now_s=self.model.now_s(), request=self.number))
        self.model.over(self)
        self._note_tokens(leg)
        self._over("cancelled", _OK if self.has_started else 0)

    def give_up(self) -> None:
        """The gateway stops before the answer is complete: abort the leg, and send status 503, or an event in a stream."""
        has_started, refusal = self.has_started, refusals.overloaded(1.0)
        self._note_tokens(self._leg)
        self._over("error", _OK if has_started else refusal.status)
        self.client_gone()
        if has_started:
            self.client.send(refusals.stream_broken("the gateway is being stopped").event(), last=True)
        else:
            self.client.refuse(refusal)

    def client_resumed(self) -> None:
        """The client has read what was buffered: read from the engine again."""
        leg = self._leg
        if leg is not None and leg.connection is not None:
            leg.connection.resume(self.model.now_s() + leg.backend.endpoint.settings.silence_s)

    # --- small things --------------------------------------------------------------------------------------------

    def _over(self, outcome: Outcome, status: int) -> None:
        """Report to the sinks, once."""
        story, self.story = self.story, None
        if story is not None:
            story.ended(outcome, status)

    def _begin_call(self, backend: Backend) -> None:
        """Note that a call goes to this worker, and write the body in its engine's dialect."""
        if self.story is not None:
            self.story.sent(backend.name)
        request = self.request
        if request.goes_unchanged:
            self._body = request.body
            return
        dialect = backend.dialect
        wants_ids = self.can_continue and (dialect.chat_from_ids or not self.request.chat)
        self._body, self._usage_options = bodies.upstream(request, dialect, token_ids=wants_ids)

    def _send(self, leg: Collecting, backend: Backend, body: bytes, patience_s: float) -> None:
        head = backend.generation_head(self.request.chat, self.name, len(body), self.context.carried)
        backend.endpoint.send(leg, (head, body), patience_s)

    def _reply(self, backend: Backend, before: SoFar | None, given: bytes = b"") -> ReplyStream:
        request, dialect = self.request, backend.dialect
        return ReplyStream(
            dialect,
            chat=request.chat,
            client=request.asked,
            engine=self._usage_options,
            choices=request.n,
            prompts=request.prompts,
            before=before,
            given=given,
            keep=self.can_continue,
            fingerprint=backend.fingerprint,
            bytes_per_token=0.0 if dialect.counts else self.model.sizes.bytes_per_token(request.model),
            limit=_EVENT_BYTES + (_BYTES_PER_ECHO if request.echoes else _BYTES_PER_ID) * request.prompt_bytes,
            templates=backend.templates,
            hands_back=not request.stops_at_recomputed,
        )

    def _keep_what_is_there(self, leg: Collecting) -> None:
        """Note what a stream has brought so far, if another engine may continue it."""
        self._note_tokens(leg)
        if isinstance(leg, Stream) and self.can_continue and leg.reply.produced:
            self._before = leg.reply.so_far()

    def _note_tokens(self, leg: Collecting | None) -> None:
        """Note for the sinks how many tokens a stream has brought so far."""
        if self.story is not None and isinstance(leg, Stream):
            self.story.output_tokens = leg.reply.produced

    def _close_stream(self, before: SoFar) -> None:
        end = closing(before, chat=self.request.chat, model=self.request.model, usage=self.request.asked.usage)
        self.client.send(end, last=True)

    def _worded(self, command: Reject) -> Refusal:
        retry_s = float(command.retry_after_s)
        match command.reason:
            case "client" if self.refusal is not None:
                return self.refusal
            case "pool-full" | "no-worker" | "draining":
                return refusals.overloaded(max(1.0, retry_s))
            case "expired" if self._are_denials is not None and not self.only_too_many:
                return refusals.no_other_engine(max(1.0, retry_s))
            case "expired" if self.refusal is None or not self.only_too_many:
                return refusals.waited_too_long(self.model.now_s() - self._since_s, max(1.0, retry_s))
            case "overdue":
                return refusals.lasted_too_long(self.model.settings.total_s)
            case "tenant-limit":
                return refusals.too_many("Too many requests at a time.", max(1.0, retry_s))
            case "rate-limit":
                return refusals.too_many("Too many requests in a short time.", max(1.0, retry_s))
            case "too-long":
                message = "The prompt is longer than any engine's memory."
                return Refusal(400, "invalid_request_error", message, "context_length_exceeded")
            case "too-wide":
                message = "The request asks for more answers at a time than any engine has slots."
                return Refusal(400, "invalid_request_error", message, param="n")
            case _:
                told = self.refusal
                if told is not None and self._are_denials:
                    return told
                if told is not None and self.only_too_many:
                    return replace(told, retry_after_s=told.retry_after_s or 1.0)
                if told is not None and (told.retry_after_s or told.status == _TOO_MANY):
                    return refusals.overloaded(told.retry_after_s or 1.0)
                return refusals.engine_too_slow() if self._stalled else refusals.engine_failed()


_WHY: dict[Broken, str] = {
    "failed": "no engine could go on with it",
    "expired": "no engine was free in time",
    "overdue": "it lasted as long as a request may",
    "cannot-continue": "this kind of request cannot be continued on another engine",
}
