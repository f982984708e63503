"""Limits of tenants. They hold over all dispatchers of a host together, and so over all models that it serves."""

from __future__ import annotations

import math
from dataclasses import dataclass

from evenstep.dispatch.settings import TenantLimits

_LONGEST_RETRY_S = 60


@dataclass(slots=True)
class Present:
    """A tenant's requests at one dispatcher; `waiting` counts those of them that are not sent to a worker."""

    tenant: str
    requests: int = 0
    waiting: int = 0


class Tenants:
    """The limits of tenants, which several dispatchers may share.

    `present` has, for each of these dispatchers, tenant -> its requests there; each dispatcher adds its own dictionary.
    """

    def __init__(self) -> None:
        self.present: list[dict[str, Present]] = []
        # tenant -> requests it may send at once, and the time of that number
        self._ready: dict[str, tuple[float, float]] = {}

    def refusal(self, tenant: str, limits: TenantLimits, mean_wait_s: float, now_s: float) -> tuple[int, str, int] | None:
        """The refusal of a request by its tenant's limits; None for an accepted one, which counts against the rate.

        Requests at all dispatchers that share these limits count. The rate is a token bucket, full at the first request.

        Args:
            mean_wait_s: mean wait of admitted requests; a ``tenant-limit`` gives it as Retry-After.
            now_s: time of the dispatcher that asks; if the tenant's last request has a later time, that is used.

        Returns:
            429, the reason as in `commands.Reject`, and Retry-After in whole seconds, 1 to 60.
        """
        here = [present[tenant] for present in self.present if tenant in present]
        if (limits.concurrent and sum(one.requests for one in here) >= limits.concurrent) or (
            limits.waiting and sum(one.waiting for one in here) >= limits.waiting
        ):
            return 429, "tenant-limit", retry_after(mean_wait_s)
        if limits.per_s:
            ready, at_s = self._ready.get(tenant, (math.inf, now_s))
            now_s = max(now_s, at_s)
            ready = min(limits.burst or max(1.0, limits.per_s), ready + (now_s - at_s) * limits.per_s)
            if ready < 1.0:
                self._ready[tenant] = ready, now_s
                return 429, "rate-limit", retry_after((1.0 - ready) / limits.per_s)
            self._ready[tenant] = ready - 1.0, now_s
        return None


def retry_after(seconds: float) -> int:
    """Retry-After for a wait of `seconds`: whole seconds, rounded up, from 1 to 60."""
    return min(_LONGEST_RETRY_S, max(1, math.ceil(seconds)))
