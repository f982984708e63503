"""The paper's worked table, batch by batch."""

from tests.experiments.papers.quick import quick

from evenstep.experiments.papers.wait.wait_fig6 import TABLE, batches


def test_the_batches_are_those_of_the_table():
    assert batches() == TABLE


def test_the_experiment_says_that_all_hold():
    assert all(claim.holds for claim in quick("wait-fig6").findings.claims)
