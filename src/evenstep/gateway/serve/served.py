"""One served model: its dispatcher, workers and requests. It carries out the dispatcher's commands.

Rules of this file. Events go to the dispatcher in order, and those of one moment go in one call. All commands that follow
are carried out before the next call. Arrivals and ends of whole answers are many: they are held until the event loop has
handled the socket reads at hand, and ends go first. A round is not decided earlier anyway, and one kind of work at a time
costs less. A chunk is reported by two ints. A tick comes after the reads at hand, or when the dispatcher asked for it,
whichever is first.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import msgspec

from evenstep import names
from evenstep.dispatch import commands as co
from evenstep.dispatch import events as ev
from evenstep.dispatch.core import Dispatcher
from evenstep.dispatch.requests.tenants import Tenants
from evenstep.dispatch.rounds.deciding import default_predictor
from evenstep.dispatch.settings import Settings, to_log
from evenstep.engines.requests.parsing import GenerationRequest
from evenstep.engines.requests.prompt_size import PromptSizes
from evenstep.engines.requests.tokenizer_file import TokenizerFile
from evenstep.errors import InputError
from evenstep.gateway.connections.client import Client, Job
from evenstep.gateway.serve.backend import Backend
from evenstep.gateway.serve.decision_log import DecisionLog
from evenstep.gateway.serve.training import Trainer
from evenstep.routing.view import horizon_of

_log = logging.getLogger("evenstep.gateway")
_ASK_AGAIN_S = 1.0
_SMALL = 256  # tokens of a prompt that every engine can hold


class Placed(Job, Protocol):
    """The members of `Exchange` that `ServedModel` uses; `Exchange` describes them."""

    number: int
    size: int

    @property
    def client(self) -> Client: ...
    @property
    def request(self) -> GenerationRequest: ...
    def prefill(self, command: co.SendPrefill, backend: Backend) -> None: ...
    def decode(self, command: co.SendDecode, backend: Backend) -> None: ...
    def resume(self, command: co.Continue, backend: Backend) -> None: ...
    def abort(self, number: int) -> None: ...
    def release(self) -> None: ...
    def reject(self, command: co.Reject) -> int: ...
    def fail(self, command: co.Fail) -> bool: ...
    def withdraw(self) -> None: ...


class ServedModel:
    """The pool of one served model: its requests and workers.

    Args:
        name: the model's.
        policy: routing policy, ``NAME[:key=value,...]``.
        predictor: predictor of output lengths, in the same form; empty = the policy's default.
        settings: of the dispatcher.
        loop: the event loop.
        probe: called to check a worker's health; it returns at once, and calls `probed` later.
        removed: called with this pool, and name and URL of a removed worker, once none of its requests runs there.
        denied: called when a worker denies a model that it was listed for; it asks for the worker's models again.
        tokenizer: path of a tokenizer.json, to count prompts by; empty = tokens are estimated from a prompt's bytes.
        log: takes the records of the decision log, closed by `close`; None = there is no log.
        tenants: limits of tenants, counted over all models that share them; None = over this model alone.

    Attributes:
        backends: workers by name, also those that are leaving.
        sizes: estimates tokens from the size of a prompt, and learns from the counts of engines.

    Raises:
        InputError: an unknown policy, predictor or option; a tokenizer that cannot be read.
    """

    def __init__(
        self,
        name: str,
        policy: str,
        predictor: str,
        settings: Settings,
        *,
        loop: asyncio.AbstractEventLoop,
        probe: Callable[[ServedModel, Backend], None],
        removed: Callable[[ServedModel, str, str], None],
        denied: Callable[[ServedModel, Backend], None],
        tokenizer: str = "",
        log: DecisionLog | None = None,
        tenants: Tenants | None = None,
    ) -> None:
        self.name = name
        wall, spent = time.perf_counter, time.thread_time
        self.dispatcher = Dispatcher(
            policy, predictor=predictor, settings=settings, stopwatch=wall, log=log, processor=spent
        )
        self._turn, self._produced = self.dispatcher.parts.turn, self.dispatcher.produced
        self._quiet = self.dispatcher.parts.barriers.quiet
        if tenants is not None:
            self.dispatcher.parts.limits.share(tenants)
        self.backends: dict[str, Backend] = {}
        self._tokenizer = TokenizerFile(Path(tokenizer)) if tokenizer else None
        self.sizes = PromptSizes(prior=1.0) if tokenizer else PromptSizes()
        self.log = log
        self._loop, self._removed, self._denied = loop, removed, denied
        self._exchanges: dict[int, Placed] = {}
        self._number = 0  # number of the last request
        self._events: deque[ev.Event] = deque()
        self._ended: list[ev.Finished] = []  # told before `_events`
        self._is_telling = self._is_looking = self._is_closed = False
        self._due_s = 0.0  # time at which a tick became due; 0 = none is due
        self._timer: asyncio.TimerHandle | None = None
        self._fitting = Trainer(loop, lambda: self.dispatcher.fit, self.tell)
        self._do: dict[type[Any], Callable[[Any], None]] = {
            co.SendPrefill: lambda command: self._exchanges[command.request].prefill(command, self.backends[command.worker]),
            co.SendDecode: lambda command: self._exchanges[command.request].decode(command, self.backends[command.worker]),
            co.Continue: lambda command: self._exchanges[command.request].resume(command, self.backends[command.worker]),
            co.Abort: self._abort,
            co.Release: self._release,
            co.Reject: lambda command: self.dispatcher.rejected(self._exchanges.pop(command.request).reject(command)),
            co.Fail: self._fail,
            co.Probe: lambda command: probe(self, self.backends[command.worker]),
            co.WakeAt: self._wake_at,
            co.Removed: self._forget,
            co.Notice: self._notice,
        }

    now_s = staticmethod(time.monotonic)

    @property
    def requests(self) -> int:
        """The number of requests that wait or run here."""
        return len(self._exchanges)

    # --- events --------------------------------------------------------------------------------------------------

    def tell(self, event: ev.Event) -> None:
        """Pass an event to the dispatcher, after the events that are held, and carry out the commands that follow.

        While commands are being carried out, the event is only held, and handled after them. After `close` it is dropped.
        An error of the dispatcher, such as InputError, is raised; but an error about an arrival fails only its request.
        """
        self._events.append(event)
        if not (self._is_telling or self._is_closed):
            self._tell_all()

    def arrives(self, event: ev.Arrived) -> None:
        """Hold an arrival until the socket reads at hand are done or another event is told.

        Ends that are held are told before arrivals, so that arrivals find room.
        """
        self._events.append(event)
        self.look_soon()

    def look_soon(self) -> None:
        """Have the loop count chunks and pass on held events once, after the socket reads at hand."""
        if not self._is_looking:
            self._is_looking = True
            self._loop.call_soon(self._look)

    def _tell_all(self, ticks: bool = False) -> None:
        """Pass all held events to the dispatcher, and with `ticks` a tick if they make one due; carry out the commands."""
        self._is_telling = True
        events, ended = self._events, self._ended
        if ended:
            events.extendleft(reversed(ended))
            ended.clear()
        try:
            self.dispatcher.count()  # here, so that an error about a chunk costs none of the events
            while events:
                try:
                    commands = self.dispatcher.handle_all(events, ticks)
                except Exception:
                    event = events.popleft()
                    self._carry_out(self.dispatcher.handle_all(deque()))  # the commands of the events before it
                    if not isinstance(event, ev.Arrived) or event.request not in self._exchanges:
                        raise
                    self._exchanges[event.request].client.fail()
                else:
                    self._carry_out(commands)
        finally:
            self._is_telling = False

    def _carry_out(self, commands: list[co.Command]) -> None:
        """Carry out commands in order. If one fails, only its request fails; without a known request, that is raised."""
        if not commands:
            return
        do = self._do
        for command in commands:
            try:
                do[type(command)](command)
            except Exception:  # a bug of ours; other requests go on
                exchange = self._exchanges.get(getattr(command, "request", -1))
                if exchange is None:
                    raise
                exchange.client.fail()

    def number(self, exchange: Placed) -> int:
        """Give a new request the next number, keep it until it ends, and make it its client's job. Returns the number."""
        self._number = exchange.number = number = self._number + 1
        self._exchanges[number] = exchange
        exchange.client.job = exchange
        return number

    def produced(self, row: int, tokens: int, now_s: float) -> None:
        """Report to the dispatcher the output tokens, 1 or more, that a chunk brought.

        It is counted with the next event; at once after the socket reads at hand if a request waits for the end of a step.
        For the first token of a leg, which may free what others wait for or eject an engine, call `look_soon`, too.

        Args:
            row: the request's, as `SendDecode` and `Continue` give it.
            now_s: time of the chunk, in seconds of `time.monotonic`.
        """
        self._turn.now_s = now_s
        self._produced(row, tokens)
        if not (self._is_looking or self._quiet[0]):
            self.look_soon()

    def counted(self, exchange: Placed, row: int, tokens: int) -> None:
        """Tell the dispatcher how many tokens, 1 or more, a prompt has by an engine's count; `row` is the request's.

        Call it once for each request, as `Exchange.count_prompt` does.
        """
        if self.dispatcher.is_logged or self._events or self._ended:
            self.tell(ev.PromptCounted(now_s=time.monotonic(), request=exchange.number, prompt_tokens=tokens))
        else:
            self.dispatcher.counted(row, tokens)

    def snapshot(self) -> dict[str, Any]:
        """The dispatcher's measured values as of now, by metric name; the keys are those of `Dispatcher.snapshot`."""
        self.dispatcher.now_s = max(self.dispatcher.now_s, time.monotonic())
        return self.dispatcher.snapshot()

    def finished(self, exchange: Placed, leg: int, prompt_tokens: int = 0, output_tokens: int = 0) -> None:
        """Tell the dispatcher that an answer is complete and sent, and forget the request.

        Args:
            leg: number of the leg that brought it.
            prompt_tokens: if the engine reports them only now; 0 = known before, or not reported.
            output_tokens: of an answer that came whole; 0 for a stream, whose tokens `produced` has counted.
        """
        now_s, number = time.monotonic(), exchange.number
        event = ev.Finished(now_s=now_s, request=number, leg=leg, prompt_tokens=prompt_tokens, output_tokens=output_tokens)
        if output_tokens:
            self._ended.append(event)
            self.look_soon()
        else:
            self.tell(event)
        self._exchanges.pop(number, None)

    def over(self, exchange: Placed) -> None:
        """Forget a request that has ended; the dispatcher is not told."""
        self._exchanges.pop(exchange.number, None)

    def denied(self, backend: Backend, model: str) -> None:
        """Handle a worker's answer that it does not serve a model.

        If it was listed for that model, that counts as a failed health check (`probed`), and its models are asked for again.
        Such an answer within a second of the last one that counted is ignored.
        """
        now_s = time.monotonic()
        if model in backend.serves and now_s >= backend.denied_s + _ASK_AGAIN_S:
            backend.denied.add(model)
            backend.denied_s = now_s
            self.probed(backend.name, False)
            self._denied(self, backend)

    def has_elsewhere(self, model: str, backend: Backend) -> bool:
        """Whether other workers list a model, such as an adapter, and this one does not."""
        return model not in backend.serves and any(model in other.serves for other in self.backends.values())

    def has_another(self, row: int, name: str) -> bool:
        """Whether a healthy decode engine besides this one is left for the request in this row."""
        out = {name, *self.dispatcher.parts.exclusions.excluded.get(row, ())}
        return self.dispatcher.fleet.has_left(out, with_prefill=False, is_up=True)

    @property
    def reads_cached(self) -> bool:
        """Whether the policy uses prefix caches, so that `Arrived` needs the blocks of the prompt."""
        return self.dispatcher.parts.deciding.call.reads_cached

    def estimate(self, exchange: Placed) -> int:
        """The prompt's tokens, at least 1: the number of its ids if it came as ids, else an estimate from the prompt's size.

        For an estimate, `exchange.size` is set to that size: tokens by the model's tokenizer, or bytes of JSON without one.
        An estimate above 256 is at most the largest KV capacity of a worker, in tokens.
        """
        request = exchange.request
        if request.prompt_tokens >= 0:
            return max(1, request.prompt_tokens)
        exchange.size = self._tokenizer.count(request) if self._tokenizer else request.prompt_bytes
        estimate = self.sizes.estimate(request.model, exchange.size)
        if estimate > _SMALL:
            estimate = max(1, int(min(estimate, self.dispatcher.most[0] or estimate)))
        return estimate

    def reload(self, policy: str, predictor: str, settings: Settings, classes: tuple[int, ...] = ()) -> None:
        """Use these from the next decision on; an empty predictor is the policy's default. `classes` is as in `Reloaded`.

        The predictor in use keeps what it has learned if it is named again, unless it comes from a user's file, which may
        have changed. An invalid policy or predictor raises InputError, and changes nothing.
        """
        deciding = self.dispatcher.parts.deciding
        if not predictor and deciding.predictor is not None:  # the dispatcher would keep it
            found = names.build("routing", names.parse(policy))
            predictor = default_predictor(found) if horizon_of(found) else ""
        if predictor == deciding.predictor_text and ".py" not in predictor:
            predictor = ""
        now_s, logged = time.monotonic(), to_log(settings)
        self.tell(ev.Reloaded(now_s=now_s, policy=policy, predictor=predictor, settings=logged, classes=classes))

    # --- workers -------------------------------------------------------------------------------------------------

    def attach(self, backend: Backend, slots: int, is_scraped: bool) -> None:
        """Add a worker, or change the description of a known one; `backend` is used for its next legs.

        `slots` is for a worker whose description has none. `is_scraped`: the host reads metrics pages; this one's is read if
        it has one and is to be `scraped`. Raises InputError, and changes nothing, if it is known with another role.
        """
        spec = backend.worker.spec(slots)
        scraped = spec.scraped and is_scraped and bool(backend.adapter.metrics_path)
        spec = msgspec.structs.replace(spec, scraped=scraped)
        former = self.backends.get(backend.name)
        self.backends[backend.name] = backend  # the event below may send waiting requests to it at once
        try:
            self.tell(ev.WorkerAdded(now_s=time.monotonic(), spec=spec))
        except InputError:
            if former is None:
                del self.backends[backend.name]
            else:
                self.backends[backend.name] = former
            raise

    def detach(self, name: str, drain: bool) -> None:
        """Remove a worker: with `drain` when its requests have finished there, else at once; they move on if they can.

        At the end `removed` is called.
        """
        self.tell(ev.WorkerRemoved(now_s=time.monotonic(), worker=name, drain=drain))

    def withdraw(self, may_return: Callable[[str], bool]) -> None:
        """No worker is left: end the requests that still wait, at once, except those for a model that `may_return`."""
        for exchange in list(self._exchanges.values()):
            if not may_return(exchange.request.model):
                exchange.withdraw()

    def is_leaving(self, name: str) -> bool:
        """Whether this worker gets no new requests, and is removed when its last one has ended."""
        found = self.dispatcher.fleet.find(name)
        return found is not None and found.leaves

    def work(self) -> list[tuple[bool, int, Backend]]:
        """For each decoding worker: whether it is ejected, its number of this gateway's requests, and the worker itself."""
        mirror, found = self.dispatcher.mirror, list[tuple[bool, int, Backend]]()
        for one in self.backends.values():
            place = mirror.place.get(one.name)
            if place is not None:
                requests = one.passing + mirror.at.running[place] + mirror.at.sent[place]
                found.append((not mirror.workers[place].is_up, requests, one))
        return found

    def probed(self, name: str, ok: bool) -> None:
        """Pass the result of a worker's health check to the dispatcher."""
        self.tell(ev.Probed(now_s=time.monotonic(), worker=name, ok=ok))

    def close(self) -> None:
        """Stop deciding, and close the log; later events are dropped, and requests get no answer."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self.log is not None:
            self.dispatcher.flush()
            self.log.close()

    # --- ticks ---------------------------------------------------------------------------------------------------

    def _tick_soon(self) -> None:
        """Note that a tick is due now; `_look` sends it after the socket reads at hand."""
        self._due_s = self._due_s or time.monotonic()
        self.look_soon()

    def _look(self) -> None:
        """Count chunks, and pass on held events and a due tick; the loop calls it after the socket reads at hand.

        It has no effect after `close`.
        """
        if self._is_closed:
            return
        due_s, self._due_s, self._is_looking = self._due_s, 0.0, False
        try:
            if self.dispatcher.due:
                due_s = due_s or time.monotonic()
            elif not due_s:
                self._tell_all(ticks=True)
                self._look_at_fit()
        finally:
            if due_s or self._events or self._ended:
                self.tell(ev.Tick(now_s=due_s or time.monotonic()))
                self._look_at_fit()

    def _look_at_fit(self) -> None:
        """If a fit of the predictor is due, begin to make it in a thread."""
        fit = self.dispatcher.fit
        if fit is not None:
            self._fitting.look(fit)

    def _wake_at(self, command: co.WakeAt) -> None:
        """Send a tick at the command's time, which replaces the time of the command before.

        If the process was stopped, ends of requests may wait in its sockets. So the loop reads them between both calls.
        """
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        wait_s = command.at_s - time.monotonic()
        if wait_s <= 0.0:
            self._tick_soon()
        else:
            self._timer = self._loop.call_later(wait_s, self._loop.call_soon, self._tick_soon)

    # --- commands ------------------------------------------------------------------------------------------------

    def _abort(self, command: co.Abort) -> None:
        exchange = self._exchanges.get(command.request)
        if exchange is not None:
            exchange.abort(command.leg)

    def _release(self, command: co.Release) -> None:
        exchange = self._exchanges.get(command.request)
        if exchange is not None:
            exchange.release()

    def _fail(self, command: co.Fail) -> None:
        if self._exchanges.pop(command.request).fail(command):
            self.dispatcher.completed()

    def _forget(self, command: co.Removed) -> None:
        backend = self.backends.pop(command.worker, None)
        if backend is not None:
            self._removed(self, backend.name, backend.worker.url)

    def _notice(self, command: co.Notice) -> None:
        _log.warning("%s", command.text, extra={"notice": command.kind, "about": command.about, "model": self.name})
