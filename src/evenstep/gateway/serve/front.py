"""Takes each whole request: finds its caller, options and model, and gives it to a pool, forwards it, or refuses it."""

from __future__ import annotations

import itertools
import posixpath
import re
import secrets
import time
from collections import Counter
from email.message import Message
from typing import TYPE_CHECKING
from urllib.parse import unquote

import msgspec

from evenstep.dispatch.events import Arrived
from evenstep.engines.requests import refusals
from evenstep.engines.requests.parsing import Kind, kind_of, read_request
from evenstep.engines.requests.prompt_blocks import name_key, prompt_blocks, prompt_key
from evenstep.engines.requests.refusals import Refusal
from evenstep.errors import InputError
from evenstep.gateway.config.sections import Limits
from evenstep.gateway.connections.callers import Callers
from evenstep.gateway.connections.client import Client, Received
from evenstep.gateway.connections.request_context import RequestContext, cached, context_of
from evenstep.gateway.serve.ended import Sink, begun
from evenstep.gateway.serve.exchange import Exchange
from evenstep.gateway.serve.models import page
from evenstep.gateway.serve.pools import Pools
from evenstep.gateway.serve.proxying import ProxiedRequest
from evenstep.http.head import read_request_head

if TYPE_CHECKING:
    from evenstep.gateway.config.config import GatewayConfig

_PASSED = re.compile(r"/(?:v1/.+|tokenize|detokenize|pooling|classify|score|rerank|v2/(?:rerank|embed))")
#: Paths that change one engine alone; for its operator, not for clients.
_NOT_PASSED = {"/v1/load_lora_adapter", "/v1/unload_lora_adapter"}
#: The head of the part of a form that names the model.
_MODEL_FIELD = re.compile(rb'(?i)\r\ncontent-disposition:[^\r\n]*;[ \t]*name="?model"?[ \t]*(?:[;\r]|\Z)')
_HEALTH = {"/healthz", "/health", "/readyz"}
_TEXT = b"text/plain; charset=utf-8"


class _Named(msgspec.Struct):
    model: str | None = None


class Front:
    """Takes requests from every connection; see `connections.client.Service`.

    `salt` is the key of the hashes of prompts and names; empty = hashes without a key. Raises InputError if a client's key
    cannot be read or appears twice.

    Attributes:
        limits, read: limits of clients, and the parser of their heads with its cache, under the config in force.
        clients: open connections.
        codes: HTTP status -> number of answers that began, counted by each `Client`.
        passing: running requests that are not generations.
        why_not_ready: set by the gateway; "starting" at first, empty once its workers are added.
        sinks: get the summary of each ended request that has no class, was forwarded, or was refused before a pool had it.
        class_sinks: get the summary of each other ended request.
    """

    def __init__(self, pools: Pools, config: GatewayConfig, salt: bytes) -> None:
        self.pools = pools
        self.clients: set[Client] = set()
        self.codes: Counter[int] = Counter()
        self.passing: set[ProxiedRequest] = set()
        self.why_not_ready = "starting"
        self.sinks: tuple[Sink, ...] = ()
        self.class_sinks: tuple[Sink, ...] = ()
        self._salt = salt
        self._front = secrets.token_hex(6)
        self._numbers = itertools.count(1)
        self.go_by(config, Callers(config))

    def go_by(self, config: GatewayConfig, callers: Callers) -> None:
        """From now on use another config's limits for clients, session headers, origins and callers; empties the cache.

        `callers` are made from `config`; they hold its keys and classes.
        """
        self.limits: Limits = config.limits
        self._callers, self._session_headers = callers, tuple(name.lower() for name in config.session_headers)
        self._origins = frozenset(origin.lower() for origin in config.allowed_origins)
        self.read = cached(self._read_head, self._session_headers)  # the same head may now have another meaning

    def listen_to(self, sinks: tuple[Sink, ...], class_sinks: tuple[Sink, ...]) -> None:
        """Report the end of each request that arrives from now on to these sinks alone; running requests keep theirs."""
        self.sinks, self.class_sinks = sinks, class_sinks

    # --- called by connections ------------------------------------------------------------------------------------

    def new_name(self) -> str:
        """A new id for a request whose client gave no id: this gateway's random prefix, ``-``, a hexadecimal count."""
        return "%s-%x" % (self._front, next(self._numbers))  # noqa: UP031  # twice as fast as an f-string's :x

    @property
    def is_draining(self) -> bool:
        """Whether generations and requests to forward are refused (`Pools.drain`); then each answer ends its connection."""
        return self.pools.is_draining

    def serve(self, request: Received, client: Client) -> None:
        """Answer a request at once, or set `Client.job`, which answers later.

        Health checks need no key, nor does the question of a browser what a page may send. A generation goes to the pool of
        its model. A known path goes to an engine, unless it is a GET or HEAD of ``/v1/models`` or below.
        """
        context = request.context
        if context.kind == "other" and context.head.path in _HEALTH:
            self._health(context.head.path, client)
        elif context.for_page and context.asks_what_is_allowed:
            client.reply(200, b"ok", _TEXT)
        elif context.refusal is not None and (context.kind != "other" or context.caller is None):
            self.turn_away(request, client, context.refusal)
        elif context.kind == "other":
            self._other(request, client)
        else:
            self._generate(context.kind, request, client)

    def turn_away(self, request: Received, client: Client, refusal: Refusal, model: str = "") -> None:
        """Refuse a request that no pool has seen, whole or not, and report it to the sinks; as an error if a bug met it.

        `model` is the one it asks for.
        """
        client.refuse(refusal)
        if self.sinks:
            story = begun(self.sinks, request.name, request.context, time.monotonic(), refusals.short(model))
            story.ended("error" if refusal is refusals.BUG else "refused", refusal.status)

    def _read_head(self, head: bytes) -> tuple[RequestContext, int, bool]:
        """Parse a head; returns the context, the body length, and whether to cache both: if its key is valid."""
        found = read_request_head(head)
        context = context_of(found, self._callers, self._session_headers, self._origins)
        return context, found.length, context.caller is not None

    # --- generations ---------------------------------------------------------------------------------------------

    def _generate(self, kind: Kind, received: Received, client: Client) -> None:
        """Give a generation request to the pool of its model; refuse it if it is invalid or there is no such pool."""
        context = received.context
        try:
            request = read_request(kind, received.body)
        except InputError as error:
            coding = context.head.headers.get("content-encoding") or "identity"
            refusal = refusals.bad_request(error) if coding.lower() == "identity" else refusals.compressed(coding)
            self.turn_away(received, client, refusal)
            return
        caller, name = context.caller, received.name
        assert caller is not None
        pool = self.pools.pool_of(request.model)
        if pool is None:
            self.turn_away(received, client, self._unknown(request.model), request.model)
            return
        now_s = time.monotonic()
        exchange = Exchange(pool, client, request, name, context)
        estimate = pool.estimate(exchange)
        sinks = self.class_sinks if context.number else self.sinks
        copies = request.best_of * request.prompts
        if sinks:
            streams = copies if request.stream else 0
            exchange.story = begun(sinks, name, context, now_s, request.model, estimate, context.number, streams)
        salt, blocks = self._salt, ()
        if pool.reads_cached:
            blocks = tuple(prompt_blocks(request, salt, block_bytes=pool.dispatcher.settings.prefix_block_bytes))
        session = context.session or context.task or request.user
        event = Arrived(
            now_s=now_s,
            request=pool.number(exchange),
            prompt_tokens=estimate,
            tenant=caller.tenant,
            request_class=self._callers.number_of(caller, context.number) if context.number else 0,
            key=prompt_key(request, salt),
            session=name_key(session, salt) if session else 0,
            task=name_key(context.task, salt) if context.task else 0,
            priority=context.priority,
            max_tokens=max(0, request.max_tokens),
            expected_tokens=context.expected,
            copies=copies,
            can_continue=exchange.can_continue,
            blocks=blocks,
        )
        pool.arrives(event)

    def _unknown(self, model: str) -> Refusal:
        """The refusal of an unknown model: 404, or 503 while a worker may still say that it serves it."""
        pools = self.pools
        is_early = self.why_not_ready or pools.unknown or not pools.all or pools.may_return(model)
        return refusals.overloaded(1.0) if is_early else refusals.unknown_model(model)

    # --- everything else -----------------------------------------------------------------------------------------

    def _health(self, path: str, client: Client) -> None:
        """Answer a health check with status 200; ``/readyz`` with 503 and the reason if the gateway is not ready."""
        why, notes = (self.not_ready(), self.notes()) if path == "/readyz" else ("", [])
        client.reply(503 if why else 200, "\n".join((why or "ok", *notes)).encode(), _TEXT)

    def notes(self) -> list[str]:
        """Problems that an operator should mend, although requests are served: a sentence for each, empty = no problem."""
        alone = [
            f"{name} has no metrics page of its engine: only requests of this gateway are counted there"
            for name in sorted(self.pools.counted_here)
        ]
        retry_s = self.pools.config.decisions.retry_s
        return alone + [
            f"the decision log of {pool.name} failed: {pool.log.why}; it is tried again every {retry_s:g} s"
            for pool in self.pools.all
            if pool.log is not None and pool.log.why
        ]

    def not_ready(self) -> str:
        """The reason why the gateway should get no requests, or no more; empty if it is ready.

        It is ready while a worker serves a model and the load of some worker is known, unless it still starts, or drains.
        """
        if self.is_draining:
            return "draining"
        if self.why_not_ready:
            return self.why_not_ready
        if not any(pool.backends for pool in self.pools.all):
            waiting = self.pools.unknown
            return f"no worker has said which models it serves ({len(waiting)} asked)" if waiting else "no worker"
        if not any(worker.is_known for pool in self.pools.all for worker in pool.dispatcher.mirror.workers):
            return "the metrics of no worker could be read yet: all count as full"
        return ""

    def _other(self, request: Received, client: Client) -> None:
        """Answer a GET or HEAD of ``/v1/models`` or below, forward another known path, and refuse an unknown one."""
        head = request.context.head
        path = head.path
        if path == "/v1/models" and head.method in ("GET", "HEAD"):
            client.reply(200, page(self.pools.listed().values()))
        elif path.startswith("/v1/models/") and head.method in ("GET", "HEAD"):
            name = unquote(path.removeprefix("/v1/models/"))
            card = self.pools.listed().get(name)
            if card is None:
                self.turn_away(request, client, refusals.unknown_model(name))
            else:
                client.reply(200, card.text)
        elif head.method == "TRACE" or _PASSED.fullmatch(path) is None or path in _NOT_PASSED or not _is_plain(path):
            self.turn_away(request, client, refusals.unknown_path(head.method, path))
        else:
            self._pass(request, client)

    def _pass(self, request: Received, client: Client) -> None:
        """Forward a request to an engine: of the pool of its model, or of any pool if it names no model."""
        model = _model_of(request)
        if model:
            pool = self.pools.pool_of(model)
            if pool is None:
                self.turn_away(request, client, self._unknown(model), model)
                return
            pools = [pool]
        else:
            pools = self.pools.all
        work = sorted((found for pool in pools for found in pool.work()), key=lambda found: found[:2])
        engines = [one for _, _, one in work]
        if not engines or self.is_draining:
            self.turn_away(request, client, refusals.overloaded(1.0))
            return
        story = None
        if self.sinks:
            story = begun(self.sinks, request.name, request.context, time.monotonic(), model)
        passing = ProxiedRequest(client, request, engines, self.passing.discard, story)
        self.passing.add(passing)
        client.job = passing
        passing.send()


def _is_plain(path: str) -> bool:
    """Whether a path is still one to forward, and not a generation, once an engine has decoded and normalised it."""
    read = posixpath.normpath(unquote(path.partition("#")[0]))
    if _PASSED.fullmatch(read) is None or read in _NOT_PASSED or "\\" in read:
        return False
    return read == path or kind_of("POST", read) == "other"


def _model_of(request: Received) -> str:
    """The model that a request's body names, as JSON or as a form with parts; empty if it is neither, or names none."""
    kind = request.context.head.headers.get("content-type", "")
    if kind.lower().startswith("multipart/form-data"):
        return _model_in_form(kind, request.body)
    if "json" not in kind.lower():
        return ""
    try:
        return msgspec.json.decode(request.body, type=_Named).model or ""
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ""


def _model_in_form(kind: str, body: bytes) -> str:
    """The field ``model`` of a form with the content type `kind` (RFC 7578), as of an audio file; empty without one."""
    described = Message()
    described["content-type"] = kind
    boundary = described.get_boundary()
    if not boundary:
        return ""
    edge = b"\r\n--%b" % boundary.encode("latin-1", "replace")
    start = 0 if body.startswith(edge[2:]) else body.find(edge)
    while start >= 0 and (head := body.find(b"\r\n\r\n", start)) >= 0:  # a file may have 100 MB: it is not copied
        end = body.find(edge, head)
        if _MODEL_FIELD.search(body, start, head):
            return body[head + 4 : end if end >= 0 else None].decode("utf-8", "replace")
        start = end
    return ""
