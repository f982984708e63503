"""Settings and workers are checked once, with one clear error."""

from __future__ import annotations

import pytest

from evenstep.dispatch.settings import Settings, TenantLimits, WorkerSpec
from evenstep.errors import InputError


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: Settings(gather_ms=-1), "gather_ms"),
        (lambda: Settings(ttl_s=0), "ttl_s"),
        (lambda: Settings(ttl_s=float("inf")), "ttl_s is inf; expected a finite number above 0"),
        (lambda: Settings(budget_ms=float("inf")), "budget_ms is inf"),
        (lambda: Settings(cooldown_cap_s=0), "cooldown_cap_s is 0; expected a finite number above 0"),
        (lambda: Settings(seed=1 << 70), "seed is 1180591620717411303424; expected an integer"),
        (lambda: Settings(seed=3.0), "seed is 3.0; expected an integer"),
        (lambda: Settings(pool_limit=0), "pool_limit"),
        (lambda: Settings(kv_reserve=-1), "kv_reserve"),
        (lambda: Settings(stale_s=float("nan")), "stale_s"),
        (lambda: Settings(tenants={"a": TenantLimits(per_s=-1)}), "per_s"),
        (lambda: WorkerSpec(name=""), "name"),
        (lambda: WorkerSpec(name="a", slots=0), "slots"),
        (lambda: WorkerSpec(name="a", speed=0.0), "speed"),
        (lambda: WorkerSpec(name="a", kv_tokens=-1), "kv_tokens"),
    ],
)
def test_a_bad_value_is_named(make, field):
    with pytest.raises(InputError, match=field):
        make()
