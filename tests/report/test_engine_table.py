"""The table of scheduling policies."""

from types import SimpleNamespace

from evenstep.measure.comparison import Interval
from evenstep.report.engine_table import COLUMNS, EngineTable, verdict_lines
from evenstep.report.numbers import relative
from evenstep.report.tables import aligned


def test_a_difference_is_a_share_of_the_baseline():
    assert relative(Interval(-0.5, -0.7, -0.3), 2.0, 1, "") == "-25.0 ±10.0"
    assert relative(Interval(0.5, None, None), 2.0, 1, "") == "+25.0"
    assert relative(None, 2.0) == relative(Interval(1.0, None, None), 0.0)


def test_columns_stand_below_each_other():
    assert aligned([["a", "1"], ["long", "22"]]) == ["a      1", "long  22"]


def test_a_verdict_that_needs_words_is_explained_once():
    def of(*verdicts):
        policies = [SimpleNamespace(mean={"verdict": verdict}.__getitem__) for verdict in verdicts]
        return [line.partition(":")[0] for line in verdict_lines(SimpleNamespace(policies=policies))]

    assert of("stable", None) == []
    assert of("undecided", "mixed", "undecided", "stable") == ["undecided", "mixed"]
    assert of("unstable") == ["unstable"]


def test_a_terminal_of_132_letters_gets_each_row_of_a_short_policy_whole():
    fields = (field for *_, field, _ in COLUMNS if "slo" not in field and "goodput" not in field)
    values = {**dict.fromkeys(fields, 123.4), "wasted_tokens": 1234567.0, "verdict": "undecided"}
    result = SimpleNamespace(policy="sarathi", summaries=[values], mean=values.get)
    head, _, row = EngineTable(["sarathi"], 132).row(result)
    assert head.startswith("policy   throughput  E2E mean  E2E p50") and head.endswith("  iterations    verdict")
    assert row.endswith("  1,234,567         123  undecided") and len(row) == len(head) <= 132
