"""BalanceRoute without and with a horizon, for `bench_decision`."""

POLICIES = (
    "br-0",
    "br-0:pick=fit,order=margin",
    "br-h:horizon=40",
    "br-h:horizon=40,pick=fit",
)
