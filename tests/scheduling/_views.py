"""Engine views written by hand, and a batch as pairs a reader can follow."""

from __future__ import annotations

from typing import Any

import numpy as np

from evenstep.scheduling.view import UNLIMITED, EngineView, SchedulingPolicy, broken_rule


def decodes(prompt: int, produced: int, **more: Any) -> dict[str, Any]:
    """A running request that decodes: its prompt and all tokens but the last are in memory."""
    held = prompt + produced - 1
    return {
        "prompt_tokens": prompt,
        "produced": produced,
        "prefilled": held,
        "resident": held,
        "left": 1,
    } | more


def prefills(prompt: int, done: int, **more: Any) -> dict[str, Any]:
    """A running request in the middle of its prefill."""
    return {"prompt_tokens": prompt, "prefilled": done, "resident": done, "left": prompt - done} | more


def waits(prompt: int, **more: Any) -> dict[str, Any]:
    """A request of the queue that has run nothing."""
    return {"prompt_tokens": prompt, "left": prompt} | more


def view_of(running: list[dict[str, Any]], waiting: list[dict[str, Any]], free: int, **more: Any) -> EngineView:
    """A view of these requests with `free` KV tokens of memory: blocks of one token, no limits unless `more` says so."""
    rows = [*running, *waiting]
    held = sum(row["resident"] for row in running)

    def column(name: str, kind: type[Any] = np.int64, default: Any = 0) -> Any:
        return np.array([row.get(name, default) for row in rows], kind)

    fields: dict[str, Any] = {
        "iteration": 0,
        "seed": 0,
        "now_s": 100.0,
        "token_budget": UNLIMITED,
        "batch_limit": UNLIMITED,
        "kv_capacity": held + free,
        "kv_free": free,
        "block_tokens": 1,
        "hold_produced": 0,
        "arrived": np.array([len(rows)]),
        "memory": np.zeros(0, np.int64),
    } | more
    return EngineView(
        **fields,
        request_id=np.arange(len(rows)),
        request_class=column("request_class"),
        prompt_tokens=column("prompt_tokens"),
        prefilled=column("prefilled"),
        produced=column("produced"),
        reached=column("reached"),
        lost_at=column("lost_at"),
        left=column("left"),
        resident=column("resident"),
        output_low=column("output_low"),
        output_high=column("output_high"),
        evictions=column("evictions"),
        arrival_s=column("arrival_s", np.float64),
        running=np.arange(len(rows)) < len(running),
        decoding=column("produced") > 0,
    )


def formed(policy: SchedulingPolicy, view: EngineView) -> tuple[list[int], list[int]]:
    """Tokens of each request, and positions of the evicted, of a decision that keeps the contract."""
    decision = policy.form_batch(view)
    assert broken_rule(view, decision, view.memory.size) == ""
    return decision.tokens.tolist(), np.flatnonzero(decision.evict).tolist()
