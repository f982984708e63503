"""Batch time one."""

from evenstep.cost.batch import Batch
from evenstep.cost.unit import Unit


def test_a_round_is_a_round():
    assert Unit().seconds(Batch()) == Unit().seconds(Batch(tokens=512, kv=9000)) == 1.0
