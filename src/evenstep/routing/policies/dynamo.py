"""NVIDIA Dynamo's KV router: blocks to prefill, less what is cached, plus blocks in decode."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from evenstep.compiled import part
from evenstep.draws import head, uniform_from
from evenstep.errors import check_range
from evenstep.request import F8
from evenstep.routing.filling import Room, count_requests, list_with_room, nth_with, send_to, set_load, set_room
from evenstep.routing.roulette import spin
from evenstep.routing.rules import Ruled, RuleView, WorkerFloats, WorkerInts, rule
from evenstep.streams import stream_number

_STREAM = stream_number("dynamo")


@dataclass(frozen=True, slots=True)
class Dynamo(Ruled):
    """Dynamo's KV router: the oldest request goes to the worker of smallest cost in KV blocks.

    ``cost = prefill_load_scale * max(0, (prefill_g + s_i - overlap_score_credit * cached_ig) / block_size) + (load_g + s_i)
    / block_size + active_request_weight * active_g``

    For worker g, prefill_g is the tokens sent and not yet decoding, where requests of this decision count their uncached
    tokens. load_g is the KV tokens, and active_g the requests, that run or were sent. s_i is the prompt of request i. Equal
    costs are decided by keyed chance. The router's older ``overlap_score_weight`` is `prefill_load_scale` with a credit of
    1.

    Args:
        overlap_score_credit: worth of a cached block of the prompt, in blocks, >= 0; 0 = caches do not count.
        prefill_load_scale: weight of blocks to prefill, >= 0; 0 = separate prefill engines; with the other defaults the
            policy is then least load, except for ties.
        active_request_weight: blocks that an active request costs in addition to its own, >= 0.
        temperature: 0 = the smallest cost; above 0, a draw by softmax of minus the costs scaled to their range.
        block_size: tokens in a KV block, >= 1.

    Raises:
        InputError: an option out of range.

    It leaves out caches on host, disk and shared storage, and decay of the credit with backlog. It also leaves out blocks
    that two running requests share, the order of cache and load events, and rounding to whole blocks. By default Dynamo
    counts blocks of prompts alone; the view's KV tokens include output, as with its tracking of output blocks. Its queue
    holds requests back while all workers are busy; otherwise each is dispatched on arrival. Here the pool waits for slots,
    and the oldest request goes first.

    Source: ai-dynamo/dynamo, lib/kv-router/src/scheduling/selector/default.rs, DefaultWorkerScorer (commit 07a6c9c, 2026);
    defaults of scheduling/config.rs there.
    """

    reads_cached: ClassVar[bool] = True

    overlap_score_credit: float = 1.0
    prefill_load_scale: float = 1.0
    active_request_weight: float = 0.0
    temperature: float = 0.0
    block_size: int = 16

    def __post_init__(self) -> None:
        for field in ("overlap_score_credit", "prefill_load_scale", "active_request_weight", "temperature"):
            check_range("dynamo", "a finite number >= 0", low=0, finite=True, **{field: getattr(self, field)})
        check_range("dynamo", "an integer >= 1", low=1, block_size=self.block_size)


class Work(NamedTuple):
    """Working space: the room (see `filling.Room`), tokens and requests of each worker, and the costs of one request."""

    fleet: Room
    prefill: WorkerFloats  # prefill_g of `Dynamo`, with requests that this decision sends; the next two likewise
    load: WorkerFloats
    active: WorkerInts
    fitting: WorkerInts  # the workers with room for the request at hand
    cost: WorkerFloats  # in blocks, on each of those


@rule
def route(view: RuleView, options: Dynamo, work: Work) -> None:
    """Write each request's worker to `work`, oldest first: one with room, chosen by `pick`; `HOLD` if none has room."""
    dice, left = head(view.seed, _STREAM), set_room(view, work.fleet)
    set_load(view, work.load)
    count_requests(view, work.active)
    for g in range(view.load.size):
        work.prefill[g] = view.queued_load[g]
    for i in range(view.waiting_load.size):
        if left == 0:
            break
        size = view.waiting_load[i]
        count = list_with_room(size, work.fitting, work.fleet)
        if count == 0:
            continue
        for k in range(count):
            work.cost[k] = cost_of(i, work.fitting[k], view, options, work)
        best = work.fitting[pick(work.cost, count, options.temperature, uniform_from(dice, view.waiting_id[i], 0))]
        send_to(i, best, size, work.fleet)
        left -= 1
        work.prefill[best] += max(0.0, size - cached_on(i, best, view))
        work.load[best] += size
        work.active[best] += 1


@part
def cached_on(i: int, g: int, view: RuleView) -> float:
    """Prompt tokens of request i that worker g has cached; 0 where caches are unknown."""
    return view.cached_tokens[i, g] if view.cached_tokens.size > 0 else 0.0


@part
def cost_of(i: int, g: int, view: RuleView, options: Dynamo, work: Work) -> float:
    """The cost of request i on worker g, in KV blocks, by the formula of `Dynamo`; not rounded."""
    size, credit = view.waiting_load[i], options.overlap_score_credit * cached_on(i, g, view)
    blocks = options.prefill_load_scale * max(0.0, work.prefill[g] + size - credit) + work.load[g] + size
    return blocks / options.block_size + options.active_request_weight * work.active[g]


@part
def pick(cost: F8, count: int, temperature: float, chance: float) -> int:
    """The index of the smallest cost in 0..count-1, ties by chance; if `temperature` is above 0, a draw by softmax.

    `chance` is the random number, in [0, 1). A draw by softmax overwrites `cost`.
    """
    least, most = np.inf, -np.inf
    for k in range(count):
        least, most = min(least, cost[k]), max(most, cost[k])
    span = most - least
    if temperature == 0.0 or span == 0.0:
        tied = 0
        for k in range(count):
            tied += cost[k] == least
        return nth_with(cost, least, int(chance * tied))
    for k in range(count):
        cost[k] = exponential((cost[k] - least) / (span * temperature))
    return spin(cost, count, chance)


@part
def exponential(x: float) -> float:
    """``exp(-x)`` for x >= 0 by multiplication and division alone: the same bits on every machine, to about 1e-12."""
    if x > 700:
        return 0.0
    y = x / 1024
    result = 1 / (1 + y * (1 + y / 2 * (1 + y / 3 * (1 + y / 4 * (1 + y / 5 * (1 + y / 6 * (1 + y / 7)))))))
    for _ in range(10):
        result *= result
    return result


policy = Dynamo
