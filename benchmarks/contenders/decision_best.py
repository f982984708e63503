"""Our own policy, for `bench_decision`; its projections are expected loads, added up anew at every decision."""

POLICIES = ("best",)
