"""Batch time affine in KV."""

from evenstep.cost.affine_kv import AffineKv
from evenstep.cost.batch import Batch


def test_only_what_is_held_counts():
    assert AffineKv(0.5, 0.25).seconds(Batch(tokens=99, kv=6)) == 2.0
