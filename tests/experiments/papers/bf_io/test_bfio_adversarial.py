"""BF-IO's adversarial instances at their reduced size."""

from __future__ import annotations

import pytest
from tests.experiments.papers.quick import ours, quick

from evenstep.errors import InputError
from evenstep.experiments.papers.bf_io.bfio_adversarial import EACH, SHORT, _claim, instance
from evenstep.experiments.reproduce import Setting, reproduce
from evenstep.measure.comparison import Interval
from evenstep.report.findings import text_lines


def test_round_robin_and_jsq_with_known_ties_lose_a_factor_near_g():
    found = quick("bfio-adversarial")
    work = "step work over that of an even deal"
    for g in (2, 4, 8):
        assert 0.9 * g < ours(found, f"round robin, G = {g}", work) <= g
        assert 0.9 * g < ours(found, f"JSQ, ties to the lowest index, G = {g}", work) <= g
    assert ours(found, "JSQ, ties by chance, G = 8", work) < 4


def test_an_instance_has_one_long_request_a_wave():
    for against in ("round-robin", "jsq"):
        trace = instance(against, 4)
        assert int((trace.output_tokens > SHORT).sum()) == 4 * EACH
        assert len(set(trace.arrival_s.tolist())) == 4 * EACH


def test_one_throw_of_dice_settles_nothing_and_an_exact_exponent_does():
    one, range_ = Interval(0.3, None, None), Interval(0.3, 0.2, 0.4)
    assert _claim("JSQ, ties by chance", one, chance=True).holds is None
    assert _claim("JSQ, ties by chance", range_, chance=True).holds is False
    assert _claim("JSQ, ties to the lowest index", one, chance=False).holds is False
    assert _claim("round robin", Interval(0.95, None, None), chance=False).holds is True


def test_with_one_key_the_output_claims_no_intervals():
    text = "\n".join(text_lines(quick("bfio-adversarial", seeds=1)))
    assert "\nOne replicate: no intervals.\n" in text
    assert "±" not in text


def test_it_takes_no_trace():
    with pytest.raises(InputError, match="makes its own instance"):
        reproduce("bfio-adversarial", Setting(quick=True, traces=("x.csv",)))
