"""Which worker serves what."""

from __future__ import annotations

import asyncio
import dataclasses
from contextlib import AsyncExitStack

import msgspec
import pytest
from tests.gateway.running import MODELS, QUICK, STALLS, Engine, engine, raw, request, serving, until, whole

from evenstep.dispatch.settings import Tenant
from evenstep.engines.dialects.vllm import VLLM
from evenstep.engines.view import EngineSample
from evenstep.errors import InputError
from evenstep.gateway.config.worker import Discovery, Dns, Worker
from evenstep.gateway.connections.pages import Question
from evenstep.gateway.serve.backend import Backend
from evenstep.gateway.serve.models import ModelCard, card_of


async def nothing(number, head, body, writer):
    writer.write(whole(404, b"{}"))


def serves(monkeypatch, pages):
    """Engines answer /v1/models with these pages, in the order of their ports."""

    async def serve(self, reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(whole(200, pages.pop(0) if len(pages) > 1 else pages[0], more="Connection: close\r\n"))
        await reader.read()
        writer.close()

    monkeypatch.setattr(Engine, "serve", serve)


def test_workers_with_a_model_in_common_are_one_pool_and_adapters_go_to_their_base(monkeypatch):
    def page(*names):
        entries = ",".join(f'{{"id":"{n}","parent":{p}}}' for n, p in names)
        return f'{{"data":[{entries}]}}'.encode()

    serves(
        monkeypatch,
        [page(("m", "null"), ("lora", '"m"')), page(("m", "null"), ("m2", "null")), page(("other", "null"))],
    )

    async def story():
        async with engine(nothing) as a, engine(nothing) as b, engine(nothing) as c:
            aliases = {"short": "m", "nobody": "nothing"}
            async with serving(a.url, b.url, c.url, aliases=aliases) as server:
                pools = server.gateway.pools
                assert sorted(len(pool.backends) for pool in pools.all) == [1, 2]
                assert pools.pool_of("lora") is pools.pool_of("m") is pools.pool_of("m2") is pools.pool_of("short")
                assert pools.pool_of("other") is not pools.pool_of("m")
                assert pools.pool_of("nobody") is None
                assert set(pools.listed()) == {"m", "lora", "m2", "other", "short"}

    asyncio.run(story())


def test_a_worker_that_does_not_say_is_asked_on(monkeypatch):
    monkeypatch.setattr("evenstep.gateway.serve.pools._AGAIN_S", 0.005)
    serves(monkeypatch, [b"no page", b'{"data":[]}', MODELS])

    async def story():
        async with engine(nothing) as one, serving(one.url) as server:
            assert server.gateway.pools.pool_of("m")

    asyncio.run(story())


def test_a_worker_whose_pool_cannot_be_made_is_refused_whole_or_asked_again(monkeypatch, tmp_path, caplog):
    monkeypatch.setattr("evenstep.gateway.serve.pools._AGAIN_S", 0.005)
    serves(monkeypatch, [b'{"data":[{"id":"n"}]}'])
    book = tmp_path / "tokenizer.json"

    async def story():
        async with engine(nothing) as one, serving(is_ready=False) as server:
            pools = server.gateway.pools
            pools.config = dataclasses.replace(pools.config, tokenizers={"n": str(book)})
            with pytest.raises(InputError, match="tokenizer"):
                server.gateway.pools.add(Worker(url=one.url, name="one", models=["n"]))
            assert not pools.workers and not pools.all
            server.gateway.pools.add(Worker(url=one.url, name="two"))
            await until(lambda: "tokenizer" in caplog.text)
            assert pools.unknown == ["two"]
            pools.config = dataclasses.replace(pools.config, tokenizers={})
            await until(lambda: not pools.unknown)
            assert pools.pool_of("n")

    asyncio.run(story())


@pytest.mark.parametrize("names", [["n", "other"], ["other", "n"]])
def test_the_tokenizer_of_a_pool_is_found_by_any_name_of_its_models(names, tmp_path):
    async def story():
        async with engine(nothing) as one, serving(is_ready=False) as server:
            pools = server.gateway.pools
            pools.config = dataclasses.replace(pools.config, tokenizers={"n": str(tmp_path / "tokenizer.json")})
            with pytest.raises(InputError, match="tokenizer"):  # it is read: there is no such file
                pools.add(Worker(url=one.url, name="one", models=names))

    asyncio.run(story())


def with_prefiller(server, one):
    """The pools of a server and its only pool, after the engine `one` has joined as prefiller p whose pages are read."""
    pools, (pool,) = server.gateway.pools, server.gateway.pools.all
    pools.is_scraped = True
    pools.add(Worker(url=one.url, name="p", models=["m"], role="prefill"))
    return pools, pool


def test_the_first_reading_of_a_page_found_after_all_counts():
    async def story():
        async with engine(nothing) as one, serving(one.url) as server:
            pools, pool = with_prefiller(server, one)
            pools.counts_alone("p")
            (prefiller,) = pool.dispatcher.fleet.prefill.prefillers.values()
            assert prefiller.used == 0.0
            pools.sampled("p", EngineSample(0, 1, 0, 80.0, 100.0))
            assert prefiller.spec.scraped and prefiller.used == 0.8

    asyncio.run(story())


def test_a_prefiller_whose_page_lacks_the_number_of_blocks_is_as_full_as_the_page_says():
    async def story():
        async with engine(nothing) as one, serving(one.url) as server:
            pools, pool = with_prefiller(server, one)
            page = b"vllm:num_requests_running 1\nvllm:num_requests_waiting 0\nvllm:kv_cache_usage_perc 0.95\n"
            page += b'vllm:cache_config_info{block_size="16",num_gpu_blocks="None"} 1\n'
            (sample,) = VLLM().samples(page)
            pools.sampled("p", sample)
            assert pool.dispatcher.fleet.prefill.free("p") == 0.0

    asyncio.run(story())


def test_workers_join_are_described_anew_and_leave():
    async def story():
        async with engine(nothing) as one, engine(nothing) as two, serving(one.url) as server:
            gateway, (pool,) = server.gateway, server.gateway.pools.all
            gateway.pools.add(Worker(url=two.url, name="two", models=["m"], slots=4))
            assert sum(map(pool.dispatcher.mirror.free, range(2))) == 256 + 4
            gateway.pools.add(Worker(url=two.url, name="two", models=["m"], slots=8))
            assert sum(map(pool.dispatcher.mirror.free, range(2))) == 256 + 8
            with pytest.raises(InputError, match="role"):
                gateway.pools.add(Worker(url=two.url, name="two", role="prefill"))
            with pytest.raises(InputError, match="vlm"):
                gateway.pools.add(Worker(url=two.url, name="three", engine="vlm"))
            with pytest.raises(InputError, match="nobody"):
                gateway.pools.remove("nobody", drain=True)
            assert [w.name for w in gateway.workers()][1:] == ["two"]
            gateway.pools.remove("two", drain=True)
            assert len(gateway.workers()) == len(pool.backends) == 1

    asyncio.run(story())


def test_a_worker_at_another_url_is_asked_for_its_models_however_often_it_is_described():
    async def stalls(number, head, body, writer):
        return STALLS

    async def story():
        async with engine(stalls) as one, serving(Worker(url=one.url, name="w")) as server:
            pools, (pool,) = server.gateway.pools, server.gateway.pools.all
            _, leaves = await asyncio.open_connection("127.0.0.1", server.port)
            leaves.write(request({"model": "m", "prompt": "x"}))
            await until(lambda: one.asked)
            pools.remove("w", drain=True)
            for slots in (4, 8):
                pools.add(Worker(url="http://127.0.0.1:1", name="w", slots=slots))
                assert pools.unknown == ["w"] and pool.is_leaving("w")
            pools.add(Worker(url=one.url, name="w", slots=3))
            assert not pools.unknown and not pool.is_leaving("w")
            leaves.close()

    asyncio.run(story())


@pytest.mark.parametrize(
    ("discovery", "after"), [(Discovery(), b" 404 "), (Discovery(dns=[Dns(name="engines.invalid")]), b" 503 ")]
)
def test_a_model_is_unknown_once_its_last_worker_was_removed_and_busy_while_it_is_down_or_drains(discovery, after):
    begun = asyncio.Event()
    may_end = asyncio.Event()

    async def slow(number, head, body, writer):
        begun.set()
        await may_end.wait()
        writer.write(whole(200, b'{"choices":[{"index":0,"text":"a","finish_reason":"stop"}]}'))

    async def asked(server):
        return (await raw(server, request({"model": "m", "prompt": "x"}, headers="Connection: close\r\n")))[:16]

    async def story():
        async with engine(slow) as one, serving(one.url, discovery=discovery) as server:
            gateway, pools = server.gateway, server.gateway.pools
            running = asyncio.create_task(asked(server))
            await begun.wait()
            gateway.pools.remove(gateway.workers()[0].name, drain=True)
            assert b" 503 " in await asked(server)
            may_end.set()
            assert b" 200 " in await running
            await until(lambda: not pools.workers)
            assert after in await asked(server)
            gateway.pools.add(Worker(url=one.url, name="again", models=["m"]))
            assert b" 200 " in await asked(server)

    asyncio.run(story())


def test_what_metrics_say_reaches_the_dispatcher():
    async def story():
        async with engine(nothing) as one, serving(is_ready=False) as server:
            gateway = server.gateway
            gateway.pools.is_scraped = True
            gateway.pools.add(Worker(url=one.url, name="w", models=["m"]))
            state = lambda: gateway.snapshot()["models"]["m"]["workers"][0]  # noqa: E731
            assert not state()["is_known"]
            gateway.pools.sampled("w", EngineSample(0, 1, 0, 500.0, 1000.0))
            assert (state()["is_known"], state()["kv_capacity_tokens"]) == (True, 1000.0)
            gateway.pools.sampled("w", EngineSample(0, 1, 0, 500.0, 1000.0, 700.0, 300.0))
            gateway.pools.scrape_failed("w")
            gateway.pools.sampled("nobody", EngineSample(0, 1, 0, 500.0, 1000.0))
            gateway.pools.scrape_failed("nobody")

    asyncio.run(story())


@pytest.mark.parametrize("turns", range(6))
def test_a_worker_that_is_taken_away_just_as_it_says_its_models_stays_away(turns, monkeypatch):
    ended = Question.ended

    def then_removed(self):
        ended(self)
        removes(turns)

    def removes(turns):
        if turns:
            asyncio.get_running_loop().call_soon(removes, turns - 1)
        elif name in pools.workers:
            pools.remove(name, drain=False)

    async def story():
        nonlocal name, pools
        async with engine(nothing) as one, serving(is_ready=False) as server:
            name, pools = one.url[7:], server.gateway.pools
            monkeypatch.setattr(Question, "ended", then_removed)
            pools.add(Worker(one.url, name=name, engine="openai"))
            await until(lambda: not pools.unknown)
            for _ in range(20):
                await asyncio.sleep(0)
            assert not pools.workers and not any(pool.backends for pool in pools.all)

    name, pools = "", None
    asyncio.run(story())


def test_a_worker_without_a_tongue_can_be_taken_away_again():
    async def story():
        async with serving(Worker(url="http://127.0.0.1:9", name="dead"), is_ready=False) as server:
            await until(lambda: server.gateway.pools.unknown == ["dead"])
            assert "1 asked" in server.gateway.front.not_ready()
            server.gateway.pools.remove("dead", drain=False)
            assert server.gateway.pools.unknown == []
            assert server.gateway.front.not_ready() == "no worker"

    asyncio.run(story())


def test_a_reload_finds_adapters_that_were_loaded_since(monkeypatch):
    pages = [MODELS, b'{"data":[{"id":"m","parent":null},{"id":"lora","parent":"m"}]}']
    serves(monkeypatch, pages)

    async def story():
        async with engine(nothing) as one, serving(one.url) as server:
            pools = server.gateway.pools
            assert pools.pool_of("lora") is None
            server.gateway.reload(server.gateway.config)
            await until(lambda: pools.pool_of("lora") is not None)
            assert pools.pool_of("lora") is pools.pool_of("m")

    asyncio.run(story())


@pytest.mark.parametrize(
    "pages", [[MODELS, b'{"data":[{"id":"m"},{"id":"lora","parent":"m"}]}'], [MODELS, b'{"data":[{"id":"n"}]}']]
)
def test_a_worker_that_is_described_anew_while_it_says_its_models_serves_these(monkeypatch, pages):
    serves(monkeypatch, pages)
    ended, before = Question.ended, list[str]()

    def described_anew(self):
        while before:
            pools.add(dataclasses.replace(pools.workers[before.pop()], slots=7))
        ended(self)

    monkeypatch.setattr(Question, "ended", described_anew)

    async def story():
        nonlocal pools
        async with engine(nothing) as one, serving(one.url) as server:
            pools = server.gateway.pools
            before.extend(pools.workers)
            server.gateway.reload(server.gateway.config)
            name = "lora" if b"lora" in pages[-1] else "n"
            await until(lambda: name in pools.listed())
            await until(lambda: not pools._tasks)
            (backend,) = (one for pool in pools.all for one in pool.backends.values())
            assert backend.worker.slots == 7 and name in backend.serves

    pools = None
    asyncio.run(story())


@pytest.mark.parametrize("late", ["m lora", "n"])
def test_a_late_list_of_models_is_not_taken_for_that_of_another_url(monkeypatch, late):
    is_open, asked = asyncio.Event(), list[str]()

    async def cards(backend):
        asked.append(backend.worker.url)
        if asked.count(first) < 2 or backend.worker.url != first:
            return [card_of("m")]
        await is_open.wait()
        return [card_of(name) for name in late.split()]

    monkeypatch.setattr("evenstep.gateway.serve.pools._cards_of", cards)

    async def story():
        nonlocal first
        async with engine(nothing) as one, engine(nothing) as two:
            first = one.url
            async with serving(Worker(url=first, name="w")) as server:
                pools, (pool,) = server.gateway.pools, server.gateway.pools.all
                pools.ask_again()
                await until(lambda: asked.count(first) == 2)
                pools.add(Worker(url=two.url, name="w"))
                await until(lambda: not pools.unknown)
                is_open.set()
                await until(lambda: not pools._tasks)
                assert pool.backends["w"].worker.url == two.url
                assert set(pool.backends["w"].serves) == set(pools.listed()) == {"m"}

    first = ""
    asyncio.run(story())


@pytest.mark.parametrize("is_split", [False, True])
def test_an_engine_that_lacks_an_adapter_it_does_not_list_has_not_failed(is_split):
    """Its 404 counted as a failure: healthy engines were ejected, and a request of more tries than `retries` got the 404."""

    async def answers(number, head, body, writer):
        writer.write(whole(200, b'{"choices":[{"index":0,"text":"a","finish_reason":"stop"}]}'))

    async def lacks(number, head, body, writer):
        if b"lora" in body:
            said = b'{"error":{"message":"The model `lora` does not exist.","type":"NotFoundError","code":404}}'
            writer.write(whole(404, said))
        else:
            await answers(number, head, body, writer)

    async def prefills(number, head, body, writer):
        writer.write(whole(200, b'{"choices":[{"index":0,"text":"a"}],"kv_transfer_params":{"of":%d}}' % number))

    async def story():
        async with AsyncExitStack() as stack:
            bare = [await stack.enter_async_context(engine(lacks)) for _ in range(4)]
            loaded = await stack.enter_async_context(engine(answers))
            workers = [*(Worker(one.url, models=["m"]) for one in bare), Worker(loaded.url, models=["m", "lora"])]
            prefiller = await stack.enter_async_context(engine(prefills))
            workers += [Worker(prefiller.url, models=["m", "lora"], role="prefill")] * is_split
            async with serving(*workers, policy="round-robin", dispatch=msgspec.structs.replace(QUICK, retries=1)) as server:
                for model in ("lora", "m") * 10:
                    body = {"model": model, "prompt": "x"}
                    assert b" 200 OK" in await raw(server, request(body, headers="Connection: close\r\n"))
                (pool,) = server.gateway.pools.all
                assert all(one.is_up for one in pool.dispatcher.fleet.mirror.workers)
            if is_split:
                assert len(prefiller.asked) == 20, "each request is prefilled once"
                assert all(b'"kv_transfer_params":{"of":' in body for one in (*bare, loaded) for _, body in one.asked)

    asyncio.run(story())


def test_an_engine_that_has_chats_alone_has_not_failed_when_it_refuses_completions():
    """Its empty 404 counted as a failure, as if another server had its address, and it was ejected."""

    async def answers(number, head, body, writer):
        writer.write(whole(200, b'{"choices":[{"index":0,"message":{"content":"a"},"text":"a","finish_reason":"stop"}]}'))

    async def chats(number, head, body, writer):
        if b"/chat/" in head:
            await answers(number, head, body, writer)
        else:
            writer.write(whole(404, b""))

    async def story():
        async with (
            engine(chats) as one,
            engine(answers) as two,
            serving(one.url, two.url, policy="round-robin") as server,
        ):
            for path in ("/v1/chat/completions",) * 2 + ("/v1/completions",) * 10:
                body = {"model": "m", "prompt": "x", "messages": [{"role": "user", "content": "x"}]}
                assert b" 200 OK" in await raw(server, request(body, path, headers="Connection: close\r\n"))
            (pool,) = server.gateway.pools.all
            assert all(worker.is_up for worker in pool.dispatcher.fleet.mirror.workers)
            assert len(one.asked) > 4

    asyncio.run(story())


@pytest.mark.parametrize("has_other", [False, True])
def test_requests_that_wait_for_a_model_that_is_gone_get_what_new_ones_get(has_other):
    """They waited for `ttl_s`, and then got 503."""

    async def stalls(number, head, body, writer):
        return STALLS

    async def story():
        async with (
            engine(stalls) as one,
            engine(nothing) as other,
            serving(Worker(one.url, models=["m"], slots=1)) as server,
        ):
            pools, (pool,) = server.gateway.pools, server.gateway.pools.all
            pools.config = dataclasses.replace(pools.config, aliases={"short": "m"})
            asks = [
                asyncio.create_task(raw(server, request({"model": name, "prompt": "x"}, headers="Connection: close\r\n")))
                for name in ("m", "m", "short")
            ]
            await until(lambda: one.asked and pool.requests == 3)
            if has_other:
                pools.add(Worker(other.url, name="other", models=["other"]))
            pools.remove(next(iter(pool.backends)), drain=False)
            failed, *waited = await asyncio.gather(*asks)
            assert failed.startswith(b"HTTP/1.1 502 "), "it ran on the worker"
            for answer, name in zip(waited, ("m", "short"), strict=True):
                assert answer.startswith(b"HTTP/1.1 404 ") and f"`{name}` does not exist".encode() in answer
            counts = pool.dispatcher.parts.meters.requests
            assert counts["404"] == 2 and not counts["cancelled"]

    asyncio.run(story())


@pytest.mark.parametrize(("becomes", "expected"), [("m", 200), ("other", 404)])
def test_requests_wait_while_a_worker_may_say_that_it_serves_their_model(monkeypatch, becomes, expected):
    found: list[ModelCard] = []
    asked = asyncio.Event()

    async def cards(backend):
        asked.set()
        return found

    monkeypatch.setattr("evenstep.gateway.serve.pools._cards_of", cards)
    monkeypatch.setattr("evenstep.gateway.serve.pools._AGAIN_CAP_S", 0.001)

    async def answers(number, head, body, writer):
        writer.write(whole(200, b'{"choices":[{"index":0,"text":"a","finish_reason":"stop"}]}'))

    async def stalls(number, head, body, writer):
        return STALLS

    async def story():
        worker = {"slots": 1, "models": ["m"]}
        async with engine(stalls) as one, engine(answers) as two, serving(Worker(one.url, **worker)) as server:
            pools, (pool,) = server.gateway.pools, server.gateway.pools.all
            asks = [
                asyncio.create_task(raw(server, request({"model": "m", "prompt": "x"}, headers="Connection: close\r\n")))
                for _ in range(2)
            ]
            await until(lambda: one.asked and pool.requests == 2)
            pools.add(Worker(two.url, name="two"))
            pools.remove(next(iter(pool.backends)), drain=False)
            await asked.wait()
            await until(lambda: pool.requests == 1)
            assert pools.unknown and not pool.backends
            found.append(card_of(becomes))
            assert b" %d " % expected in (await asyncio.gather(*asks))[1].partition(b"\r\n")[0]

    asyncio.run(story())


def test_a_prefill_that_ends_as_its_prefiller_is_removed_leaves_no_hand_over():
    """Its end is told behind the removal: the dispatcher has moved the request off, and the next engine prefills itself."""
    may_end = asyncio.Event()

    async def answers(number, head, body, writer):
        writer.write(whole(200, b'{"choices":[{"index":0,"text":"a","finish_reason":"stop"}]}'))

    async def prefills(number, head, body, writer):
        await may_end.wait()
        writer.write(whole(200, b'{"choices":[{"index":0,"text":"a"}],"kv_transfer_params":{"of":1}}'))

    async def story():
        async with engine(answers) as one, engine(prefills) as two:
            workers = Worker(one.url, models=["m"]), Worker(two.url, models=["m"], role="prefill", name="p")
            async with serving(*workers) as server:
                (pool,) = server.gateway.pools.all
                asks = asyncio.create_task(
                    raw(server, request({"model": "m", "prompt": "x"}, headers="Connection: close\r\n"))
                )
                await until(lambda: two.asked)
                pool._is_telling = True  # commands are being carried out
                pool.detach("p", drain=False)
                may_end.set()
                await until(lambda: len(pool._events) == 2)
                pool._tell_all()
                assert b" 200 OK" in await asks
                assert b"kv_transfer_params" not in one.asked[0][1]

    asyncio.run(story())


@pytest.mark.parametrize("more", [{}, {"models": ["m"]}])
def test_an_engine_that_does_not_tell_its_version_at_once_is_asked_again(more, monkeypatch):
    """Until a reload, or a failed reading of its metrics, it was spoken to as the newest version."""
    fetch, failures = Backend.fetch, [(0, b""), (503, b"")]

    async def fails(self, path, patience_s):
        return failures.pop() if path == "/version" and failures else await fetch(self, path, patience_s)

    monkeypatch.setattr(Backend, "fetch", fails)
    monkeypatch.setattr("evenstep.gateway.serve.pools._AGAIN_CAP_S", 0.01)

    async def story():
        async with engine(nothing, b'{"version":"0.31.2"}') as one, serving(Worker(url=one.url, **more)) as server:
            pools, (pool,) = server.gateway.pools, server.gateway.pools.all
            (backend,) = pool.backends.values()
            await until(lambda: backend.adapter.version == "0.31.2")
            failures.extend([(0, b"")] * 1000)
            pools.ask_again()
            await until(lambda: len(failures) < 999)
            for _ in range(5):  # as after five readings of its metrics, each of which came after a failed one
                pools.ask_again()
            await until(lambda: len(pools._tasks) == 1)
            pools.remove(backend.name, drain=False)
            await until(lambda: not pools._tasks)
            assert failures

    asyncio.run(story())


OTHER = b'{"data":[{"id":"other","parent":null}]}'


def as_it_came_back(gateway):
    gateway.pools.scrape_failed(gateway.workers()[0].name)
    gateway.pools.sampled(gateway.workers()[0].name, EngineSample(0, 0, 0, 0.0, 1000.0))


@pytest.mark.parametrize("news", [as_it_came_back, lambda gateway: gateway.reload(gateway.config)])
def test_an_engine_that_came_back_with_another_model_serves_that_one(monkeypatch, news):
    pages = [MODELS]
    serves(monkeypatch, pages)

    async def story():
        async with engine(nothing) as one, serving(one.url) as server:
            pools = server.gateway.pools
            for page, name, gone in ((OTHER, "other", "m"), (MODELS, "m", "other")):
                pages[:] = [page]
                news(server.gateway)
                await until(lambda name=name: (pool := pools.pool_of(name)) is not None and pool.backends)
                await until(lambda gone=gone: pools.pool_of(gone) is None)
                assert set(pools.listed()) == {name}

    asyncio.run(story())


@pytest.mark.parametrize(
    ("more", "is_heard"),
    [({}, True), ({"models": ["m"]}, True), ({"engine": "vllm:version=0.31.2"}, False)],
)
@pytest.mark.parametrize("news", [as_it_came_back, lambda gateway: gateway.reload(gateway.config)])
def test_an_engine_that_came_back_in_another_version_is_spoken_to_as_that_one(more, is_heard, news):
    async def story():
        async with engine(nothing, b'{"version":"0.31.2"}') as one, serving(Worker(url=one.url, **more)) as server:
            (backend,) = server.gateway.pools.all[0].backends.values()
            await until(lambda: backend.adapter.version)
            backend.cannot_continue(chat=False)
            one.version = b'{"version":"0.32.1"}'
            news(server.gateway)
            await until(lambda: not server.gateway.pools._tasks)
            assert backend.dialect.chat_from_ids is is_heard
            assert backend.continuing.completions_go_on is is_heard, "the former version did not"

    asyncio.run(story())


@pytest.mark.parametrize(
    ("page", "more", "from_ids"),
    [
        (b'{"version":"0.31.2"}', {}, False),
        (b'{"version":"0.32.1"}', {}, True),
        (b"", {}, True),
        (b"nothing", {}, True),
        (b'{"version":"0.31.2"}', {"engine": "vllm:version=0.32.0"}, True),
        (b'{"version":"0.31.2"}', {"models": ["m"]}, False),
    ],
)
def test_how_an_engine_speaks_follows_the_version_it_tells_unless_its_operator_did(page, more, from_ids):
    async def story():
        async with engine(nothing, page) as one, serving(Worker(url=one.url, **more)) as server:
            (backend,) = server.gateway.pools.all[0].backends.values()
            await until(lambda: backend.dialect.chat_from_ids is from_ids)

    asyncio.run(story())


def test_limits_of_a_tenant_hold_over_all_models():
    async def stalls(number, head, body, writer):
        return STALLS

    async def story():
        async with engine(stalls) as a, engine(stalls) as b:
            workers = [Worker(url=a.url, models=["one"]), Worker(url=b.url, models=["two"])]
            async with serving(*workers, tenants={"anonymous": Tenant(concurrent=1)}) as server:
                bodies = [request({"model": model, "prompt": "x"}) for model in ("one", "two")]
                _, leaves = await asyncio.open_connection("127.0.0.1", server.port)
                leaves.write(bodies[0])
                await until(lambda: a.asked)
                told = await raw(server, bodies[1], close=True)
                assert b" 429 " in told.partition(b"\r\n")[0] and not b.asked
                leaves.close()
                await a.left.wait()
                _, leaves = await asyncio.open_connection("127.0.0.1", server.port)
                leaves.write(bodies[1])
                await until(lambda: b.asked)
                leaves.close()

    asyncio.run(story())


@pytest.mark.parametrize("models", [["m"], []])
def test_a_reload_reads_the_keys_of_workers_again(tmp_path, models, caplog):
    key = tmp_path / "key"

    async def answers(number, head, body, writer):
        writer.write(whole(200, b'{"choices":[{"index":0,"text":"a","finish_reason":"stop"}]}'))

    async def shown(server, one):
        assert b" 200 OK" in await raw(server, request({"model": "m", "prompt": "x"}, headers="Connection: close\r\n"))
        return one.asked[-1][0].partition(b"Authorization: Bearer ")[2].partition(b"\r\n")[0]

    async def story():
        key.write_text("old")
        async with engine(answers) as one, serving(Worker(one.url, api_key=f"file:{key}", models=models)) as server:
            (pool,) = server.gateway.pools.all
            (backend,) = pool.backends.values()
            server.gateway.reload(server.gateway.config)
            assert list(pool.backends.values()) == [backend] and await shown(server, one) == b"old"
            key.write_text("new")
            server.gateway.reload(server.gateway.config)
            assert await shown(server, one) == b"new"
            key.unlink()
            server.gateway.reload(server.gateway.config)
            assert await shown(server, one) == b"new" and "expected a readable file" in caplog.text

    asyncio.run(story())


def test_a_worker_that_has_not_said_its_models_is_asked_on_with_the_key_of_a_reload(monkeypatch, tmp_path):
    key, heads = tmp_path / "key", list[bytes]()
    monkeypatch.setattr("evenstep.gateway.serve.pools._AGAIN_S", 0.005)

    async def serve(self, reader, writer):
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        page = MODELS if b"Bearer new" in heads[-1] else b"{}"
        writer.write(whole(200, page, more="Connection: close\r\n"))
        writer.close()

    monkeypatch.setattr(Engine, "serve", serve)

    async def story():
        key.write_text("old")
        async with engine(nothing) as one, serving(Worker(one.url, api_key=f"file:{key}"), is_ready=False) as server:
            await until(lambda: heads)
            key.write_text("new")
            server.gateway.reload(server.gateway.config)
            await until(lambda: server.gateway.pools.pool_of("m"))

    asyncio.run(story())


def test_a_reload_of_slots_holds_for_workers_without_their_own_unless_they_leave():
    async def slots(server, **settings):
        server.gateway.reload(dataclasses.replace(server.gateway.config, **settings))
        mirror = server.gateway.pools.all[0].dispatcher.mirror
        return {worker.spec.name: (worker.spec.slots, worker.leaves) for worker in mirror.workers}

    async def story():
        async def stalls(number, head, body, writer):
            return STALLS

        async with engine(stalls) as one, serving(slots=9, is_ready=False) as server:
            for name, more in (("a", {}), ("b", {"slots": 3})):
                server.gateway.pools.add(Worker(one.url, name=name, models=["m"], **more))
            assert await slots(server, slots=5) == {"a": (5, False), "b": (3, False)}
            server.gateway.pools.remove("b", drain=True)
            _, leaves = await asyncio.open_connection("127.0.0.1", server.port)
            leaves.write(request({"model": "m", "prompt": "x"}))
            await until(lambda: one.asked)
            server.gateway.pools.remove("a", drain=True)
            assert await slots(server, slots=7) == {"a": (5, True)}
            leaves.close()
            await until(lambda: not server.gateway.pools.workers)

    asyncio.run(story())
