"""The engine simulator: one batching server, iteration by iteration.

Order of events of an iteration, fixed so that results repeat to the last bit:

1. requests whose arrival is at most the clock (with ``schedules_ahead``: the start of the last iteration) join the queue,
   sorted by the policy's `order` (ties: trace row);
2. the policy sees the engine and answers; evictions come first, in the order of admission: an evicted request gives up its
   memory and joins the queue again (what it keeps is `overflow`'s to say);
3. the answer is checked against budget, batch limit, memory and resident limit; requests picked from the queue are
   admitted, in its order;
4. the iteration lasts as long as the batch-time law says, plus the overhead of moved memory; the clock advances;
5. every request of the batch has run its tokens; a request that completed its prefill, or decoded, has produced a token; a
   request that produced its last token is finished and frees its memory.

An empty batch is not an iteration: the clock goes to the next arrival, or to the policy's `wake_s` if that is earlier.
If neither exists and requests are left, the policy holds forever: an error.

**Tokens.** A request of prompt s and output o runs s prefill tokens, in one chunk or several. With ``first_token="prefill"``
(real engines, Interval scheduling) the iteration that ends its prefill also produces its first token, and o - 1 decodes
follow; with ``decode`` (WAIT, Throughput-optimal) o decodes follow. After recompute its prefill is s plus what it produced.

**Memory.** A request holds the KV of the tokens it has computed, in whole blocks; with ``hold_produced`` also that of its
last produced token, which real engines compute one iteration later: then it holds s + o in its last iteration, as Interval
scheduling counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Literal, cast, get_args

from evenstep.cost.batch import BatchTime
from evenstep.errors import InputError
from evenstep.request import I8, Trace
from evenstep.scheduling.view import SchedulingPolicy

if TYPE_CHECKING:
    from evenstep.measure.engine_records import EngineRun
    from evenstep.predict.intervals import Quantiles

Overflow = Literal["recompute", "restart", "swap", "never"]
FirstToken = Literal["prefill", "decode"]


@dataclass(frozen=True, slots=True)
class Engine:
    """One batching server.

    Args:
        token_budget: b, tokens an iteration may run; 0 = no limit.
        batch_limit: requests an iteration may run; 0 = no limit.
        resident_limit: requests that may hold memory at a time, those that pause with it included; 0 = no limit, None = the
            batch limit: vLLM's `max_num_seqs` is both.
        kv_tokens: M, KV tokens of memory, rounded down to whole blocks; 0 = no limit.
        block_tokens: KV tokens of a block.
        overflow: what an evicted request keeps. ``recompute``: its output so far, whose KV is computed again with the
            prompt's (vLLM); ``restart``: nothing (Interval scheduling); ``swap``: output and KV, which is moved away and
            back; ``never``: a policy that evicts breaks its contract.
        keeps_evicted: with ``recompute``, the KV of a request that left the memory stays readable there until others
            take the place, oldest first: what is left when it comes back is not computed again. What vLLM's prefix cache
            does for evicted requests; beginnings that different requests share are not modelled.
        schedules_ahead: the next batch is formed when this one starts, as vLLM's asynchronous scheduling does: requests
            that arrive during a batch join the one after the next. Requests that end still leave with their batch.
        first_token: which iteration produces it: the one that ends the ``prefill``, or the first ``decode``.
        hold_produced: whether memory counts the token produced last.
        swap_s: a1 and a2, seconds a KV token and seconds each time KV is swapped out or in.
        recompute_s: b1 and b2, seconds a squared KV token and seconds each time KV is dropped, beside the prefill that
            is run again.
        overhead_s: seconds of an iteration beside its batch: scheduling, sampling.
        data_parallel: ranks in lock-step, each with a budget, limits and memory as above and the policy for itself
            (`sim.ranks`); 1 = one engine.
        balancer: routing policy that gives each request to a rank when it arrives, NAME or NAME:key=value.
        news_s: seconds between two broadcasts of the ranks' counts to the balancer, at least; 0 = each step's.

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
            if not (_is_number(value) and float(value).is_integer() and value >= low):
                raise InputError(
                    "engine", name, value, f"an integer >= {low}", "0 is no limit." if not low else ""
                )
        for name, words in (("overflow", get_args(Overflow)), ("first_token", get_args(FirstToken))):
            if getattr(self, name) not in words:
                raise InputError("engine", name, getattr(self, name), f"one of {', '.join(words)}")
        for name in ("keeps_evicted", "schedules_ahead", "hold_produced"):
            if not isinstance(getattr(self, name), bool):
                raise InputError("engine", name, getattr(self, name), "true or false")
        if 0 < self.kv_tokens < self.block_tokens:
            raise InputError(
                "engine", "kv_tokens", self.kv_tokens, f"at least one block of {self.block_tokens}"
            )
        if self.keeps_evicted and self.overflow != "recompute":
            raise InputError(
                "engine", "keeps_evicted", True, "overflow recompute", "Others keep all or nothing."
            )
        for name in ("swap_s", "recompute_s"):
            pair = getattr(self, name)
            if not (isinstance(pair, tuple | list) and len(pair) == 2 and all(map(_is_time, pair))):
                raise InputError("engine", name, pair, "two finite numbers >= 0")
        for name in ("overhead_s", "news_s"):
            if not _is_time(getattr(self, name)):
                raise InputError("engine", name, getattr(self, name), "a finite number of seconds >= 0")

    @property
    def residents(self) -> int:
        """Requests that may hold memory at a time; 0 = no limit."""
        return self.batch_limit if self.resident_limit is None else self.resident_limit


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and value is not True and value is not False


def _is_time(value: object) -> bool:
    return _is_number(value) and 0 <= float(cast("float", value)) < math.inf


def simulate_engine(
    trace: Trace,
    policy: SchedulingPolicy,
    *,
    engine: Engine | None = None,
    batch_time: BatchTime | None = None,
    bounds: tuple[I8, I8] | Quantiles | None = None,
    seed: int = 0,
    records: bool = True,
    door: Literal["auto", "plain", "compiled"] = "auto",
    until_s: float = math.inf,
    name: str = "",
) -> EngineRun:
    """Run a trace through one engine under a scheduling policy; the events are in this module's order.

    Args:
        trace: the requests; a trace without times arrives at once.
        policy: a scheduling policy.
        engine: the server; default `Engine()`.
        batch_time: seconds of an iteration; default `TokenBudget()`.
        bounds: int64[N] each, believed lowest and highest output length of each request, or quantiles a predictor gives
            when it arrives; default the trace's columns. Bounds that do not hold the truth are counted, and believed until
            an output grows beyond them. A policy of hindsight (`h-sf`, `a-random`) is shown the truth, whatever is given.
        seed: key of every random draw of the policy.
        records: keep the request and iteration tables; without them the summary stays.
        door: ``compiled`` runs the policy's kernel inside the loop, ``plain`` calls its `form_batch`; ``auto`` takes the
            kernel where there is one. Both give the same digest.
        until_s: stop at the first iteration that would start at or after it, requests left over; inf = run all to
            completion.
        name: the policy as it was asked for, for tables and reports.

    Returns:
        The run: tables, totals, every metric, and the digest.

    Raises:
        InputError: a trace or option that does not fit, for instance a prompt larger than the memory.
        PolicyError: the policy broke its contract, raised, or holds for ever.
    """
    from evenstep.cost.token_budget import TokenBudget
    from evenstep.sim.engine.host import run

    label = name or type(policy).__name__
    if isinstance(policy, type) or not callable(getattr(policy, "form_batch", None)):
        raise InputError(label, "policy", policy, "an object with a method form_batch(view)")
    law = batch_time or TokenBudget()
    if not callable(getattr(law, "table", None)):
        raise InputError("simulate_engine", "batch_time", law, "a batch-time law, e.g. TokenBudget()")
    if door not in ("auto", "plain", "compiled"):
        raise InputError("simulate_engine", "door", door, "one of auto, plain, compiled")
    if not until_s > 0:
        raise InputError("simulate_engine", "until_s", until_s, "a number of seconds > 0")
    server = engine or Engine()
    if server.data_parallel > 1:
        from evenstep.sim.engine.ranks import run
    return run(
        trace, policy, server, law, bounds, seed=seed, records=records, door=door,
        until_s=until_s, name=label,
    )  # fmt: skip
