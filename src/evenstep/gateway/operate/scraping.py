"""Scrapes the engines' metrics pages outside the data path, and passes their values on to it.

Workers with the same metrics URL, dialect and key share one page, which is fetched once. If a page cannot be fetched or
parsed, the reading fails for each of its workers, and their load is unknown, not zero. If it was never a metrics page of the
engine, the gateway relies on its own counts.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from evenstep.engines.view import EngineSample, NotItsPageError
from evenstep.errors import EngineError, InputError
from evenstep.gateway.config.secrets import read_secret
from evenstep.gateway.config.sections import Engines
from evenstep.gateway.config.worker import Worker, adapter_of
from evenstep.gateway.connections.pages import NoPageError, Pages
from evenstep.gateway.operate.control import ControlProxy

_log = logging.getLogger("evenstep.gateway.operate.scraping")
_COUNTS = ("running", "waiting")
_TOKENS = ("kv_tokens", "kv_capacity", "prefix_queried", "prefix_hit")
_MOST = {**dict.fromkeys(_COUNTS, 1e9), **dict.fromkeys(_TOKENS, 1e15)}  # largest value of each field
_FIRST_S = 0.1  # wait before the second reading; doubles up to the configured interval


@dataclass(frozen=True, slots=True)
class EnginePage:
    """One metrics page; workers with equal ones share it. `url` is the page's, `engine` its dialect as in the config.

    `api_key` is as in the config: env:NAME, file:PATH or the key; empty = no key.
    """

    url: str
    engine: str
    api_key: str


def page_of(worker: Worker) -> EnginePage | None:
    """The metrics page that shows a worker; None if the worker is not to be scraped, or its engine has no page.

    The page is below the path of the worker's URL, as its other paths are. Raises InputError for an unknown engine.
    """
    path = adapter_of(worker.engine).metrics_path
    if not (worker.scraped and path):
        return None
    return EnginePage(f"{worker.url.rstrip('/')}{path}", worker.engine, worker.api_key)


class Scraper:
    """Reads every metrics page repeatedly, and reports to the gateway. Use it on the event loop of the operation thread.

    For each worker it calls `Pools.sampling` before a reading, and then `sampled`, `scrape_failed` or `counts_alone`.

    Args:
        proxy: calls the gateway.
        engines: the interval of readings, and the longest wait for one.
        pages: fetches the pages.

    Attributes:
        results: number of readings of pages by result, ``ok`` or ``failed``.
    """

    def __init__(self, proxy: ControlProxy, engines: Engines, pages: Pages) -> None:
        self._proxy, self._engines, self._pages = proxy, engines, pages
        self._tasks: dict[EnginePage, asyncio.Task[None]] = {}
        self._on: dict[EnginePage, list[Worker]] = {}
        self._bad: dict[EnginePage, str] = {}
        self._good: set[EnginePage] = set()  # pages read at least once
        self._new_interval = asyncio.Event()  # ends the waits of all pages
        self._asking: tuple[list[str], asyncio.Event] | None = None  # workers about to be read; set once the gateway knows
        self._news = list[tuple[Callable[..., None], tuple[Any, ...]]]()  # calls not yet sent to the gateway
        self.results: Counter[str] = Counter({"ok": 0, "failed": 0})

    def follow(self, workers: Iterable[Worker]) -> None:
        """From now on read the pages of exactly these workers, each page in its own task; a new page is read at once."""
        self._on = {}
        for worker in workers:
            page = page_of(worker)
            if page is not None:
                self._on.setdefault(page, []).append(worker)
        for page in [p for p in self._tasks if p not in self._on]:
            self._tasks.pop(page).cancel()
            self._bad.pop(page, None)
            self._good.discard(page)
            if all(other.url != page.url for other in self._on):  # else it is read with another key or dialect
                self._pages.forget(page.url)
        for page in self._on:
            if page not in self._tasks:
                self._tasks[page] = asyncio.create_task(self._read_on(page))

    def reload(self, engines: Engines) -> None:
        """Use another interval and another longest wait; if the interval differs, every page is read at once."""
        if engines.scrape_s != self._engines.scrape_s:
            self._new_interval.set()
            self._new_interval = asyncio.Event()
        self._engines = engines

    async def stop(self) -> None:
        """Stop reading: cancel the readings under way, wait until they have ended, and close the connections."""
        tasks = list(self._tasks.values())
        self.follow([])
        await asyncio.gather(*tasks, return_exceptions=True)
        self._pages.close()

    async def _read_on(self, page: EnginePage) -> None:
        """Read a page until cancelled. The first wait is 0.1 s; waits double up to the configured interval."""
        wait_s = _FIRST_S
        while True:
            await self._read(page)
            with suppress(TimeoutError):
                async with asyncio.timeout(min(wait_s, self._engines.scrape_s)):
                    await self._new_interval.wait()
            wait_s *= 2

    async def _read(self, page: EnginePage) -> None:
        """Read a page once, and report the values or the failure to the gateway for each of its workers."""
        workers, control, is_its = self._on[page], self._proxy.gateway, True
        await self._announce([worker.name for worker in workers])
        try:
            async with asyncio.timeout(self._engines.scrape_timeout_s):
                found = await fetch(self._pages, page)
        except Exception as error:
            # a page that was read before is late or broken, but it is the engine's
            is_its = page in self._good or not isinstance(error, NoPageError | NotItsPageError)
            self._failed(page, error, is_its)
            found = {}
        else:
            if page not in self._good:
                self._good.add(page)
                _tell_of_ranks(workers, len(found))
            self.results["ok"] += 1
            if self._bad.pop(page, ""):
                _log.info("metrics can be read again", extra={"url": page.url})
        for worker in workers:
            sample = state_of(worker, found)
            if not is_its:
                self._tell(control.pools.counts_alone, worker.name)
            elif sample is None:
                self._tell(control.pools.scrape_failed, worker.name)
            else:
                self._tell(control.pools.sampled, worker.name, sample)

    async def _announce(self, names: list[str]) -> None:
        """Tell the gateway that these workers are about to be read, and wait until it knows; concurrent calls are joined."""
        if self._asking is None:
            self._asking = [], asyncio.Event()
            asyncio.get_running_loop().call_soon(self._ask)
        about, known = self._asking
        about += names
        await known.wait()

    def _ask(self) -> None:
        """Tell the gateway about the workers that `_announce` collected, and wake its callers once the gateway knows."""
        assert self._asking is not None
        (about, known), self._asking = self._asking, None
        loop = asyncio.get_running_loop()
        asked = self._proxy.ask(self._proxy.gateway.pools.sampling, tuple(about))

        def tell(_: object) -> None:
            with suppress(RuntimeError):  # the loop of operation is closed
                loop.call_soon_threadsafe(known.set)

        asked.add_done_callback(tell)

    def _tell(self, call: Callable[..., None], *args: Any) -> None:
        """Make this call on the gateway's loop soon; calls of one moment go together, since each message wakes the loop."""
        if not self._news:
            asyncio.get_running_loop().call_soon(self._tell_all)
        self._news.append((call, args))

    def _tell_all(self) -> None:
        """Send the calls that `_tell` collected to the gateway's loop."""
        news, self._news = self._news, []
        self._proxy.tell(_each, news)

    def _failed(self, page: EnginePage, error: Exception, is_its: bool) -> None:
        """Count a failed reading, and log it unless the page failed in the same way the last time.

        `is_its` is False if the page was never a metrics page of the engine.
        """
        self.results["failed"] += 1
        said = str(error) or type(error).__name__
        if self._bad.get(page) != said:
            self._bad[page] = said
            text, of = "metrics cannot be read", {"url": page.url}
            if not is_its:
                text = "this is not the metrics page of the engine; only requests of this gateway are counted there"
                of["engine"] = page.engine
            _log.warning(text, extra={**of, "why": said})


def _tell_of_ranks(workers: list[Worker], ranks: int) -> None:
    """Log a warning for each worker without a rank whose page shows several ranks, which the policy cannot balance."""
    for worker in workers:
        if ranks > 1 and worker.rank is None:
            _log.warning(
                "the engine has several ranks, and requests are not balanced among them; give the worker ranks=%d",
                ranks,
                extra={"worker": worker.name, "ranks": ranks},
            )


def _each(news: list[tuple[Callable[..., None], tuple[Any, ...]]]) -> None:
    for call, args in news:
        call(*args)


def state_of(worker: Worker, samples: dict[int, EngineSample]) -> EngineSample | None:
    """The state of a worker: that of its rank, or without a rank the sum over all ranks on the page, the mean of `kv_share`.

    `samples` are by rank, as from `fetch`. None if the page lacks the worker's rank, or shows no ranks. The page numbers the
    worker's rank `first_rank` + `rank`. A worker without a rank may be an instance of an external load balancer: the one
    rank on its page may have any number.
    """
    if worker.rank is not None or not samples:
        return samples.get(worker.first_rank + (worker.rank or 0))
    all_ = list(samples.values())
    if len(all_) == 1:
        return all_[0]
    share = sum(one.kv_share for one in all_) / len(all_)
    return EngineSample(rank=0, kv_share=share, **{name: sum(getattr(one, name) for one in all_) for name in _MOST})


async def fetch(pages: Pages, page: EnginePage) -> dict[int, EngineSample]:
    """Read the state of each rank from a metrics page, however long it takes; returns the page's rank number -> state.

    Raises:
        NotItsPageError: a page without the required metrics.
        NoPageError: the status is 404, 405 or 501.
        EngineError: no connection, another status than 200, a page that is too large, a value out of range.
        InputError: the API key cannot be read.
    """
    text = await pages.read(page.url, read_secret(page.api_key, page.url, "api_key"))
    return {sample.rank: _in_range(sample) for sample in adapter_of(page.engine).samples(text)}


def _in_range(sample: EngineSample) -> EngineSample:
    """Return the sample unchanged. Raises EngineError unless values are in 0 to `_MOST`, tokens nan or `kv_capacity` inf."""
    for field, most in _MOST.items():
        value = getattr(sample, field)
        is_unsaid = field in _TOKENS and (math.isnan(value) or (field == "kv_capacity" and value == math.inf))
        if not (is_unsaid or 0 <= value <= most):
            where = f"metrics page: {field} of rank {sample.rank}"
            raise EngineError(f"{where} is {float(value):g}; expected a number from 0 to {most:g}.")
    return sample


async def preflight(pages: Pages, workers: Iterable[Worker], timeout_s: float) -> list[str]:
    """Read the page of each worker once, all at a time, and check that the config agrees with what engines report.

    Returns the names of workers whose page could not be read within `timeout_s` seconds; they count as full until it can.
    Workers without a metrics page are not named. Raises InputError if a worker has less KV memory than its config says, its
    rank is not on its page, or a key cannot be read.
    """
    asked = [(worker, page) for worker in workers if (page := page_of(worker)) is not None]
    different = dict.fromkeys(page for _, page in asked)
    without: set[EnginePage] = set()  # pages that are not their engine's; the first reading logs it

    async def one(page: EnginePage) -> dict[int, EngineSample] | None:
        try:
            async with asyncio.timeout(timeout_s):
                return await fetch(pages, page)
        except InputError:
            raise
        except (NoPageError, NotItsPageError):
            without.add(page)
            return None
        except Exception:
            return None

    found = dict(zip(different, await asyncio.gather(*map(one, different)), strict=True))
    for worker, page in asked:
        samples = found[page]
        if samples is not None:
            _compare(worker, samples)
    return [worker.name for worker, page in asked if found[page] is None and page not in without]


def _compare(worker: Worker, samples: dict[int, EngineSample]) -> None:
    """Raise InputError if the page lacks the worker's rank, or shows less KV memory than the worker's config says."""
    where = f"worker {worker.name}"
    sample = state_of(worker, samples)
    if sample is None:
        ranks = ", ".join(map(str, sorted(samples)))
        rank, hint = worker.first_rank + (worker.rank or 0), ""
        if samples and not worker.first_rank and min(samples) > 0:
            hint = f"Say first_rank={min(samples)}: it is a further node of hybrid load balancing."
        raise InputError(where, "rank", rank, f"a rank on its metrics page: {ranks}", hint)
    if worker.kv_tokens and math.isfinite(sample.kv_capacity) and worker.kv_tokens > sample.kv_capacity:
        hint = "Leave it out to take what the engine says."
        raise InputError(where, "kv_tokens", worker.kv_tokens, f"at most {sample.kv_capacity:.0f}", hint)
