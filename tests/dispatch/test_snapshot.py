"""The snapshot: plain numbers under the metrics' names."""

from __future__ import annotations

import json

from tests.dispatch.told import Story


def test_a_snapshot_is_json_and_has_every_metric():
    story = Story("br-h:horizon=4")
    story.worker("p", role="prefill", kv_tokens=100)
    for name in "ab":
        story.worker(name, group="g", slots=2)
    story.arrives(1)
    shown = json.loads(json.dumps(story.d.snapshot(), allow_nan=False))
    for name in (
        "pool_depth",
        "pool_oldest_seconds",
        "decisions_total",
        "requests_total",
        "output_tokens_total",
        "recompute_total",
        "cancelled_total",
        "fallback_total",
        "state_divergence_total",
        "decision_seconds",
        "pool_wait_seconds",
        "ttft_seconds",
        "tpot_seconds",
        "prediction_error_tokens",
    ):
        assert name in shown
    assert set(shown["workers"][0]) >= {
        "worker_kv_tokens",
        "worker_active_requests",
        "worker_state_age_seconds",
    }
    assert set(shown["groups"][0]) >= {"balance_ratio", "barrier_idle_ratio", "imbalance_tokens"}
    assert shown["groups"][0]["imbalance_tokens"].keys() == {"envelope", "spread"}
    assert shown["prefillers"][0]["prefill_budget_free"] == 0.9 - 0.1


def test_the_oldest_wait_is_shown():
    story = Story()
    story.worker("a", slots=1)
    story.sent(1)
    story.arrives(2)
    story.tick(3.5)
    assert story.d.snapshot()["pool_oldest_seconds"] == 3.5
