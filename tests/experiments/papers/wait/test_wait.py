"""What the experiments of WAIT share."""

import numpy as np

from evenstep.experiments.papers.wait._wait import Workload, thresholds


def test_thresholds_in_proportion_fill_the_batch_and_the_printed_rule_starves_long_outputs():
    shares, outputs = (6000, 4000, 2000), (100, 200, 300)
    own, printed = (thresholds(4096, shares, outputs, printed=p) for p in (False, True))
    stages = np.array(outputs) + 1
    assert 0.95 * 4096 < np.dot(own, stages) <= 4096
    assert own[0] / own[2] < 3.1
    assert printed[0] / printed[2] > 8


def test_types_arrive_in_their_shares():
    trace = Workload((1, 2), (3, 4), (3, 1), 10, {}).trace(5.0, 8_000, 0, 0)
    assert abs((trace.prompt_tokens == 1).mean() - 0.75) < 0.02
    assert (trace.output_tokens == trace.prompt_tokens + 2).all()


def test_the_largest_rate_is_that_of_full_batches():
    work = Workload((10,), (9,), (1,), 100, {})
    seconds = work.law.d0_s + work.law.d1_s * 100 * (10 + 4.5)
    assert np.isclose(work.largest_rate, 100 / 10 / seconds)
