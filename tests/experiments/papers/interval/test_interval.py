"""What the experiments of Interval scheduling share."""

import numpy as np
import pytest

from evenstep.experiments.papers.interval._interval import around, buckets, lengths, rough


def test_lengths_that_stand_in_have_the_medians_and_means_the_paper_prints():
    prompt, output = lengths(20_000, 0, 0)
    assert prompt.min() >= 1 and prompt.max() <= 468 and output.max() <= 883
    assert abs(np.median(prompt) - 11) <= 2 and abs(prompt.mean() - 41) < 6
    assert abs(np.median(output) - 43) <= 3 and abs(output.mean() - 85) < 5


@pytest.mark.parametrize("bounds", [rough, buckets, around(0.1), around(0.99)])
def test_intervals_hold_the_truth(bounds):
    output = np.arange(1, 884)
    low, high = bounds(output)
    assert (low >= 1).all() and (low <= output).all() and (output <= high).all()
