"""The measured values of a dispatcher, as plain numbers by metric name without the prefix ``evenstep_``."""

from __future__ import annotations

import math
from typing import Any

from evenstep.dispatch.parts import Parts
from evenstep.late import change
from evenstep.measure.metrics import known


def snapshot(parts: Parts) -> dict[str, Any]:
    """All measured values by metric name without ``evenstep_``: numbers, texts, and lists and dictionaries of them.

    A value that is not known is None. Each item of `workers`, `prefillers` and `groups` is a dictionary. Times are seconds.
    """
    return {
        "pool_depth": len(parts.pool),
        "pool_oldest_seconds": _oldest_s(parts),
        "waiting_for_prefill": len(parts.prefills.waiting),
        "requests_present": len(parts.rows.by_request),
        "tenants": {name: here.requests for name, here in parts.limits.present.items()},
        "policy": parts.deciding.call.text,
        "predictor": parts.deciding.predictor_text,
        "policy_has_kernel": parts.deciding.call.has_kernel and change.is_compiled,
        "policy_is_off": parts.deciding.fallback.is_off,
        "fallback_total": dict(parts.deciding.fallback.counted),
        "fallback_last": _fell(parts),
        "workers": [_worker(parts, place) for place in range(len(parts.fleet.mirror.workers))],
        "prefillers": [
            {
                "worker": name,
                "prefill_budget_free": parts.fleet.prefill.free(name),
                "requests": len(found.requests),
                "is_up": found.is_up,
            }
            for name, found in parts.fleet.prefill.prefillers.items()
        ],
        "groups": [{"group": group, **steps.values(parts.fleet.mirror)} for group, steps in enumerate(parts.barriers.steps)],
        "state_divergence_total": sum(worker.divergences for worker in parts.fleet.mirror.workers),
        "prefix_prompt_tokens_total": parts.prefixes.sent_tokens,
        "prefix_hit_tokens_total": parts.prefixes.hit_tokens,
        "predictions": parts.deciding.ahead.gate.counted() if parts.deciding.ahead is not None else {},
        **parts.meters.values(),
    }


def _fell(parts: Parts) -> dict[str, Any] | None:
    """The last round that least load decided in place of the policy; its time is that of the decision log."""
    last = parts.deciding.fallback.last
    if last is None:
        return None
    return {"decision": last.decision, "reason": last.reason, "why": last.why, "now_s": last.now_s}


def _oldest_s(parts: Parts) -> float:
    if not len(parts.pool):
        return 0.0
    return max(0.0, parts.turn.now_s - parts.rows.at.since_s[parts.pool.oldest()])


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
