"""The measured values of a dispatcher, as plain numbers by metric name without the prefix ``evenstep_``."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from evenstep.dispatch.parts import Parts
from evenstep.late import change
from evenstep.measure.metrics import known


def snapshot(parts: Parts) -> dict[str, Any]:
    """All measured values by metric name without ``evenstep_``: numbers, texts, and lists and dictionaries of them.

    A value that is not known is None. Each item of `workers`, `prefillers` and `groups` is a dictionary. Times are seconds.
    """
    fell, now_s, since_s = parts.deciding.fallback.last, parts.turn.now_s, parts.rows.at.since_s
    return {
        "pool_depth": len(parts.pool),
        "pool_oldest_seconds": max(0.0, now_s - since_s[parts.pool.oldest()]) if len(parts.pool) else 0.0,
        "waiting_for_prefill": len(parts.prefills.waiting),
        "requests_present": len(parts.rows.by_request),
        "tenants": {name: here.requests for name, here in parts.limits.present.items()},
        "policy": parts.deciding.call.text,
        "predictor": parts.deciding.predictor_text,
        "policy_has_kernel": parts.deciding.call.has_kernel and change.is_compiled,
        "policy_is_off": parts.deciding.fallback.is_off,
        "fallback_total": dict(parts.deciding.fallback.counted),
        "fallback_last": None if fell is None else asdict(fell),
        "workers": [_worker(parts, place) for place in range(len(parts.fleet.mirror.workers))],
        "prefillers": [_prefiller(parts, name) for name in parts.fleet.prefill.prefillers],
        "groups": [{"group": group, **steps.values(parts.fleet.mirror)} for group, steps in enumerate(parts.barriers.steps)],
        "state_divergence_total": sum(worker.divergences for worker in parts.fleet.mirror.workers),
        "prefix_prompt_tokens_total": parts.prefixes.sent_tokens,
        "prefix_hit_tokens_total": parts.prefixes.hit_tokens,
        "predictions": parts.deciding.ahead.gate.counted() if parts.deciding.ahead is not None else {},
        **parts.meters.values(),
    }


def _prefiller(parts: Parts, name: str) -> dict[str, Any]:
    prefill = parts.fleet.prefill
    found = prefill.prefillers[name]
    free = prefill.free(name)
    return {"worker": name, "prefill_budget_free": free, "requests": len(found.requests), "is_up": found.is_up}


def _worker(parts: Parts, place: int) -> dict[str, Any]:
    mirror = parts.fleet.mirror
    worker, at = mirror.workers[place], mirror.at
    belief = parts.prefixes.belief(place)
    return {
        "worker": worker.spec.name,
        "group": mirror.group[place],
        "worker_kv_tokens": at.load[place] + at.sent_load[place],
        "worker_active_requests": at.running[place] + at.sent[place],
        "worker_state_age_seconds": parts.turn.now_s - worker.heard_s if worker.spec.scraped else 0.0,
        "foreign_requests": worker.foreign,
        "foreign_kv_tokens": worker.foreign_load,
        "is_shared": worker.is_shared,
        "free_slots": mirror.free(place),
        "slots": worker.spec.slots,
        "kv_capacity_tokens": None if math.isinf(worker.capacity) else worker.capacity,
        "is_up": worker.is_up,
        "is_known": worker.is_known,
        "is_leaving": worker.leaves,
        "state_divergence_total": worker.divergences,
        "prefix_believed_share": known(belief.believed_share),
        "prefix_true_share": known(belief.true_share),
        "prefix_room_blocks": belief.room,
    }
