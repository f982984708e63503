"""The settings of the engine that `engine.simulation` runs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import Literal, cast, get_args

from evenstep.config.number import integers
from evenstep.errors import MOST, InputError, check_known

Overflow = Literal["recompute", "restart", "swap", "never"]
FirstToken = Literal["prefill", "decode"]


@dataclass(frozen=True, slots=True)
class Engine:
    """The settings of one batching server.

    Args:
        token_budget: b, tokens an iteration may run; 0 = no limit.
        batch_limit: requests an iteration may run; 0 = no limit.
        resident_limit: requests that may hold memory at a time, running or paused; 0 = no limit, None = the batch limit.
            vLLM's `max_num_seqs` is both limits.
        kv_tokens: M, KV tokens of memory, rounded down to whole blocks; 0 = no limit.
        block_tokens: KV tokens of a block.
        overflow: what an evicted request keeps. ``recompute``: its output so far, whose KV is computed again with the
            prompt's (vLLM). ``restart``: nothing (Interval scheduling). ``swap``: output and KV, which is moved away and
            back. ``never``: a policy that evicts breaks its contract.
        keeps_evicted: with ``recompute``, the KV of an evicted request stays readable until other requests overwrite it,
            oldest first. The part still readable when the request comes back is not computed again, as with vLLM's prefix
            cache. Prefixes that different requests share are not modelled.
        schedules_ahead: the next batch is formed when this one starts, as vLLM's asynchronous scheduling does: requests that
            arrive during a batch join the one after the next. Requests that end still leave with their batch.
        first_token: the iteration that produces it: the one that ends the ``prefill``, or the first ``decode``.
        hold_produced: whether memory counts the token produced last; has no effect with first_token ``decode``.
        swap_s: a1 and a2: seconds per KV token, and seconds each time KV is swapped out or in.
        recompute_s: b1 and b2: seconds per squared KV token, and seconds each time KV is dropped. They come on top of the
            prefill that is run again.
        overhead_s: seconds of an iteration outside its batch: scheduling, sampling.
        data_parallel: ranks in lock-step, each with its own budget, limits, memory and copy of the policy (`engine.ranks`);
            1 = one engine.
        balancer: routing policy that gives each request to a rank when it arrives, NAME or NAME:key=value; no effect with
            one rank.
        news_s: least seconds between two broadcasts of the ranks' counts to the balancer; 0 = one each step.

    Raises:
        InputError: a value out of range; the field is named.

    Source: Throughput-optimal sec. 2 and A.3; Interval scheduling sec. 2; vLLM's arguments `max_num_batched_tokens`,
        `max_num_seqs`.
    """

    token_budget: int = 2048
    batch_limit: int = 256
    resident_limit: int | None = None
    kv_tokens: int = 0
    block_tokens: int = 1
    overflow: Overflow = "recompute"
    keeps_evicted: bool = False
    schedules_ahead: bool = False
    first_token: FirstToken = "prefill"
    hold_produced: bool = False
    swap_s: tuple[float, float] = (0.0, 0.0)
    recompute_s: tuple[float, float] = (0.0, 0.0)
    overhead_s: float = 0.0
    data_parallel: int = 1
    balancer: str = "vllm"
    news_s: float = 0.1

    def __post_init__(self) -> None:
        lowest = {"token_budget": 0, "batch_limit": 0, "kv_tokens": 0, "block_tokens": 1, "data_parallel": 1}
        if self.resident_limit is not None:
            lowest["resident_limit"] = 0
        for name, low in lowest.items():
            value = getattr(self, name)
            if not (_is_number(value) and low <= value <= MOST and float(value).is_integer()):
                expected = integers(low, value if _is_number(value) else low)
                raise InputError("engine", name, value, expected, "0 is no limit." if not low else "")
        for name, words in (("overflow", get_args(Overflow)), ("first_token", get_args(FirstToken))):
            check_known("engine", name, getattr(self, name), words)
        for name in ("keeps_evicted", "schedules_ahead", "hold_produced"):
            if not isinstance(getattr(self, name), bool):
                raise InputError("engine", name, getattr(self, name), "true or false")
        if 0 < self.kv_tokens < self.block_tokens:
            raise InputError("engine", "kv_tokens", self.kv_tokens, f"at least one block of {self.block_tokens}")
        if self.keeps_evicted and self.overflow != "recompute":
            raise InputError("engine", "keeps_evicted", True, "overflow recompute", "Otherwise all KV is kept, or none.")
        for name in ("swap_s", "recompute_s"):
            pair = getattr(self, name)
            if not (isinstance(pair, tuple | list) and len(pair) == 2 and all(map(_is_time, pair))):
                raise InputError("engine", name, pair, "two finite numbers >= 0")
        for name in ("overhead_s", "news_s"):
            if not _is_time(getattr(self, name)):
                raise InputError("engine", name, getattr(self, name), "a finite number of seconds >= 0")

    @property
    def seats(self) -> int:
        """Requests an engine serves at a time: the lower of `batch_limit` and `residents` that is not 0; 0 = no limit."""
        return min((limit for limit in (self.batch_limit, self.residents) if limit), default=0)

    @property
    def residents(self) -> int:
        """Requests that may hold memory at a time: `resident_limit`, or `batch_limit` if that is None; 0 = no limit."""
        return self.batch_limit if self.resident_limit is None else self.resident_limit


def _is_number(value: object) -> bool:
    """Whether a value is a real number; a bool is not."""
    return isinstance(value, Real) and value is not True and value is not False


def _is_time(value: object) -> bool:
    """Whether a value is a finite number of seconds >= 0."""
    return _is_number(value) and 0 <= float(cast("float", value)) < math.inf
