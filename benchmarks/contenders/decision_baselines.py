"""Count-only and load-only policies, for `bench_decision`."""

POLICIES = (
    "fcfs",
    "fcfs:fill=index",
    "jsq",
    "round-robin",
    "random",
    "power-of-d",
    "least-load",
    "min-min",
    "max-min",
)
