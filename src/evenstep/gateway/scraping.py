"""Reading the engines' own metrics, page by page, away from the data path: it gets values, never waits for a page.

Several ranks behind one address are on one page, which is fetched once. A page that cannot be fetched or read is a failed
reading of each of its workers: unknown load is never taken for none.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from evenstep import names
from evenstep.engines.view import EngineAdapter, EngineSample
from evenstep.errors import EngineError, InputError
from evenstep.gateway.control import Doorway
from evenstep.gateway.logs import fields
from evenstep.gateway.secrets import read_secret
from evenstep.gateway.sections import Engines
from evenstep.gateway.worker import Worker

if TYPE_CHECKING:
    import aiohttp

_log = logging.getLogger("evenstep.gateway.scraping")
_LARGEST_PAGE = 32 << 20
_OK = 200
_FIRST_S = 0.1  # before the second reading, doubled until it is as configured: a new worker is known soon


@dataclass(frozen=True, slots=True)
class Place:
    """One metrics page.

    Args:
        url: of the page.
        engine: what is spoken there, as the config names it.
        api_key: as the config has it.
    """

    url: str
    engine: str
    api_key: str


def place_of(worker: Worker) -> Place | None:
    """The page a worker is on; None where it has none."""
    page = adapter_of(worker).metrics_path
    if not (worker.scraped and page):
        return None
    parts = urlsplit(worker.url)
    return Place(f"{parts.scheme}://{parts.netloc}{page}", worker.engine, worker.api_key)


def adapter_of(worker: Worker) -> EngineAdapter:
    """What speaks a worker's dialect.

    Raises:
        InputError: no such engine or option.
    """
    return _adapter(worker.engine)


@cache
def _adapter(engine: str) -> EngineAdapter:
    """Finding one by its name takes longer than reading a page."""
    return names.build("engines", names.parse(engine))


class Scraper:
    """Reads every page again and again, and tells the gateway.

    Args:
        door: the way to the gateway.
        engines: how often, how long.
        session: fetches pages.
    """

    def __init__(self, door: Doorway, engines: Engines, session: aiohttp.ClientSession) -> None:
        self._door, self._engines, self._session = door, engines, session
        self._tasks: dict[Place, asyncio.Task[None]] = {}
        self._on: dict[Place, list[Worker]] = {}
        self._bad: dict[Place, str] = {}
        self.results: Counter[str] = Counter({"ok": 0, "failed": 0})

    def follow(self, workers: Iterable[Worker]) -> None:
        """Read the pages of exactly these workers from now on."""
        self._on = {}
        for worker in workers:
            place = place_of(worker)
            if place is not None:
                self._on.setdefault(place, []).append(worker)
        for place in [p for p in self._tasks if p not in self._on]:
            self._tasks.pop(place).cancel()
            self._bad.pop(place, None)
        for place in self._on:
            if place not in self._tasks:
                self._tasks[place] = asyncio.create_task(self._read_on(place))

    def reload(self, engines: Engines) -> None:
        """Other intervals from the next reading on."""
        self._engines = engines

    async def stop(self) -> None:
        """Read nothing any more."""
        tasks = list(self._tasks.values())
        self.follow([])
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _read_on(self, place: Place) -> None:
        wait_s = _FIRST_S
        while True:
            await self._read(place)
            await asyncio.sleep(min(wait_s, self._engines.scrape_s))
            wait_s *= 2

    async def _read(self, place: Place) -> None:
        workers, control = self._on[place], self._door.control
        await asyncio.wrap_future(self._door.ask(control.sampling, tuple(worker.name for worker in workers)))
        try:
            async with asyncio.timeout(self._engines.scrape_timeout_s):
                found = await fetch(self._session, place)
        except Exception as error:
            self._failed(place, error)
            found = {}
        else:
            self._recovered(place)
        for worker in workers:
            sample = state_of(worker, found)
            if sample is None:
                self._door.tell(control.scrape_failed, worker.name)
            else:
                self._door.tell(control.sampled, worker.name, sample)

    def _failed(self, place: Place, error: Exception) -> None:
        self.results["failed"] += 1
        said = str(error) or type(error).__name__
        if self._bad.get(place) != said:
            self._bad[place] = said
            _log.warning("metrics cannot be read", extra=fields(url=place.url, why=said))

    def _recovered(self, place: Place) -> None:
        self.results["ok"] += 1
        if self._bad.pop(place, ""):
            _log.info("metrics can be read again", extra=fields(url=place.url))


def state_of(worker: Worker, samples: dict[int, EngineSample]) -> EngineSample | None:
    """The state of a worker: of its rank, or of all ranks on the page together where it is none of them.

    None where its rank is not on the page. One instance of an external load balancer has a page of its own on which its rank
    keeps its number.
    """
    if worker.rank is not None or not samples:
        return samples.get(worker.rank or 0)
    all_ = list(samples.values())
    if len(all_) == 1:
        return all_[0]
    return EngineSample(
        rank=0,
        running=sum(one.running for one in all_),
        waiting=sum(one.waiting for one in all_),
        kv_tokens=sum(one.kv_tokens for one in all_),
        kv_capacity=sum(one.kv_capacity for one in all_),
        block_size=all_[0].block_size,
        generated_tokens=sum(one.generated_tokens for one in all_),
    )


async def fetch(session: aiohttp.ClientSession, place: Place) -> dict[int, EngineSample]:
    """The state of each rank on a page.

    Raises:
        EngineError: another status than 200, a page that is too large or lacks what is needed.
        aiohttp.ClientError: no connection, or one that broke.
    """
    key = read_secret(place.api_key, place.url, "api_key")
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with session.get(place.url, headers=headers, allow_redirects=False) as answer:
        if answer.status != _OK:
            raise EngineError(f"metrics page: status is {answer.status}; expected {_OK}.")
        page = bytearray()
        async for piece in answer.content.iter_chunked(1 << 16):
            page += piece
            if len(page) > _LARGEST_PAGE:
                raise EngineError(f"metrics page: size is over {_LARGEST_PAGE} bytes; expected less.")
    return {sample.rank: sample for sample in _adapter(place.engine).samples(bytes(page))}


async def preflight(session: aiohttp.ClientSession, workers: Iterable[Worker], timeout_s: float) -> list[str]:
    """See, before anything is served, that what is configured is what engines say of themselves.

    Returns:
        Names of workers that could not be asked: they count as full until they can.

    Raises:
        InputError: a worker has less KV memory than its config says, or there is no such rank on its page.
    """
    asked = [(worker, place) for worker in workers if (place := place_of(worker)) is not None]
    pages = {place: None for _, place in asked}

    async def one(place: Place) -> dict[int, EngineSample] | None:
        try:
            async with asyncio.timeout(timeout_s):
                return await fetch(session, place)
        except InputError:
            raise
        except Exception:
            return None

    found = dict(zip(pages, await asyncio.gather(*map(one, pages)), strict=True))
    silent: list[str] = []
    for worker, place in asked:
        samples = found[place]
        if samples is None:
            silent.append(worker.name)
        else:
            _compare(worker, samples)
    return silent


def _compare(worker: Worker, samples: dict[int, EngineSample]) -> None:
    where = f"worker {worker.name}"
    sample = state_of(worker, samples)
    if sample is None:
        ranks = ", ".join(map(str, sorted(samples)))
        raise InputError(where, "rank", worker.rank or 0, f"a rank on its metrics page: {ranks}")
    if worker.kv_tokens and math.isfinite(sample.kv_capacity) and worker.kv_tokens > sample.kv_capacity:
        hint = "Leave it out to take what the engine says."
        raise InputError(where, "kv_tokens", worker.kv_tokens, f"at most {sample.kv_capacity:.0f}", hint)
