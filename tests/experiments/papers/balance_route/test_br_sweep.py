"""BalanceRoute's sensitivity sweep at its reduced size."""

from __future__ import annotations

from tests.experiments.papers.quick import ours, quick

from evenstep.experiments.papers.balance_route.br_sweep import CROSS, PAPER, _paper_flatness, spec
from evenstep.names import parse


def test_both_readings_are_swept_and_part_at_beta_1():
    found = quick("br-sweep")
    low = "beta 1, gamma 0.9"
    marginal, single = (ours(found, low, f"G = 4, {reading}: spread") for reading in ("marginal", "single"))
    assert single < marginal


def test_the_cross_is_that_of_the_papers_tables():
    assert all(tuple(PAPER[g]) == CROSS for g in PAPER)
    assert _paper_flatness(8) == 1.31
    assert parse(spec(48, 0.5, "single"))["penalty"] == "48"
