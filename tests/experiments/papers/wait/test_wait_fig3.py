"""WAIT Fig. 3 at its reduced size."""

from __future__ import annotations

import pytest
from tests.experiments.papers.quick import ours, quick

from evenstep.experiments.papers.wait.wait_fig3 import CONTEXTS, _decodes, _prefills


def test_a_decode_batch_takes_longer_with_longer_contexts_and_a_prefill_with_more_tokens():
    longer = [(16, context) for context in CONTEXTS]
    for kv, seconds in (_decodes("8B, RTX 4090", longer), _prefills("8B, RTX 4090")):
        assert (kv[1:] > kv[:-1]).all() and seconds[-1] > 1.3 * seconds[0]


@pytest.mark.slow
def test_one_growing_thing_is_affine():
    found = quick("wait-fig3")
    assert ours(found, "8B, RTX 4090: 64 decodes, contexts grow", "R^2") > 0.98
    assert ours(found, "8B, RTX 4090: a served run, all iterations", "R^2") < 0.98
