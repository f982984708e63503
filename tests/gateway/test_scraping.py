"""Engines' metrics are read page by page, and the gateway is told."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from dataclasses import replace
from itertools import pairwise

import pytest
from tests import clock
from tests.gateway.fake_gateway import PAGE, FakeGateway, engine
from tests.gateway.running import until

from evenstep.engines.view import EngineSample
from evenstep.errors import InputError
from evenstep.gateway.config.sections import Engines
from evenstep.gateway.config.worker import Worker
from evenstep.gateway.connections.pages import Pages
from evenstep.gateway.operate.control import ControlProxy
from evenstep.gateway.operate.scraping import Scraper, page_of, preflight, state_of

QUICK = Engines(scrape_s=0.005, scrape_timeout_s=2.0)


async def _told(told):
    gateway = FakeGateway()
    async with engine() as one:
        pages = Pages(Engines())
        scraper = Scraper(ControlProxy(gateway, asyncio.get_running_loop()), QUICK, pages)
        try:
            await told(gateway, one, scraper)
        finally:
            await scraper.stop()


def story(told):
    """Run ``told(gateway, engine, scraper)``."""
    asyncio.run(asyncio.wait_for(_told(told), 60))


def test_the_gateway_is_told_what_a_page_says():
    async def told(gateway, one, scraper):
        scraper.follow([Worker(one.url, name="a", api_key="sk-1")])
        name, sample = await gateway.heard.get()
        assert (name, sample.running, sample.kv_tokens, sample.kv_capacity) == ("a", 3, 800.0, 1600.0)
        one.page = PAGE.format(running=5)
        while sample.running != 5:
            _, sample = await gateway.heard.get()
        assert set(one.seen) == {"Bearer sk-1"} and scraper.results["failed"] == 0

    story(told)


def test_ranks_of_one_page_are_read_together(caplog):
    async def told(gateway, one, scraper):
        one.page += PAGE.format(running=8).replace('engine="0"', 'engine="1"')
        scraper.follow(Worker(one.url, ranks=3).each())
        told = {name.rpartition("#")[2]: sample for name, sample in [await gateway.heard.get() for _ in range(3)]}
        assert (told["0"].running, told["1"].running) == (3, 8)
        assert told["2"] is None  # there is no such rank
        assert scraper.results["ok"] == 1

    story(told)
    assert "several ranks" not in caplog.text


@pytest.mark.parametrize(("ranks", "warnings"), [(1, []), (2, ["give the worker ranks=2"])])
def test_an_engine_with_several_ranks_that_is_one_worker_is_warned_of_once(ranks, warnings, caplog):
    async def told(gateway, one, scraper):
        one.page = "".join(PAGE.format(running=8).replace('engine="0"', f'engine="{rank}"') for rank in range(ranks))
        scraper.follow([Worker(one.url, name="a")])
        for _ in range(3):
            name, sample = await gateway.heard.get()
            assert (name, sample.running) == ("a", 8 * ranks)

    story(told)
    assert [
        record.getMessage().partition("; ")[2] for record in caplog.records if "ranks" in record.getMessage()
    ] == warnings


@pytest.mark.parametrize("page", ["", "nothing to see", "vllm:num_requests_running x\n"])
def test_a_page_that_cannot_be_had_or_read_any_more_is_a_failed_reading_and_reading_goes_on(page):
    async def told(gateway, one, scraper):
        good = one.page
        scraper.follow([Worker(one.url, name="a")])
        assert (await gateway.heard.get())[1] is not None
        one.page = page
        while (await gateway.heard.get())[1] is not None:
            pass
        one.page = good
        while (await gateway.heard.get())[1] is None:
            pass
        assert scraper.results["failed"] > 0 and gateway.alone == []

    story(told)


def test_a_page_that_was_never_that_of_the_engine_is_said_once_and_its_load_is_counted_here(caplog):
    async def told(gateway, one, scraper):
        one.page, good = "# HELP requests_total Of a proxy.\nrequests_total 7\n", one.page
        scraper.follow([Worker(one.url, name="a"), Worker(one.url.replace("metrics", "x"), name="b")])
        await until(lambda: len(gateway.alone) >= 6)
        assert set(gateway.alone) == {"a", "b"} and gateway.heard.empty()
        one.page = good
        assert (await gateway.heard.get())[1] is not None

    story(told)
    said = [record for record in caplog.records if "not the metrics page" in record.getMessage()]
    assert len(said) == 1 and said[0].engine == "vllm"


def test_an_engine_without_a_metrics_page_counts_alone_too():
    async def told(gateway, one, scraper):
        place = Worker(f"{one.url}", name="a", engine="sglang")
        one.status = 404
        scraper.follow([place])
        await until(lambda: gateway.alone)
        assert gateway.heard.empty()
        assert await preflight(Pages(Engines()), [place], 5.0) == []

    story(told)


@pytest.mark.parametrize("value", ["1e300", "-1", "1e10", "+Inf", "NaN"])
@pytest.mark.parametrize("name", ["running", "prefix_cache_hits_total"])
def test_a_value_that_no_engine_can_have_is_a_failed_reading(name, value):
    is_unsaid = (name, value) == ("prefix_cache_hits_total", "NaN")
    fits = name != "running" and value == "1e10"

    async def told(gateway, one, scraper):
        good = one.page
        one.page = PAGE.format(running=3 if name != "running" else value)
        if name != "running":
            one.page += f'vllm:{name}{{engine="0"}} {value}\n'
        scraper.follow([Worker(one.url, name="a")])
        found = await gateway.heard.get()
        assert (found[1] is None) == (not (is_unsaid or fits))
        one.page = good
        while (await gateway.heard.get())[1] is None:
            pass

    story(told)


def test_an_engine_that_is_not_there_is_a_failed_reading():
    async def told(gateway, one, scraper):
        scraper.follow([Worker("http://127.0.0.1:1", name="gone")])
        assert await gateway.heard.get() == ("gone", None)

    story(told)


def test_a_worker_that_leaves_is_read_no_more():
    async def told(gateway, one, scraper):
        a, b = Worker(one.url, name="a"), Worker(one.url.replace("127.0.0.1", "localhost"), name="b")
        scraper.follow([a, b])
        while (await gateway.heard.get())[0] != "b":
            pass
        scraper.follow([a])
        await gateway.heard.get()
        while not gateway.heard.empty():
            gateway.heard.get_nowait()
        assert {(await gateway.heard.get())[0] for _ in range(4)} == {"a"}

    story(told)


def test_a_page_that_another_key_reads_too_stays_open_when_one_worker_leaves():
    forgotten = list[str]()

    class Kept(Pages):
        def forget(self, url):
            forgotten.append(url)
            super().forget(url)

    async def read_and_leave():
        async with engine() as one:
            scraper = Scraper(ControlProxy(FakeGateway(), asyncio.get_running_loop()), QUICK, Kept(Engines()))
            a, b = Worker(one.url, name="a", api_key="sk-1"), Worker(one.url, name="b", api_key="sk-2")
            scraper.follow([a, b])
            scraper.follow([b])
            assert forgotten == []
            scraper.follow([])
            assert forgotten == [f"{one.url}/metrics"]
            await scraper.stop()

    asyncio.run(read_and_leave())


def test_a_new_interval_ends_the_wait_for_the_former_one():
    async def told(gateway, one, scraper):
        scraper.reload(Engines(scrape_s=10_000.0))
        scraper.follow([Worker(one.url, name="a")])
        times = [(await gateway.heard.get(), asyncio.get_running_loop().time())[1] for _ in range(12)]
        assert times[-1] - times[-2] >= 100.0
        scraper.reload(Engines(scrape_s=5.0))
        await gateway.heard.get()
        assert asyncio.get_running_loop().time() - times[-1] < 10.0

    clock.run(_told(told))


def test_a_page_is_read_at_once_and_then_less_and_less_often_up_to_the_interval():
    async def told(gateway, one, scraper):
        scraper.reload(Engines(scrape_s=1.0))
        scraper.follow([Worker(one.url, name="a")])
        times = [(await gateway.heard.get(), asyncio.get_running_loop().time())[1] for _ in range(7)]
        waits = [after - before for before, after in pairwise(times)]
        assert waits == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.0, 1.0], abs=0.01)

    clock.run(_told(told))


def test_a_page_that_fails_is_in_the_log_once_and_so_is_its_return(caplog):
    async def told(gateway, one, scraper):
        good = one.page
        scraper.follow([Worker(one.url, name="a")])
        for page, result in ((good, "ok"), ("", "failed"), (good, "ok")):
            one.page, enough = page, scraper.results[result] + 3
            while scraper.results[result] < enough:
                await gateway.heard.get()

    with caplog.at_level("INFO", "evenstep.gateway"):
        story(told)
    said = [record.message for record in caplog.records if "metrics can" in record.message]
    assert said == ["metrics cannot be read", "metrics can be read again"]


def test_the_gateway_knows_of_a_reading_before_the_engine_is_asked():
    """Else requests sent meanwhile could be counted twice. Pages that are due together are announced together."""
    gateway, known = FakeGateway(), list[tuple[str, ...]]()

    class Noted(Pages):
        async def read(self, url, bearer=""):
            known.append(gateway.sampled_soon)
            return await super().read(url, bearer)

    async def read_both():
        async with engine() as one:
            scraper = Scraper(ControlProxy(gateway, asyncio.get_running_loop()), QUICK, Noted(Engines()))
            scraper.follow([Worker(one.url, name="a"), Worker(one.url.replace("127.0.0.1", "localhost"), name="b")])
            for _ in range(2):
                await gateway.heard.get()
            await scraper.stop()

    asyncio.run(asyncio.wait_for(read_both(), 30))
    assert known[:2] == [("a", "b")] * 2


def test_a_reading_under_way_ends_with_the_scraper_and_so_do_its_connections():
    ended = asyncio.Event()

    async def silent(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        begun.set()
        assert not await reader.read()
        writer.close()
        ended.set()

    async def read_and_end():
        async with await asyncio.start_server(silent, "127.0.0.1", 0) as server:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            scraper = Scraper(ControlProxy(FakeGateway(), asyncio.get_running_loop()), QUICK, Pages(Engines()))
            scraper.follow([Worker(url, name="a")])
            await begun.wait()
            reading = list(scraper._tasks.values())
            await scraper.stop()
            assert [task.cancelled() for task in reading] == [True]
            await ended.wait()

    begun = asyncio.Event()
    asyncio.run(asyncio.wait_for(read_and_end(), 30))


def test_a_fleet_that_changes_elsewhere_is_not_read_more_often():
    """Nor does a reload that leaves the interval as it is read anything."""

    async def told(gateway, one, scraper):
        scraper.reload(Engines(scrape_s=10.0))
        for _ in range(5):
            scraper.follow([Worker(one.url, name="a")])
            await gateway.heard.get()
            scraper.reload(Engines(scrape_s=10.0, scrape_timeout_s=3.0))
        await asyncio.sleep(100.0)
        before = len(one.seen)
        for _ in range(100):
            scraper.reload(Engines(scrape_s=10.0))
            await asyncio.sleep(1.0)
        assert len(one.seen) - before in (9, 10, 11)

    clock.run(_told(told))


def test_a_worker_that_comes_back_as_another_engine_at_the_same_address_counts_alone():
    async def told(gateway, one, scraper):
        scraper.follow([Worker(one.url, name="a")])
        await gateway.heard.get()
        scraper.follow([])
        one.status = 404
        scraper.follow([Worker(one.url, name="a")])
        await until(lambda: gateway.alone)

    story(told)


def test_what_the_gateway_says_after_reading_has_ended_is_dropped_without_a_word(caplog):
    answer: Future[None] = Future()

    class Late(ControlProxy):
        def ask(self, call, *args):
            asked.set()
            return answer

    async def read_and_end():
        pages = Pages(Engines())
        scraper = Scraper(Late(FakeGateway(), asyncio.get_running_loop()), QUICK, pages)
        scraper.follow([Worker(url="http://127.0.0.1:1")])
        await asyncio.wait_for(asked.wait(), 10)
        await scraper.stop()

    asked = asyncio.Event()
    asyncio.run(read_and_end())
    answer.set_result(None)
    assert not caplog.records


def test_what_has_no_page_is_not_read():
    assert page_of(Worker("http://a:1", scraped=False)) is None
    assert page_of(Worker("http://a:1", engine="openai")) is None
    place = page_of(Worker("https://a:1/", engine="sglang"))
    assert place is not None and place.url == "https://a:1/metrics"


def test_engines_below_different_paths_of_one_host_have_pages_of_their_own():
    places = [page_of(Worker(url)) for url in ("http://h:1/a", "http://h:1/b/", "http://h:1")]
    urls = [place.url for place in places if place is not None]
    assert urls == ["http://h:1/a/metrics", "http://h:1/b/metrics", "http://h:1/metrics"]


def test_before_anything_is_served_config_and_engines_must_agree():
    async def run() -> None:
        async with engine() as one:
            pages = Pages(Engines())
            good, gone = Worker(one.url, name="a", kv_tokens=1600), Worker("http://127.0.0.1:1", name="gone")
            assert await preflight(pages, [good, gone], 2.0) == ["gone"]
            with pytest.raises(InputError, match="worker b: kv_tokens is 1601; expected at most 1600"):
                await preflight(pages, [Worker(one.url, name="b", kv_tokens=1601)], 2.0)
            with pytest.raises(InputError, match="worker c: rank is 1; expected a rank on its metrics page: 0.$"):
                await preflight(pages, [Worker(one.url, name="c", rank=1)], 2.0)
            one.page = one.page.replace('engine="0"', 'engine="4"')
            assert await preflight(pages, Worker(one.url, ranks=1, first_rank=4).each(), 2.0) == []
            with pytest.raises(InputError, match=r"a rank on its metrics page: 4. Say first_rank=4"):
                await preflight(pages, Worker(one.url, ranks=1).each(), 2.0)
            with pytest.raises(InputError, match="rank is 2; expected a rank on its metrics page: 4.$"):
                await preflight(pages, Worker(one.url, ranks=1, first_rank=2).each(), 2.0)
            with pytest.raises(InputError, match="a variable that is set"):
                await preflight(pages, [Worker(one.url, name="d", api_key="env:NO_SUCH")], 2.0)

    asyncio.run(run())


def test_a_worker_that_is_no_rank_is_all_there_is_on_its_page():
    def sample(rank, running, kv):
        return EngineSample(rank, running, 1, kv, 100.0)

    alone, ranked = Worker("http://a:1", name="a"), Worker("http://a:1", name="b", rank=1)
    assert state_of(alone, {}) is None
    one = {3: sample(3, 2, 10.0)}  # an instance of an external load balancer
    assert state_of(alone, one) is one[3]
    assert state_of(ranked, one) is None
    two = {0: sample(0, 2, 10.0), 1: sample(1, 5, 30.0)}
    assert state_of(ranked, two) is two[1]
    whole = state_of(alone, two)
    assert (whole.running, whole.waiting, whole.kv_tokens, whole.kv_capacity) == (7, 2, 40.0, 200.0)
    shares = {rank: replace(one, kv_share=share) for (rank, one), share in zip(two.items(), (0.1, 0.3), strict=True)}
    assert state_of(alone, shares).kv_share == pytest.approx(0.2)
