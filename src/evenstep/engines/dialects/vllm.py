"""vLLM: its paths, its dialect by version, and its metrics page.

Source: vLLM 0.32.0 on CPU, seen running; streams of 0.19.1 and 0.26.0 as their sources have them.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import ClassVar

from evenstep.engines.metrics import prometheus
from evenstep.engines.view import Dialect, EngineSample

_RUNNING = "vllm:num_requests_running"
_WAITING = "vllm:num_requests_waiting"
_USAGE = ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc")  # the second in versions up to 0.10
_CONFIG = "vllm:cache_config_info"
_QUERIED, _HIT = "vllm:prefix_cache_queries_total", "vllm:prefix_cache_hits_total"
_WANTED = prometheus.wanted([_RUNNING, _WAITING, *_USAGE, _CONFIG, _QUERIED, _HIT])


@dataclass(frozen=True, slots=True)
class VLLM:
    """An instance of vLLM, or one that speaks like it.

    Args:
        version: as ``/version`` gives it, ``0.19.1+cpu`` for example; text without a number at its start = the newest.
    """

    health_path: ClassVar[str] = "/health"  #: answers 200 while the engine lives; it does not prove that a step is possible
    metrics_path: ClassVar[str] = "/metrics"  #: shows all ranks at the URL by the label ``engine``
    rank_header: ClassVar[str] = "X-data-parallel-rank"  #: under internal or hybrid load balancing

    version: str = ""

    @property
    def dialect(self) -> Dialect:
        """vLLM's dialect for the version: null ``usage`` in completions up to 0.19; chats continue from ids since 0.32."""
        version = _numbers(self.version)
        return Dialect(
            completion_usage_off="null" if version < (0, 20) else "absent",
            chat_from_ids=version >= (0, 32),
            handover="kv_transfer_params",
        )

    def samples(self, page: bytes) -> tuple[EngineSample, ...]:
        """Parse a metrics page: one sample for each ``engine`` label, in ascending order; without a label, rank 0.

        Lines of one rank that differ in other labels are added. KV tokens are the used share times the capacity, which is
        that of all blocks but vLLM's null block. If the page lacks the number or size of blocks, `kv_capacity` is inf and
        `kv_tokens` nan.

        Raises:
            NotItsPageError: the page lacks the running or waiting requests or the KV usage of a rank.
            EngineError: one of these is not finite, or a value is not a number.
        """
        values: dict[int, dict[str, float]] = {}
        blocks: dict[int, tuple[int, int]] = {}
        for line in prometheus.lines(page, _WANTED):
            rank = prometheus.whole(line.labels.get("engine", ""))
            if line.name == _CONFIG:
                many, size = line.labels.get("num_gpu_blocks", ""), line.labels.get("block_size", "")
                blocks[rank] = prometheus.whole(many), prometheus.whole(size)
            else:
                name = _USAGE[0] if line.name in _USAGE else line.name
                seen = values.setdefault(rank, {})
                seen[name] = seen.get(name, 0.0) + line.value
        found = prometheus.complete(values, (_RUNNING, _WAITING, _USAGE[0]))
        return tuple(_sample(rank, seen, *blocks.get(rank, (0, 0))) for rank, seen in found)


def _sample(rank: int, seen: dict[str, float], blocks: int, block_size: int) -> EngineSample:
    """The sample of a rank from its values by metric name, and the number and size of its KV blocks; 0 = unknown."""
    capacity = float(max(0, blocks - 1) * block_size) if blocks and block_size else math.inf
    used = min(1.0, max(0.0, seen[_USAGE[0]]))
    return EngineSample(
        rank=rank,
        running=int(seen[_RUNNING]),
        waiting=int(seen[_WAITING]),
        kv_tokens=used * capacity if capacity < math.inf else math.nan,
        kv_capacity=capacity,
        prefix_queried=seen.get(_QUERIED, math.nan),
        prefix_hit=seen.get(_HIT, math.nan),
        kv_share=used,
    )


def _numbers(version: str) -> tuple[int, ...]:
    """``0.19.1+cpu`` as (0, 19, 1); text without a number gives a version above all others."""
    found = re.match(r"\d{1,9}(?:\.\d{1,9})*", version)
    return tuple(int(part) for part in found[0].split(".")) if found else (1 << 30,)


#: The object that `names.find` returns for this file.
adapter = VLLM
