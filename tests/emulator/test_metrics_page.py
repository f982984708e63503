from __future__ import annotations

import asyncio
import re
from types import SimpleNamespace

import aiohttp
import pytest
from tests.emulator.running import running, url
from tests.pages import clashes

from evenstep.emulator.fleet import Fleet
from evenstep.emulator.group import Arrived, Cancelled, Due
from evenstep.emulator.metrics_page import metrics_page
from evenstep.emulator.rank import Sequence
from evenstep.emulator.settings import EmulatorSettings
from evenstep.engines.dialects.sglang import SGLang
from evenstep.engines.dialects.vllm import VLLM

LAW = {"overhead_s": 1.0, "per_token_s": 0.5, "prefill_per_token_s": 0.0, "token_budget": 0}
BODY = {"prompt": [7] * 100, "max_tokens": 1000, "stream": True, "ignore_eos": True}


def value(page, name, **labels):
    """The value of the one sample of this name with these labels."""
    found = []
    for line in page.splitlines():
        match = re.fullmatch(r"([\w:]+)(?:\{(.*)\})? (\S+)", line)
        if match and match[1] == name and all(f'{k}="{v}"' in (match[2] or "") for k, v in labels.items()):
            found.append(float(match[3]))
    assert len(found) == 1, (name, labels, found)
    return found[0]


async def page_of(emulator):
    async with aiohttp.ClientSession(url(emulator)) as session:
        answer = await session.post("/v1/completions", json=BODY, headers={"X-data-parallel-rank": "1"})
        await answer.content.readuntil(b"data: ")
        page = await (await session.get("/metrics")).text()
        answer.close()
        return page


def test_resident_tokens_can_be_read_from_the_usage_as_with_vllm():
    async def story():
        async with running(ranks=2, slots=1, speed=0.2, kv_tokens=3200, block_size=16) as emulator:
            page = await page_of(emulator)
            usage = value(page, "vllm:kv_cache_usage_perc", engine="1")
            info = next(line for line in page.splitlines() if line.startswith("vllm:cache_config_info{"))
            blocks = int(re.search(r'num_gpu_blocks="(\d+)"', info)[1])
            size = int(re.search(r'block_size="(\d+)"', info)[1])
            resident = value(page, "evenstep:resident_kv_tokens", rank="1")
            assert 101 <= resident <= usage * (blocks - 1) * size < resident + size
            assert value(page, "vllm:num_requests_running", engine="1") == 1
            assert value(page, "vllm:num_requests_running", engine="0") == 0
            assert value(page, "vllm:prompt_tokens_by_source_total", engine="1", source="local_compute") == 100
            sample = VLLM().samples(page.encode())[1]
            assert (sample.running, sample.kv_capacity) == (1, 3200)
            assert resident <= sample.kv_tokens < resident + size
            assert value(page, "process_cpu_seconds_total") > 0

    asyncio.run(story())


def test_it_tells_how_much_of_the_prompts_it_found_in_its_cache():
    async def story():
        body = {"prompt": [7] * 100, "max_tokens": 1}
        for caching, found in ((True, (200, 96)), (False, (0, 0))):
            async with (
                running(speed=50.0, block_size=16, prefix_caching=caching) as emulator,
                aiohttp.ClientSession(url(emulator)) as session,
            ):
                for _ in range(2):
                    await (await session.post("/v1/completions", json=body)).read()
                (sample,) = VLLM().samples(await (await session.get("/metrics")).read())
                assert (sample.prefix_queried, sample.prefix_hit) == found

    asyncio.run(story())


@pytest.mark.parametrize("chat", [False, True])
def test_the_next_turn_of_a_conversation_finds_the_answer_before_it_as_in_vllm(chat):
    """All full blocks of prompt and answer, but the answer's last token, whose KV was never computed."""

    async def story():
        async with (
            running(speed=50.0, block_size=16, prefix_caching=True) as emulator,
            aiohttp.ClientSession(url(emulator)) as session,
        ):
            path = "/v1/chat/completions" if chat else "/v1/completions"
            said, asked = "".join(" bab" for _ in range(40)), {"max_tokens": 57, "ignore_eos": True}
            first = {"messages": [{"role": "user", "content": said}]} if chat else {"prompt": said}
            answer = await (await session.post(path, json=asked | first)).json()
            before, (choice,) = answer["usage"]["total_tokens"], answer["choices"]
            if chat:
                turns = [*first["messages"], choice["message"], {"role": "user", "content": " bab"}]
                second = {"messages": turns}
            else:
                second = {"prompt": said + choice["text"] + " bab bab"}
            await (await session.post(path, json=asked | second)).read()
            (sample,) = VLLM().samples(await (await session.get("/metrics")).read())
            assert sample.prefix_hit == (before - 1) // 16 * 16 > 80

    asyncio.run(story())


def test_the_names_of_sglang():
    async def story():
        async with running(ranks=2, speed=0.2, dialect="sglang", kv_tokens=3200) as emulator:
            page = await page_of(emulator)
            used = value(page, "sglang:num_used_tokens", dp_rank="1")
            total = value(page, "sglang:max_total_num_tokens", dp_rank="1")
            assert value(page, "sglang:token_usage", dp_rank="1") == pytest.approx(used / total)
            assert (used, total) == (112, 3200)
            assert value(page, "sglang:num_running_reqs", dp_rank="1") == 1
            sample = SGLang().samples(page.encode())[1]
            assert (sample.running, sample.kv_tokens, sample.kv_capacity) == (1, 112, 3200)

    asyncio.run(story())


def test_every_sample_stands_below_the_type_of_its_family():
    async def story():
        async with (
            running(ranks=2, model='a "b"\\c', speed=10.0) as emulator,
            aiohttp.ClientSession(url(emulator)) as session,
        ):
            page = await (await session.get("/metrics")).text()
        family = None
        for line in page.splitlines():
            if line.startswith("# TYPE "):
                family = line.split()[2]
            elif not line.startswith("#"):
                assert re.match(r"[\w:]+", line)[0] == family
        assert 'model_name="a \\"b\\"\\\\c"' in page

    asyncio.run(story())


def a_page(dialect):
    """The page of a fleet by hand: one sequence has ended and left its KV, one was aborted, one runs, two wait."""
    now = [0.0]
    loop = SimpleNamespace(time=lambda: now[0])
    settings = EmulatorSettings(
        ranks=2, groups=(1, 1), first_rank=4, slots=1, kv_tokens=64, block_size=4, lease_s=30.0, dialect=dialect, **LAW
    )
    fleet = Fleet(settings, loop, [1, 2])
    group = fleet.groups[1]
    group.handle(Arrived(Sequence(1, 8, 1, leased=True), 0), 0.0)
    group.handle(Arrived(Sequence(2, 12, 9), 0), 0.0)
    group.handle(Due(), 0.0)  # a step of 8 tokens
    group.handle(Arrived(Sequence(3, 4, 9), 0), 1.0)
    group.handle(Arrived(Sequence(4, 4, 9), 0, awaits=True), 1.0)
    group.handle(Arrived(Sequence(5, 4, 9), 0), 1.0)
    group.handle(Cancelled(5), 1.0)
    group.handle(Due(), 5.0)  # one of 12
    group.handle(Due(), 12.0)  # one of 13
    group.ranks[0].counts.evictions, group.ranks[0].counts.cached_tokens = 6, 100
    fleet.late_steps[group] = 7
    now[0] = 40.0
    return metrics_page(fleet, range(2)).decode()


@pytest.mark.parametrize("dialect", ["vllm", "sglang"])
def test_no_two_metrics_are_one_family_in_openmetrics(dialect):
    assert clashes(a_page(dialect)) == []


@pytest.mark.parametrize(
    ("name", "labels", "expected"),
    [
        ("num_requests_running", {}, 1),
        ("num_requests_waiting", {}, 2),
        ("num_requests_waiting_by_reason", {"reason": "capacity"}, 1),
        ("num_requests_waiting_by_reason", {"reason": "deferred"}, 1),
        ("kv_cache_usage_perc", {}, 4 / 16),
        ("num_preemptions_total", {}, 6),
        ("prompt_tokens_total", {}, 8 + 12 + 100),
        ("prompt_tokens_by_source_total", {"source": "local_compute"}, 20),
        ("prompt_tokens_by_source_total", {"source": "local_cache_hit"}, 100),
        ("prompt_tokens_by_source_total", {"source": "external_kv_transfer"}, 0),
        ("generation_tokens_total", {}, 2),
        ("request_success_total", {"finished_reason": "length"}, 1),
        ("request_success_total", {"finished_reason": "abort"}, 0),  # vLLM does not count who leaves
        ("request_success_total", {"finished_reason": "error"}, 0),
        ("request_success_total", {"finished_reason": "repetition"}, 0),
        ("nixl_num_kv_expired_reqs_total", {}, 1),
    ],
)
def test_figures_of_vllm_by_hand(name, labels, expected):
    page = a_page("vllm")
    assert value(page, f"vllm:{name}", engine="5", **labels) == expected
    if name != "kv_cache_usage_perc":
        assert value(page, f"vllm:{name}", engine="4", **labels) == 0
    rank = {"rank": "1", "group": "1"}
    own = {
        "resident_kv_tokens": 13,
        "last_step_seconds": 7.5,
        "steps_total": 2,
        "step_seconds_total": 12.0,
        "late_steps_total": 7,
    }
    assert {key: value(page, f"evenstep:{key}", **rank) for key in own} == own
    assert value(page, "evenstep:busy_seconds_total", **rank) == 4.0 + 6.0 + 6.5


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("num_running_reqs", 1),
        ("num_queue_reqs", 1),
        ("num_used_tokens", 16),
        ("max_total_num_tokens", 64),
        ("token_usage", 0.25),
        ("prompt_tokens_total", 120),
        ("cached_tokens_total", 100),
        ("generation_tokens_total", 2),
        ("num_requests_total", 2),
        ("num_aborted_requests_total", 1),
        ("num_retracted_reqs", 6),
    ],
)
def test_figures_of_sglang_by_hand(name, expected):
    assert value(a_page("sglang"), f"sglang:{name}", dp_rank="5") == expected
