"""Writes ``/metrics`` of emulated engines: the metrics of vLLM or SGLang, and true values that only an emulator knows.

KV usage is counted in blocks without vLLM's null block, as in vLLM: resident KV tokens are
``usage * (num_gpu_blocks - 1) * block_size``. Metrics with the prefix ``evenstep:`` have the true values of each rank: KV
tokens in the running step, busy seconds, and the steps and seconds of its group.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from evenstep.emulator.fleet import Fleet
from evenstep.engines.metrics.page import Page


def metrics_page(fleet: Fleet, ranks: Sequence[int]) -> bytes:
    """The metrics page of these ranks (numbers in the fleet), in the fleet's dialect. Expired leases are dropped first."""
    page = Page()
    lines = _sglang if fleet.settings.dialect == "sglang" else _vllm
    for number in ranks:
        fleet.home[number].expire(fleet.now_s)
        lines(page, fleet, number)
        _own(page, fleet, number)
    page.add("counter", "process_cpu_seconds_total", time.process_time())
    return page.text()


def _vllm(page: Page, fleet: Fleet, number: int) -> None:
    rank, group = fleet.rank(number), fleet.home[number]
    called = str(fleet.settings.first_rank + number)
    who = {"engine": called, "model_name": fleet.settings.model}
    counts = rank.counts
    awaiting = group.awaiting(number - group.first)
    memory = rank.memory
    page.add("gauge", "vllm:num_requests_running", len(rank.running), **who)
    page.add("gauge", "vllm:num_requests_waiting", len(rank.waiting) + awaiting, **who)
    page.add("gauge", "vllm:num_requests_waiting_by_reason", len(rank.waiting), **who, reason="capacity")
    page.add("gauge", "vllm:num_requests_waiting_by_reason", awaiting, **who, reason="deferred")
    page.add("gauge", "vllm:kv_cache_usage_perc", memory.used / memory.blocks, **who)
    page.add("counter", "vllm:num_preemptions_total", counts.evictions, **who)
    sources = {
        "local_compute": counts.local_tokens,
        "local_cache_hit": counts.cached_tokens,
        "external_kv_transfer": counts.fetched_tokens,
    }
    page.add("counter", "vllm:prompt_tokens_total", sum(sources.values()), **who)
    for source, value in sources.items():
        page.add("counter", "vllm:prompt_tokens_by_source_total", value, **who, source=source)
    page.add("counter", "vllm:prefix_cache_queries_total", counts.looked_up_tokens, **who)
    page.add("counter", "vllm:prefix_cache_hits_total", counts.found_tokens, **who)
    page.add("counter", "vllm:generation_tokens_total", counts.produced_tokens, **who)
    # vLLM does not count a request that its client has left, nor does it look for repetitions unless it is asked
    for reason, value in {**counts.finished, "abort": 0, "repetition": 0}.items():
        page.add("counter", "vllm:request_success_total", value, **who, finished_reason=reason)
    page.add("counter", "vllm:nixl_num_kv_expired_reqs_total", counts.expired_leases, **who)
    blocks, size = memory.blocks + 1, memory.block_size
    config = {"num_gpu_blocks": str(blocks), "block_size": str(size), "kv_cache_size_tokens": str(blocks * size)}
    caching = str(fleet.settings.prefix_caching)
    page.add("gauge", "vllm:cache_config_info", 1, **config, enable_prefix_caching=caching, engine=called)


def _sglang(page: Page, fleet: Fleet, number: int) -> None:
    rank, memory = fleet.rank(number), fleet.rank(number).memory
    called = str(fleet.settings.first_rank + number)
    who = {"model_name": fleet.settings.model, "engine_type": "unified", "tp_rank": "0", "dp_rank": called}
    counts = rank.counts
    page.add("gauge", "sglang:num_running_reqs", len(rank.running), **who)
    page.add("gauge", "sglang:num_queue_reqs", len(rank.waiting), **who)
    page.add("gauge", "sglang:num_used_tokens", memory.used * memory.block_size, **who)
    page.add("gauge", "sglang:max_total_num_tokens", memory.blocks * memory.block_size, **who)
    page.add("gauge", "sglang:token_usage", memory.used / memory.blocks, **who)
    prompt = counts.local_tokens + counts.cached_tokens + counts.fetched_tokens
    page.add("counter", "sglang:prompt_tokens_total", prompt, **who)
    page.add("counter", "sglang:cached_tokens_total", counts.cached_tokens, **who)
    page.add("counter", "sglang:generation_tokens_total", counts.produced_tokens, **who)
    page.add("counter", "sglang:num_requests_total", sum(counts.finished.values()), **who)
    page.add("counter", "sglang:num_aborted_requests_total", counts.finished["abort"], **who)
    page.add("gauge", "sglang:num_retracted_reqs", counts.evictions, **who)


def _own(page: Page, fleet: Fleet, number: int) -> None:
    """Add the emulator's true values of one rank to the page, as metrics with the prefix ``evenstep:``."""
    rank, group = fleet.rank(number), fleet.home[number]
    who = {"rank": str(number), "group": str(fleet.groups.index(group))}
    page.add("gauge", "evenstep:resident_kv_tokens", sum(one.resident for one in rank.running), **who)
    page.add("gauge", "evenstep:last_step_seconds", group.step_s, **who)
    page.add("counter", "evenstep:steps_total", group.steps, **who)
    page.add("counter", "evenstep:step_seconds_total", group.stepped_s, **who)
    page.add("counter", "evenstep:busy_seconds_total", rank.counts.busy_s, **who)
    page.add("counter", "evenstep:late_steps_total", fleet.late_steps[group], **who)
