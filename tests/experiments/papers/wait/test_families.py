"""What the families of WAIT experiments promise, at their reduced size, and the paper's ratios against its own condition."""

import pytest
from tests.experiments.papers.quick import apart, quick

from evenstep.experiments.papers.wait._families import OUTPUTS, RATIOS, SHARES


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("wait-low", "WAIT"),
        *(
            pytest.param(name, label, marks=pytest.mark.slow)
            for name, label in (
                ("wait-high", "WAIT"),
                ("nested-synthetic", "Nested WAIT"),
                ("nested-qps55", "Nested WAIT, solved"),
                ("nested-qps550", "Nested WAIT"),
                ("nested-real", "Nested WAIT, solved"),
            )
        ),
    ],
)
def test_at_half_the_capacity_waiting_takes_fewer_iterations_and_less_energy_than_sarathi_and_more_latency(name, label):
    found = quick(name, seeds=4)
    for tokens in ("512", "2,048"):
        case = f"{label}, {tokens} tokens, 0.5 of capacity"
        fewer, less, longer = (apart(found, case, q) for q in ("iterations", "energy", "mean latency"))
        assert fewer.high < 0
        assert less.high < 0
        assert longer.low > 0


def below_eq_10(thresholds):
    """Segments whose threshold is too small for the one before: n_{i+1} / n_i against p_i, the share that goes on."""
    going_on = [sum(SHARES[i + 1 :]) / sum(SHARES[i:]) for i in range(len(SHARES) - 1)]
    return [i for i, p in enumerate(going_on) if thresholds[i + 1] / thresholds[i] < p - 1e-9]


def test_the_ratios_are_the_condition_itself_and_rounded_over_ten_they_break_it():
    assert len(OUTPUTS) == len(SHARES) == len(RATIOS)
    assert not below_eq_10(RATIOS)
    assert below_eq_10([max(round(n / 10), 1) for n in RATIOS])
