"""All served models and all workers, and the discovery of which worker serves which model.

A worker's models come from the config, or else from its ``/v1/models``, which is asked until it answers. Workers that share
a model name form one pool; adapters belong to the pool of their base.
"""

from __future__ import annotations

import asyncio
import logging
import math
import ssl
from collections.abc import Coroutine, Iterable
from typing import Any

from evenstep.dispatch import events as ev
from evenstep.dispatch.requests.tenants import Tenants
from evenstep.engines.view import EngineSample
from evenstep.errors import EngineError, InputError
from evenstep.gateway.config.config import GatewayConfig
from evenstep.gateway.config.worker import Worker
from evenstep.gateway.connections.engine import Endpoint
from evenstep.gateway.serve.backend import Backend
from evenstep.gateway.serve.decision_log import log_of
from evenstep.gateway.serve.models import ModelCard, card_of, joined, read_models
from evenstep.gateway.serve.served import ServedModel

_log = logging.getLogger("evenstep.gateway")
_PATIENCE_S = 5.0
_AGAIN_S, _AGAIN_CAP_S = 0.5, 5.0
_PROBE_S = 2.0


class Pools:
    """The pools of all served models, and the workers in them.

    Args:
        config: the gateway's config; `go_by` replaces it.
        loop: the event loop.
        tls: for engines with https; None = trust the system's authorities.

    Attributes:
        by_model: pool of each model that a worker ever served; aliases are not among them.
        cards: entries of ``/v1/models`` by name, as first seen; also of models that no worker serves now.
        workers: every worker, by name, also one that is leaving or has not yet said which models it serves.
        counted_here: names of workers at whose metrics URL no page of their engine was found. Of their load, only the
            requests of this gateway are known.
        is_scraped: True if the host reads metrics pages; the host sets it.
        is_draining: new requests are refused, see `drain`.
    """

    def __init__(self, config: GatewayConfig, loop: asyncio.AbstractEventLoop, tls: ssl.SSLContext | None = None) -> None:
        self.config, self.loop, self.tls = config, loop, tls
        self._tenants = Tenants()
        self.by_model: dict[str, ServedModel] = {}
        self.cards: dict[str, ModelCard] = {}
        self.workers: dict[str, Worker] = {}
        self.counted_here: set[str] = set()
        self._unread: set[str] = set()  # workers whose metrics page was not read at the last try
        self.is_scraped = False
        self._pools: dict[str, ServedModel] = {}  # by the name of their first model
        self._pool_of: dict[str, ServedModel] = {}  # by worker
        self._endpoints: dict[str, Endpoint] = {}
        self._retired: list[Endpoint] = []
        self.is_draining = False
        self._learning: dict[str, asyncio.Task[None]] = {}
        self._asked: set[Backend] = set()  # those that are asked for their version until they answer
        self._tasks: set[asyncio.Task[Any]] = set()

    @property
    def all(self) -> list[ServedModel]:
        """All pools in the order in which they were made, also those whose workers have all left."""
        return list(self._pools.values())

    @property
    def unknown(self) -> list[str]:
        """Names of workers that have not yet said which models they serve."""
        return list(self._learning)

    def pool_of(self, model: str) -> ServedModel | None:
        """The pool of a model or alias; None if it never had one, or if no workers of any model are left in that pool."""
        pool = self.by_model.get(self.config.aliases.get(model, model))
        return pool if pool is not None and pool.backends else None

    def may_return(self, model: str) -> bool:
        """Whether a worker once served this model or alias, and discovery, which may find one again, is configured."""
        discovery = self.config.discovery
        return bool(discovery.dns or discovery.kubernetes) and self.config.aliases.get(model, model) in self.by_model

    def listed(self) -> dict[str, ModelCard]:
        """The entries of ``/v1/models`` by name: all models that a worker serves at present, then the aliases of these."""
        served = {name for pool in self.all for backend in pool.backends.values() for name in backend.serves}
        aliases = [card_of(name, of) for name, of in self.config.aliases.items() if of in served]
        return joined({name: card for name, card in self.cards.items() if name in served}, aliases)

    def go_by(self, config: GatewayConfig) -> None:
        """Use another config from now on: its `slots` for workers without their own, and the present keys of workers.

        A worker whose key cannot be read keeps its former key. Workers that are leaving stay as they are.
        """
        has_other_slots, self.config = config.slots != self.config.slots, config
        for name, worker in list(self.workers.items()):
            pool = self._pool_of.get(name)
            if pool is not None and pool.is_leaving(name):
                continue
            try:
                key = worker.secret()
            except InputError as error:
                _log.warning("%s Until then its former key is used.", error)
                continue
            if pool is None or pool.backends[name].api_key != key:
                self.add(worker)
            elif has_other_slots and worker.slots is None:
                self._attach(pool, pool.backends[name])

    def renew(self, tls: ssl.SSLContext) -> None:
        """Use another TLS context for new connections to engines with https."""
        self.tls = tls
        for endpoint in self._endpoints.values():
            endpoint.renew(tls)

    # --- workers -------------------------------------------------------------------------------------------------

    def backend_of(self, worker: Worker) -> Backend:
        """A new `Backend` for a worker, which is not added. It shares the endpoint of an added worker with the same URL.

        Raises InputError for an unknown engine or an unreadable secret.
        """
        endpoint = self._endpoints.get(worker.url)
        if endpoint is None:
            endpoint = Endpoint(worker.url, self.config.engines, self.loop, self.tls)
        return Backend(worker, endpoint, worker.secret())

    def add(self, worker: Worker) -> None:
        """Add a worker, as `Worker.each` returns it, or change the description of a known one, even if it is leaving.

        If its description names no models, it is asked for them in the background until it answers. Then it joins a pool and
        gets requests. A known one with the same URL keeps its models. Raises InputError if its description is invalid, or it
        is known with another role; nothing has changed then.
        """
        backend = self.backend_of(worker)
        known = self.workers.get(worker.name)
        if known is not None and known.role != worker.role:
            raise InputError(f"worker {worker.name}", "role", worker.role, known.role, "Remove it first.")
        worker.spec(self.config.slots)
        cards = [card_of(name) for name in worker.models]
        named = self._pool_with(cards) if cards else None
        self._endpoints.setdefault(worker.url, backend.endpoint)
        self.workers[worker.name] = worker
        if known is not None:
            self._retire(known.url)
        backend.endpoint.restarts.clear()  # it may be another engine now
        self._stop_learning(worker.name)
        pool = self._pool_of.get(worker.name)
        if named is not None:
            self._place(named, backend, cards)
            self._later(self._learn_version(backend))
        elif pool is not None and (former := pool.backends[worker.name]).worker.url == worker.url:
            backend.serves = former.serves
            self._attach(pool, backend)
            self._later(self._learn_version(backend))
        else:
            self._learning[worker.name] = self.loop.create_task(self._learn(backend))

    def remove(self, name: str, drain: bool) -> None:
        """Remove a worker: with `drain` when its requests have finished there, else at once; they move on if they can.

        Once nothing runs there, `gone` is called. Raises InputError if there is no such worker.
        """
        if name not in self.workers:
            raise InputError("workers", "name", name, "the name of a known worker")
        self._stop_learning(name)
        pool = self._pool_of.get(name)
        if pool is None:
            self.gone(name)
        else:
            pool.detach(name, drain)

    def gone(self, name: str) -> None:
        """Forget a worker that runs nothing any more; its connections are closed if no other worker has its URL.

        A connection that still carries the answer to a forwarded request is closed when that has ended.
        """
        worker = self.workers.pop(name, None)
        self._pool_of.pop(name, None)
        self.counted_here.discard(name)
        self._unread.discard(name)
        if worker is not None:
            self._retire(worker.url)

    def _retire(self, url: str) -> None:
        """Close the connections to a URL, each at the end of its answer, unless a worker has this URL."""
        endpoint = None if any(one.url == url for one in self.workers.values()) else self._endpoints.pop(url, None)
        if endpoint is not None:
            self._retired = [one for one in (*self._retired, endpoint) if one.retire()]

    def sampling(self, names: tuple[str, ...]) -> None:
        """Note that the metrics of these workers are about to be read: they may miss requests sent from now on.

        Call it before each reading, and wait until it has run. Names of workers that are in no pool are ignored.
        """
        for name in names:
            pool = self._pool_of.get(name)
            if pool is not None:
                pool.tell(ev.Sampling(now_s=pool.now_s(), worker=name))

    def sampled(self, name: str, sample: EngineSample) -> None:
        """Pass a reading of a worker's metrics, announced by `sampling`, to its pool; ignored if it is in no pool.

        It ends `counts_alone` for the worker. The first reading after a failed one also asks for its version and models
        (`ask_again`).
        """
        pool = self._pool_of.get(name)
        if pool is None:
            return
        if name in self.counted_here and name in pool.backends:  # its page is there after all
            self.counted_here.discard(name)
            self._attach(pool, pool.backends[name])
        capacity = 0 if sample.kv_capacity == float("inf") else int(sample.kv_capacity)
        pool.tell(
            ev.Sampled(
                now_s=pool.now_s(),
                worker=name,
                running=sample.running,
                waiting=sample.waiting,
                kv_used=sample.kv_used,
                kv_tokens=capacity,
                prefix_queried=_counted(sample.prefix_queried),
                prefix_hit=_counted(sample.prefix_hit),
            )
        )
        if name in self._unread:  # it may have come back with another version or model
            self._unread.discard(name)
            self._ask_again(pool, name)

    def counts_alone(self, name: str) -> None:
        """Treat a worker without a metrics page as not scraped, not as full, until `sampled`. Ignores an unknown name."""
        if name in self.counted_here or name not in self.workers:
            return
        self.counted_here.add(name)
        pool = self._pool_of.get(name)
        if pool is not None and name in pool.backends:
            self._attach(pool, pool.backends[name])

    def scrape_failed(self, name: str) -> None:
        """Note that a worker's metrics could not be read: its last reading ages, and a prefiller counts as full.

        Ignored if it is in no pool.
        """
        pool = self._pool_of.get(name)
        if pool is not None:
            self._unread.add(name)
            pool.tell(ev.ScrapeFailed(now_s=pool.now_s(), worker=name))

    def drain(self) -> None:
        """Have every pool refuse new requests from now on, also pools that are made later."""
        self.is_draining = True
        for pool in self.all:
            pool.tell(ev.Draining(now_s=pool.now_s()))

    def close(self) -> None:
        """Close all connections, pools and decision logs, and stop asking workers; requests get no answer."""
        for task in (*self._learning.values(), *self._tasks):
            task.cancel()
        for endpoint in (*self._endpoints.values(), *self._retired):
            endpoint.close()
        for pool in self._pools.values():
            pool.close()

    # --- which models --------------------------------------------------------------------------------------------

    def ask_again(self) -> None:
        """Ask every worker in a pool again for its version, and which models it serves: adapters may have been loaded.

        Workers whose description names their models are not asked for these. It returns at once.
        """
        for name, pool in list(self._pool_of.items()):
            self._ask_again(pool, name)

    def _ask_again(self, pool: ServedModel, name: str) -> None:
        """In the background, ask a worker again for its version and models (`_look_again`)."""
        backend = pool.backends.get(name)
        if backend is not None and name not in self._learning:
            self._later(self._look_again(pool, backend))

    async def _look_again(self, pool: ServedModel, backend: Backend) -> None:
        """Ask a worker for its version, and for its models unless its description names them.

        New models are added to those it serves. A worker that serves none of the former ones moves.
        """
        self._later(self._learn_version(backend))
        if backend.worker.models:
            return
        cards = await _cards_of(backend)
        worker, names = self._still(pool, backend), {card.name for card in cards}
        if worker is None:
            return
        backend = pool.backends[backend.name]  # it may have been described anew
        if names and backend.serves.isdisjoint(names):
            self._changes(worker, backend.serves, cards)
            return
        backend.serves |= names
        self._list(pool, cards)

    def _still(self, pool: ServedModel, backend: Backend) -> Worker | None:
        """The present description of a worker that was asked at this backend; None if it has another pool or URL by now."""
        worker, url = self.workers.get(backend.name), backend.worker.url
        if worker is None or worker.url != url or self._pool_of.get(backend.name) is not pool:
            return None
        return worker if pool.backends[backend.name].worker.url == url else None

    async def _learn(self, backend: Backend) -> None:
        """Ask a worker for its models until it answers and their pool can be made; then put it into that pool."""
        wait_s, said = _AGAIN_S, ""
        while True:
            cards = await _cards_of(backend)
            why = f"{backend.name} does not say which models it serves; asking on"
            if cards:
                is_known = await backend.learn_version(_PROBE_S)
                try:
                    self._place(self._pool_with(cards), backend, cards)
                    if not is_known:
                        self._later(self._learn_version(backend))
                    break
                except InputError as error:
                    why = str(error)
            if why != said:
                said = why
                _log.warning("%s", why)
            await asyncio.sleep(wait_s)
            wait_s = min(_AGAIN_CAP_S, 2 * wait_s)
        del self._learning[backend.name]
        self._end_stranded()

    async def _learn_version(self, backend: Backend) -> None:
        """Ask a worker in a pool for its version until it answers, or is described anew or gone.

        If it is asked again and again already, ask it only once.
        """
        if await backend.learn_version(_PROBE_S) or backend in self._asked:
            return
        self._asked.add(backend)
        is_over = False
        while not is_over:
            await asyncio.sleep(_AGAIN_CAP_S)
            pool = self._pool_of.get(backend.name)
            is_over = pool is None or pool.backends[backend.name] is not backend or await backend.learn_version(_PROBE_S)
        self._asked.discard(backend)

    def _later(self, work: Coroutine[Any, Any, Any]) -> None:
        """Run a coroutine in a task, which `close` cancels."""
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _stop_learning(self, name: str) -> None:
        """Stop asking a worker for its models, if `_learn` does."""
        task = self._learning.pop(name, None)
        if task is not None:
            task.cancel()
            self.loop.call_soon(self._end_stranded)

    def _end_stranded(self) -> None:
        """End requests that wait in a pool without workers, as new ones for its models are refused (`Front`): by 404.

        They wait on while a worker may still say that it serves their model.
        """
        for pool in self.all:
            if not (pool.backends or self._learning):
                pool.withdraw(self.may_return)

    def _pool_with(self, cards: list[ModelCard]) -> ServedModel:
        """The pool that has one of these models or a base, else a new one; InputError if its tokenizer cannot be read."""
        known = (self.by_model[name] for card in cards for name in (card.name, card.parent) if name in self.by_model)
        return next(known, None) or self._new_pool([card.name for card in cards])

    def _place(self, pool: ServedModel, backend: Backend, cards: list[ModelCard]) -> None:
        """Put a worker into a pool, to serve these models."""
        backend.serves = frozenset(card.name for card in cards)
        self._list(pool, cards)
        self._attach(pool, backend)

    def _list(self, pool: ServedModel, cards: list[ModelCard]) -> None:
        """Let this pool serve these models, except those that another pool has or had."""
        for card in cards:
            self.by_model.setdefault(card.name, pool)
        self.cards = joined(self.cards, cards)

    def _attach(self, pool: ServedModel, backend: Backend) -> None:
        """Add a worker to a pool, or change its description there; it leaves its former pool when its requests there end."""
        old = self._pool_of.get(backend.name)
        pool.attach(backend, self.config.slots, self.is_scraped and backend.name not in self.counted_here)
        self._pool_of[backend.name] = pool
        if old is not None and old is not pool:
            old.detach(backend.name, drain=True)

    def _new_pool(self, names: list[str]) -> ServedModel:
        """Make an empty pool for models of these names, one or more, and add it; it is called by the first of them."""
        config, name = self.config, names[0]
        log = log_of(config.decisions, name, [other.log for other in self.all if other.log is not None])
        pool = self._pools[name] = ServedModel(
            name,
            config.weighed_policy(),
            config.predictor,
            config.settings(),
            loop=self.loop,
            probe=lambda pool, backend: self._later(self._ask_health(pool, backend)),
            removed=self._left,
            denied=lambda pool, backend: self._later(self._serves(pool, backend)),
            tokenizer=next((config.tokenizers[one] for one in names if one in config.tokenizers), ""),
            log=log,
            tenants=self._tenants,
        )
        if self.is_draining:
            pool.tell(ev.Draining(now_s=pool.now_s()))
        return pool

    def _left(self, pool: ServedModel, name: str, url: str) -> None:
        """Forget a worker that a pool has removed. One that has another pool, or another URL by now, stays known."""
        self.loop.call_soon(self._end_stranded)
        if self._pool_of.get(name) not in (pool, None):
            return
        known = self.workers.get(name)
        if known is None or known.url == url:
            self.gone(name)
        else:
            self._pool_of.pop(name, None)

    async def _serves(self, pool: ServedModel, backend: Backend) -> bool:
        """Ask a worker that denied models for its list. Returns whether the list has all models that it denied.

        If not, it serves those in the list from now on (`_changes`). Without a valid answer it is False, and nothing
        changes.
        """
        cards = await _cards_of(backend)
        worker, names = self._still(pool, backend), {card.name for card in cards}
        if not names or worker is None:
            return False
        if backend.denied <= names:
            return True
        self._changes(worker, backend.denied, cards)
        return False

    def _changes(self, worker: Worker, former: Iterable[str], cards: list[ModelCard]) -> None:
        """Log that a worker's models have changed; let it serve the new ones, unless its description names its models."""
        text = "%s does not serve %s any more; it serves %s"
        _log.warning(text, worker.name, ", ".join(sorted(former)), ", ".join(sorted(card.name for card in cards)))
        if worker.models:  # its health checks fail until it serves them
            return
        fresh = self.backend_of(worker)
        fresh.endpoint.restarts.clear()
        self._place(self._pool_with(cards), fresh, cards)
        self._later(self._learn_version(fresh))

    # --- health --------------------------------------------------------------------------------------------------

    async def _ask_health(self, pool: ServedModel, backend: Backend) -> None:
        """Ask a worker for its health, and for its models if it denied some; report to its pool. Success clears `denied`."""
        status, _ = await backend.fetch(backend.adapter.health_path, _PROBE_S)
        is_well = status == 200 and (not backend.denied or await self._serves(pool, backend))
        if is_well:
            backend.denied.clear()
        pool.probed(backend.name, is_well)


async def _cards_of(backend: Backend) -> list[ModelCard]:
    """Ask a worker for the models that it lists; empty without a valid answer."""
    status, body = await backend.fetch("/v1/models", _PATIENCE_S)
    try:
        return read_models(body) if status == 200 else []
    except EngineError:
        return []


def _counted(tokens: float) -> int:
    """The count of an engine as an int; -1 for nan, which means not reported."""
    return -1 if math.isnan(tokens) else int(tokens)
