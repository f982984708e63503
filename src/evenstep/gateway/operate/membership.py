"""The members of the fleet: the union of the workers from config, admin API and discovery.

Each source owns its workers: an update of one source never changes the workers of another. As an exception, the config takes
over a worker of the admin API that it describes in the same way. A change is planned first, and a conflict between sources
is refused before it has any effect. Then it is carried out, worker by worker. Discovery skips workers that others own.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from evenstep.errors import InputError
from evenstep.gateway.config.worker import Worker, listed_twice
from evenstep.gateway.operate.control import ControlProxy

_log = logging.getLogger("evenstep.gateway.operate.membership")
#: Sources that a gateway always has.
CONFIG, ADMIN = "config", "admin"
#: Fields of a worker that may change while it serves; a change of any other field is refused.
_MAY_CHANGE = {"group", "slots", "kv_tokens", "speed", "scraped", "api_key"}


@dataclass(frozen=True, slots=True)
class Plan:
    """The planned workers of a source, and the changes that follow."""

    source: str  # name of the source
    workers: dict[str, Worker]  # all that it will own
    joins: list[Worker]  # those of them that are new or have changed
    adopts: list[str]  # names of those that the config takes over from the admin API
    leaves: list[str]  # names of workers that the source owns now and will not own
    skips: list[str]  # names of workers that discovery found, but whose name or engine another worker has


class Membership:
    """The fleet by source. Use it on the event loop of the operation thread.

    Args:
        proxy: calls the gateway.
        workers: those of the config, which the gateway has or will add when it starts.
        changed: called with the whole fleet after every change.
    """

    def __init__(self, proxy: ControlProxy, workers: Iterable[Worker], changed: Callable[[list[Worker]], None]) -> None:
        self._proxy, self._changed = proxy, changed
        self._owned: dict[str, dict[str, Worker]] = {CONFIG: {w.name: w for w in workers}, ADMIN: {}}
        self._turn = asyncio.Lock()
        self._skipped: dict[str, list[str]] = {}  # discovery source -> the skipped names logged last

    def workers(self) -> list[Worker]:
        """The workers of all sources, by source: config, admin API, then discovery."""
        return [worker for owned in self._owned.values() for worker in owned.values()]

    def source_of(self, name: str) -> str:
        """The owner of this worker: ``config``, ``admin`` or the name of a discovery source; empty if no source has it."""
        return next((source for source, owned in self._owned.items() if name in owned), "")

    def plan(self, source: str, workers: Iterable[Worker]) -> Plan:
        """The changes that give a source exactly these workers; nothing is changed yet.

        For a discovery source, workers whose name or engine (URL, role, rank) another worker has are skipped. For other
        sources they raise InputError, unless the config adopts an equal worker of the admin API. InputError is also raised
        if a worker of the source differs from before in more than its group, slots, KV capacity, speed, scraping or key.
        """
        wanted, owned = {worker.name: worker for worker in workers}, self._owned.get(source, {})
        others = {one.name: one for other, has in self._owned.items() if other != source for one in has.values()}
        is_found = source not in (CONFIG, ADMIN)
        skips = [name for name in wanted if is_found and name in others]
        news = [worker for name, worker in wanted.items() if name not in skips]
        for worker in news:
            self._check(source, worker, owned.get(worker.name))
        stay = [worker for name, worker in others.items() if name not in wanted or name in skips]
        for worker, error in listed_twice([*stay, *news]):
            if not is_found:
                raise error
            skips.append(worker.name)
        wanted = {name: worker for name, worker in wanted.items() if name not in skips}
        adopts = [name for name in wanted if source == CONFIG and name in self._owned[ADMIN]]
        joins = [worker for name, worker in wanted.items() if name not in adopts and owned.get(name) != worker]
        return Plan(source, wanted, joins, adopts, [name for name in owned if name not in wanted], skips)

    async def replace(self, source: str, workers: Iterable[Worker]) -> Plan:
        """Give a source, known or new, exactly these workers, one change at a time; returns the plan that was carried out.

        Workers that leave finish their requests. An InputError of `plan` changes nothing. If the gateway refuses a worker,
        that InputError is raised, and the changes before it stay.
        """
        async with self._turn:
            plan = self.plan(source, workers)
            for name in plan.skips:
                if name not in self._skipped.get(source, []):
                    text = "a discovered worker is skipped: another source has it"
                    _log.warning(text, extra={"worker": name, "source": source})
            self._skipped[source] = plan.skips
            await self._apply(plan)
            return plan

    async def add(self, workers: Iterable[Worker]) -> None:
        """Add workers for an operator (admin API): new ones, or changed descriptions of those added before.

        Raises InputError for a conflict (`plan`), which changes nothing, or if the gateway refuses a worker.
        """
        async with self._turn:
            await self._apply(self.plan(ADMIN, [*self._owned[ADMIN].values(), *workers]))

    async def remove(self, name: str, drain: bool) -> None:
        """Remove a worker of any source, or change how a leaving one leaves.

        With `drain`, its requests finish there first; else they continue elsewhere at once if they can. A reload or a
        look-up may bring it back. Raises InputError if no worker has this name.
        """
        async with self._turn:
            await asyncio.wrap_future(self._proxy.ask(self._proxy.gateway.remove, name, drain))
            source = self.source_of(name)
            if source:
                self._left(source, name)
                self._changed(self.workers())

    async def _apply(self, plan: Plan) -> None:
        """Carry out a plan, worker by worker. If any joins or leaves, report the fleet to `changed`, even after an error."""
        owned = self._owned.setdefault(plan.source, {})
        owned |= {name: self._owned[ADMIN].pop(name) for name in plan.adopts}
        if not (plan.joins or plan.leaves):
            return
        try:
            for worker in plan.joins:
                await asyncio.wrap_future(self._proxy.ask(self._proxy.gateway.pools.add, worker))
                said = "worker described anew" if worker.name in owned else "worker joined"
                owned[worker.name] = worker
                _log.info(said, extra={"worker": worker.name, "source": plan.source})
            for name in plan.leaves:
                await asyncio.wrap_future(self._proxy.ask(self._proxy.gateway.remove, name, True))
                self._left(plan.source, name)
        finally:
            self._changed(self.workers())

    def _left(self, source: str, name: str) -> None:
        """Remove a worker from the workers of its source, and log that it leaves."""
        del self._owned[source][name]
        _log.info("worker leaves", extra={"worker": name, "source": source})

    def _check(self, source: str, worker: Worker, before: Worker | None) -> None:
        """Raise InputError if another source owns the name of a worker, or if it changed in a field that may not change."""
        other = self.source_of(worker.name)
        is_adopted = source == CONFIG and self._owned[ADMIN].get(worker.name) == worker
        if other and other != source and not is_adopted:
            hint = f"{other} has it already."
            raise InputError("workers", "name", worker.name, "a name that is free", hint)
        if before is None:
            return
        for field in dataclasses.fields(Worker):
            if field.name not in _MAY_CHANGE and getattr(worker, field.name) != getattr(before, field.name):
                hint = "Give the worker another name, or remove it first."
                expected = str(getattr(before, field.name))
                raise InputError(f"worker {worker.name}", field.name, getattr(worker, field.name), expected, hint)
