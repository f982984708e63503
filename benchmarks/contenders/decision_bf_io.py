"""BF-IO without and with a horizon, paper's weights and discounted, whole pool and a window of it, for `bench_decision`."""

POLICIES = (
    "bf-io",
    "bf-io:tie-weight=1",
    "bf-io:horizon=20",
    "bf-io:horizon=20,starts=1",
    "bf-io:horizon=20,discount=0.9",
    "bf-io:horizon=20,window=256",
)
