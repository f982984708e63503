"""The paper's figures 2 and 5, batch by batch."""

import pytest
from tests.experiments.papers.quick import quick

from evenstep.experiments.papers.throughput.schedule_fig2_fig5 import FIG2, FIG5, fig2, fig5


@pytest.mark.parametrize("policy", FIG5)
def test_the_batches_are_those_the_paper_draws(policy):
    assert fig5(policy) == FIG5[policy]


def test_sarathi_has_the_token_loads_of_fig_2():
    assert tuple(fig2()) == FIG2


def test_the_experiment_says_that_all_hold():
    assert all(claim.holds for claim in quick("schedule-fig2-fig5").findings.claims)
