"""What the experiments of WAIT share."""

import numpy as np
import pytest

from evenstep.experiments.papers.wait import nested_real, nested_synthetic
from evenstep.experiments.papers.wait._families import HIGH, LOW, QPS55, QPS550
from evenstep.experiments.papers.wait._wait import BASELINES, Workload, relative, thresholds

FIGURES = {7: LOW, 8: HIGH, 11: nested_synthetic.WORK, 12: QPS55.work, 13: QPS550.work, 14: nested_real.WORK}


def none(case):
    return {}


@pytest.mark.parametrize("figure", FIGURES)
def test_no_two_baselines_are_one_under_two_names(figure):
    work = FIGURES[figure]
    for case in work.cases():
        trace = work.trace(case.rate, 800, 0, 0)
        digests = {work.shown(label, policy, case, trace).digest for label, (policy, _) in BASELINES.items()}
        assert len(digests) == len(BASELINES)


def test_the_scheduler_of_today_is_sarathi_where_it_does_not_schedule_ahead():
    (case, *_), trace = LOW.cases(), LOW.trace(1500.0, 800, 0, 0)
    today, sarathi = (LOW.one(BASELINES[label][0], case, trace) for label in ("vLLM V1", "Sarathi"))
    assert today.digest == sarathi.digest


def test_every_limit_runs_at_every_load_and_at_the_papers_rate():
    for figure, work in FIGURES.items():
        cases = work.cases()
        assert {case.tokens for case in cases} == {512, 2048}
        assert [case.load for case in cases[:3]] == pytest.approx([0.5, 0.9, 1.1])
        assert len(cases) == 2 * (3 + len(work.rates)) and (figure == 11 or work.rates)


def test_differences_are_shares_of_the_baseline():
    assert relative([110.0, 95.0], [100.0, 100.0]).value == pytest.approx(2.5)


def test_thresholds_in_proportion_fill_the_batch_and_the_printed_rule_starves_long_outputs():
    shares, outputs = (6000, 4000, 2000), (100, 200, 300)
    own, printed = (thresholds(4096, shares, outputs, printed=p) for p in (False, True))
    stages = np.array(outputs) + 1
    assert 0.95 * 4096 < np.dot(own, stages) <= 4096
    assert own[0] / own[2] < 3.1
    assert printed[0] / printed[2] > 8


def test_types_arrive_in_their_shares():
    trace = Workload((1, 2), (3, 4), (3, 1), 10, none).trace(5.0, 8_000, 0, 0)
    assert abs((trace.prompt_tokens == 1).mean() - 0.75) < 0.02
    assert (trace.output_tokens == trace.prompt_tokens + 2).all()


def test_the_largest_rate_is_that_of_full_batches():
    work = Workload((10,), (9,), (1,), 100, none)
    seconds = work.law.d0_s + work.law.d1_s * 100 * (10 + 4.5)
    assert np.isclose(work.largest_rate(512), 100 / 10 / seconds)
    assert work.fits(95) == 50.0  # 5 prompts of 10 tokens and 45 decodes
    assert np.isclose(work.largest_rate(95), 5 / (work.law.d0_s + work.law.d1_s * 50 * (10 + 4.5)))
