"""SGLang: its paths, dialect and metrics page, from its published sources; not tested with a real server."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from evenstep.engines.metrics import prometheus
from evenstep.engines.view import Dialect, EngineSample

_RUNNING = "sglang:num_running_reqs"
_QUEUED = "sglang:num_queue_reqs"
_USED = "sglang:num_used_tokens"
_SHARE = "sglang:token_usage"
_CAPACITY = "sglang:max_total_num_tokens"
_QUERIED, _HIT = "sglang:prompt_tokens_total", "sglang:cached_tokens_total"
_WANTED = prometheus.wanted([_RUNNING, _QUEUED, _USED, _SHARE, _CAPACITY, _QUERIED, _HIT])


@dataclass(frozen=True, slots=True)
class SGLang:
    """An instance of SGLang, started with ``--enable-metrics``."""

    #: Usage comes in every chunk. Bootstrap rooms for prefill legs are not supported.
    dialect: ClassVar[Dialect] = Dialect(usage_needs_final=False, completion_usage_off="null")
    health_path: ClassVar[str] = "/health"
    metrics_path: ClassVar[str] = "/metrics"  #: with ranks by the label ``dp_rank``
    rank_header: ClassVar[str] = "X-Data-Parallel-Rank"

    def samples(self, page: bytes) -> tuple[EngineSample, ...]:
        """Parse a metrics page: one sample for each ``dp_rank`` label, in ascending order; without a label, rank 0.

        Tensor-parallel ranks report the same, so the largest value of a rank counts. With several ranks the prefix counters
        are nan, because the page has them for all ranks together. Without the capacity's metric, `kv_capacity` is used
        tokens over the used share, or inf if that share is 0 or missing.

        Raises:
            NotItsPageError: the page lacks the running or waiting requests or the KV tokens of a rank.
            EngineError: one of these is not finite, or a value is not a number.
        """
        values: dict[int, dict[str, float]] = {}
        for line in prometheus.lines(page, _WANTED):
            seen = values.setdefault(prometheus.whole(line.labels.get("dp_rank", "")), {})
            seen[line.name] = max(seen.get(line.name, -math.inf), line.value)
        if len(values) > 1:  # these counters are totals of all ranks
            for seen in values.values():
                seen.pop(_QUERIED, None)
                seen.pop(_HIT, None)
        return tuple(_sample(*one) for one in prometheus.complete(values, (_RUNNING, _QUEUED, _USED)))


def _sample(rank: int, seen: dict[str, float]) -> EngineSample:
    """The sample of a rank from its values by metric name."""
    used, share = seen[_USED], seen.get(_SHARE, 0.0)
    capacity = seen.get(_CAPACITY, used / share if share > 0 else math.inf)
    return EngineSample(
        rank=rank,
        running=int(seen[_RUNNING]),
        waiting=int(seen[_QUEUED]),
        kv_tokens=used,
        kv_capacity=capacity,
        prefix_queried=seen.get(_QUERIED, math.nan),
        prefix_hit=seen.get(_HIT, math.nan),
    )


#: The object that `names.find` returns for this file.
adapter = SGLang
