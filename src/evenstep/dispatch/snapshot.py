"""What a dispatcher measures, as plain numbers under the names of the exported metrics, less ``evenstep_``."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from evenstep.dispatch.mirror_layout import LOAD, RUNNING, SENT, SENT_LOAD
from evenstep.dispatch.rows_layout import SINCE

if TYPE_CHECKING:
    from evenstep.dispatch.dispatcher import Dispatcher


def snapshot(all_: Dispatcher) -> dict[str, Any]:
    """Plain numbers, lists and dictionaries; inf and nan are None."""
    return {
        "pool_depth": len(all_.pool),
        "pool_oldest_seconds": _oldest_s(all_),
        "waiting_for_prefill": len(all_.for_prefiller),
        "requests_present": len(all_.rows.by_request),
        "tenants": {name: here.requests for name, here in all_.door.present.items()},
        "policy": all_.deciding.door.text,
        "predictor": all_.deciding.predictor_text,
        "policy_has_kernel": all_.deciding.door.has_kernel,
        "policy_is_off": all_.deciding.fallback.is_off,
        "fallback_total": dict(all_.deciding.fallback.counted),
        "fallback_last": _fell(all_),
        "workers": [_worker(all_, place) for place in range(len(all_.mirror.workers))],
        "prefillers": [
            {
                "worker": name,
                "prefill_budget_free": all_.prefill.free(name),
                "requests": len(found.requests),
                "is_up": found.is_up,
            }
            for name, found in all_.prefill.prefillers.items()
        ],
        "groups": [{"group": group, **steps.values(all_.mirror)} for group, steps in enumerate(all_.steps)],
        "state_divergence_total": sum(worker.divergences for worker in all_.mirror.workers),
        "prefix_prompt_tokens_total": all_.prefixes.sent_tokens,
        "prefix_hit_tokens_total": all_.prefixes.hit_tokens,
        "predictions": all_.deciding.ahead.counted() if all_.deciding.ahead is not None else {},
        **all_.meters.values(),
    }


def _fell(all_: Dispatcher) -> dict[str, Any] | None:
    """The last round that least load decided in place of the policy; its time is that of the decision log."""
    last = all_.deciding.fallback.last
    if last is None:
        return None
    return {"decision": last.decision, "reason": last.reason, "why": last.why, "now_s": last.now_s}


def _oldest_s(all_: Dispatcher) -> float:
    if not len(all_.pool):
        return 0.0
    return max(0.0, all_.now_s - all_.rows.f[SINCE][all_.pool.oldest()])


def _worker(all_: Dispatcher, place: int) -> dict[str, Any]:
    mirror = all_.mirror
    worker, i, f = mirror.workers[place], mirror.i, mirror.f
    belief = all_.prefixes.belief(place)
    return {
        "worker": worker.spec.name,
        "group": mirror.group[place],
        "worker_kv_tokens": f[LOAD][place] + f[SENT_LOAD][place],
        "worker_active_requests": i[RUNNING][place] + i[SENT][place],
        "worker_state_age_seconds": all_.now_s - worker.heard_s if worker.spec.scraped else 0.0,
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
        "prefix_believed_share": _told(belief.believed_share),
        "prefix_true_share": _told(belief.true_share),
        "prefix_room_blocks": belief.room,
    }


def _told(share: float) -> float | None:
    return None if math.isnan(share) else share
