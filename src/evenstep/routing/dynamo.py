"""NVIDIA Dynamo's KV router: blocks to prefill, less what is cached, plus blocks in decode."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from evenstep import streams
from evenstep.errors import InputError
from evenstep.request import F8
from evenstep.routing.filling import Filling
from evenstep.routing.roulette import spin
from evenstep.routing.view import RoutingDecision, RoutingView


@dataclass(frozen=True, slots=True)
class Dynamo:
    """Dynamo's KV router: the oldest request goes to the worker of smallest cost in KV blocks.

    ``cost = prefill_load_scale * max(0, (prefill_g + s_i - overlap_score_credit * cached_ig) / block_size)
    + (load_g + s_i) / block_size + active_request_weight * active_g``

    prefill_g are the tokens sent and not yet decoding, of those sent in this decision the ones not cached; load_g the KV
    tokens that run or were sent; active_g the requests. Equal costs go by keyed chance. The router's
    older ``overlap_score_weight`` is `prefill_load_scale` with a credit of 1.

    Args:
        overlap_score_credit: worth of a cached block of the prompt, in blocks, >= 0; 0 = load alone.
        prefill_load_scale: weight of blocks to prefill, >= 0; 0 = a decode worker behind separate prefill, which is
            then least load.
        active_request_weight: blocks that an active request costs beside its own, >= 0.
        temperature: 0 = the smallest cost; above, a draw by softmax of the costs scaled to their range.
        block_size: tokens in a KV block, >= 1.

    Raises:
        InputError: an option out of range.

    It leaves out: caches on host, disk and shared storage, decay of the credit with backlog, blocks that two running
    requests share, the order of events that tell of caches and loads, and rounding to whole blocks. By default Dynamo
    counts blocks of prompts alone; the view's KV tokens include what was produced, as with its tracking of output
    blocks. Its queue holds requests back while all workers are busy; else each is dispatched on arrival. Here the pool
    waits for slots and is taken oldest first.

    Source: ai-dynamo/dynamo, lib/kv-router/src/scheduling/selector/default.rs, DefaultWorkerScorer (commit 07a6c9c,
    2026); defaults of scheduling/config.rs there.
    """

    reads_cached: ClassVar[bool] = True

    overlap_score_credit: float = 1.0
    prefill_load_scale: float = 1.0
    active_request_weight: float = 0.0
    temperature: float = 0.0
    block_size: int = 16

    def __post_init__(self) -> None:
        for field in ("overlap_score_credit", "prefill_load_scale", "active_request_weight", "temperature"):
            value = getattr(self, field)
            if not 0 <= value < math.inf:
                raise InputError("dynamo", field, value, "a finite number >= 0")
        if self.block_size < 1:
            raise InputError("dynamo", "block_size", self.block_size, "an integer >= 1")

    def route(self, view: RoutingView) -> RoutingDecision:
        filling = Filling(view)
        prefill = view.queued_load.copy()
        load = view.load + view.queued_load
        active = (view.running + view.queued).astype(np.float64)
        known = view.cached_tokens.size > 0
        for request in range(view.waiting_id.size):
            workers = filling.open_to(request)
            if workers.size:
                size = view.waiting_load[request]
                cached = view.cached_tokens[request] if known else np.zeros(load.size)
                credit = self.overlap_score_credit * cached
                blocks = self.prefill_load_scale * np.maximum(0.0, prefill + size - credit) + load + size
                cost = blocks / self.block_size + self.active_request_weight * active
                chance = streams.uniform(view.seed, "dynamo", int(view.waiting_id[request]))
                best = int(workers[_pick(cost[workers], self.temperature, chance)])
                filling.send(request, best)
                prefill[best] += max(0.0, size - cached[best])
                load[best] += size
                active[best] += 1.0
            elif filling.full:
                break
        return filling.decision()


def _pick(cost: F8, temperature: float, chance: float) -> int:
    """Place of the smallest cost, ties by chance; at a temperature, of a draw by softmax."""
    least, span = cost.min(), cost.max() - cost.min()
    if temperature == 0 or span == 0:
        tied = np.flatnonzero(cost == least)
        return int(tied[int(chance * tied.size)])
    weight = np.array([_exponential((c - least) / (span * temperature)) for c in cost.tolist()])
    return int(spin(weight, chance))


def _exponential(x: float) -> float:
    """``exp(-x)`` for x >= 0 by multiplication and division alone: the same bits on every machine, to about 1e-12."""
    if x > 700:
        return 0.0
    y = x / 1024
    result = 1 / (1 + y * (1 + y / 2 * (1 + y / 3 * (1 + y / 4 * (1 + y / 5 * (1 + y / 6 * (1 + y / 7)))))))
    for _ in range(10):
        result *= result
    return result


policy = Dynamo
