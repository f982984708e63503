"""Interval scheduling's experiment 1 at its reduced size."""

from tests.experiments.papers.quick import apart, interval, quick

from evenstep.experiments.vocabulary import below, ratio, within
from evenstep.measure.comparison import Interval

LATENCY = "average latency"
#: Where memory binds, and where it never runs out.
SHORT, PLENTY = "[1, 1000], n = 400, M = 4,096", ("[1, 1000], n = 200", "[1, 1000], n = 400, M = 32,768")


def test_a_min_lies_between_hindsight_and_a_max_wherever_memory_binds():
    found = quick("interval-1", seeds=6)
    data = found.findings.data

    def over_hindsight(policy: str, memory: int) -> Interval:
        rows = zip(data["policy"], data["requests"], data["kv_tokens"], data["latency_s"], strict=True)
        of = [row for row in rows if row[1:3] == (400, memory)]
        return ratio(*([latency for who, _, _, latency in of if who == one] for one in (policy, "H-SF")))

    best, learned, most = (interval(found, f"{who}, {SHORT}", LATENCY) for who in ("H-SF", "A_min", "A_max"))
    assert below(best, learned) and below(learned, most)
    assert within(over_hindsight("A_min", 4_096), 1.75, 2.25)
    assert within(over_hindsight("A_max", 4_096), 13, 17)
    assert within(over_hindsight("A_max", 16_492), 3.3, 4)
    for case in PLENTY:
        same = apart(found, f"A_min, {case}", LATENCY)
        assert same.low == same.high == 0, "bounds teach nothing where all requests fit"
    assert found.findings.claims[1].holds is True
