"""The line that says how a gateway does, once a minute, from two snapshots."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Status:
    """What happened since the last line."""

    def __init__(self) -> None:
        self._before: dict[str, float] = {}

    def since(self, snapshot: Mapping[str, Any], seconds: float) -> dict[str, Any]:
        """The fields of the line; see `Control.snapshot`.

        Args:
            seconds: since the last call.

        Returns:
            ``requests`` that ended and ``failed`` of them; ``tokens_per_s`` of those that ended as they should; ``waiting``
            and ``running`` now; ``barrier_idle``: share of the workers' time that they waited for the heaviest of their
            group; ``workers`` that are up, of how many.
        """
        models = list(snapshot["models"].values())
        workers = [worker for one in models for worker in one["workers"]]
        totals = {
            "requests": float(sum(sum(one["requests_total"].values()) for one in models)),
            "good": float(sum(one["requests_total"].get("200", 0) for one in models)),
            "tokens": float(sum(one["output_tokens_total"] for one in models)),
            "idle_s": float(sum(group["barrier_idle_device_seconds_total"] for one in models for group in one["groups"])),
        }
        new = {name: value - self._before.get(name, 0.0) for name, value in totals.items()}
        self._before = totals
        device_s = seconds * len(workers)
        up = sum(worker["is_up"] for worker in workers)
        return {
            "requests": int(new["requests"]),
            "failed": int(new["requests"] - new["good"]),
            "tokens_per_s": round(new["tokens"] / seconds, 1) if seconds > 0 else 0.0,
            "waiting": sum(one["pool_depth"] for one in models),
            "running": sum(worker["worker_active_requests"] for worker in workers),
            "barrier_idle": round(new["idle_s"] / device_s, 4) if device_s > 0 else 0.0,
            "workers": f"{up}/{len(workers)}",
        }
