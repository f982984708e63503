"""What the experiments with ten types share: the paper's ratios against its own condition."""

from evenstep.experiments.papers.wait._families import OUTPUTS, RATIOS, SHARES


def below_eq_10(thresholds):
    """Segments whose threshold is too small for the one before: n_{i+1} / n_i against p_i, the share that goes on."""
    going_on = [sum(SHARES[i + 1 :]) / sum(SHARES[i:]) for i in range(len(SHARES) - 1)]
    return [i for i, p in enumerate(going_on) if thresholds[i + 1] / thresholds[i] < p - 1e-9]


def test_the_ratios_are_the_condition_itself_and_rounded_over_ten_they_break_it():
    assert len(OUTPUTS) == len(SHARES) == len(RATIOS)
    assert not below_eq_10(RATIOS)
    assert below_eq_10([max(round(n / 10), 1) for n in RATIOS])
