"""The fields of a gateway's status line, from two snapshots."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

_NONE: Mapping[str, Any] = {"ratios_are_of": "load", "steps_total": 0, "barrier_idle_device_seconds_total": 0.0}  # unseen


class Status:
    """Computes the fields of each status line from a snapshot; keeps the totals of the last line, for differences."""

    def __init__(self) -> None:
        self._before: dict[str, float] = {}
        self._groups: dict[tuple[str, int], Mapping[str, Any]] = {}

    def since(self, snapshot: Mapping[str, Any], seconds: float) -> dict[str, Any]:
        """The fields of a status line, from a snapshot as `Gateway.snapshot` gives it. Keeps its totals for the next call.

        Args:
            seconds: time since the last call, or for the first call since the start.

        Returns:
            requests, failed: number of requests that ended since, and of those without status 200 (also refused, cancelled).
            tokens_per_s: output tokens of complete answers.
            waiting, running: requests that wait for a decode slot, and that are on decoding workers, now.
            barrier_idle: share of worker time, 0 to 1, lost in waiting for the heaviest worker of a group.
            load_imbalance: 1 - mean over largest load, now, of groups of several workers that made steps without known step
                law; only if there are any. It replaces ``barrier_idle`` if there are no other groups.
            workers: how many decoding workers are up, of all, as text ("3/4").
        """
        models = list(snapshot["models"].values())
        workers = [worker for one in models for worker in one["workers"]]
        totals = {
            "requests": float(sum(sum(one["requests_total"].values()) for one in models)),
            "good": float(sum(one["requests_total"].get("200", 0) for one in models)),
            "tokens": float(sum(one["output_tokens_total"] for one in models)),
        }
        new = {name: value - self._before.get(name, 0.0) for name, value in totals.items()}
        self._before = totals
        up = sum(worker["is_up"] for worker in workers)
        return {
            "requests": int(new["requests"]),
            "failed": int(new["requests"] - new["good"]),
            "tokens_per_s": round(new["tokens"] / seconds, 1) if seconds > 0 else 0.0,
            "waiting": sum(one["pool_depth"] for one in models),
            "running": sum(worker["worker_active_requests"] for worker in workers),
            **self._idle(snapshot["models"], seconds),
            "workers": f"{up}/{len(workers)}",
        }

    def _idle(self, models: Mapping[str, Any], seconds: float) -> dict[str, float]:
        """``barrier_idle`` and ``load_imbalance``, each only if it applies, as `since` describes them."""
        before, self._groups = self._groups, {}
        idle_s = known = unknown = uneven = 0.0
        for name, one in models.items():
            sizes = Counter(worker["group"] for worker in one["workers"])
            known += sum(sizes.values())
            for group in one["groups"]:
                key, size = (name, group["group"]), sizes[group["group"]]
                last = before.get(key, _NONE)
                self._groups[key] = group
                has_law = last["ratios_are_of"] == group["ratios_are_of"] == "time"
                if has_law or size < 2 or group["steps_total"] == last["steps_total"]:
                    lost_s = group["barrier_idle_device_seconds_total"] - last["barrier_idle_device_seconds_total"]
                    idle_s += max(0.0, lost_s)
                else:
                    known, unknown = known - size, unknown + size
                    uneven += size * (1.0 - group["balance_ratio"])
        found = dict[str, float]()
        if known or not unknown:
            found["barrier_idle"] = round(idle_s / (seconds * known), 4) if seconds * known > 0 else 0.0
        if unknown:
            found["load_imbalance"] = round(uneven / unknown, 4)
        return found
