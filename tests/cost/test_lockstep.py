"""Ranks in lock-step: what a step lasts, from what each rank has in it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies import batches, examples

from evenstep.cost.affine_kv import AffineKv
from evenstep.cost.batch import Batch, on_lines
from evenstep.cost.lockstep import Parts, parts_of
from evenstep.cost.profile import Profile
from evenstep.cost.unit import Unit
from evenstep.errors import InputError

MIXTURE = Profile("rtxpro6000-qwen3-30b-a3b-ep2")
PARTS = [Profile("rtxpro6000-qwen3-30b-a3b-ep2", shares_path=shares).in_lockstep(2) for shares in (True, False)]


def seconds(parts, *of, beside=None, overhead_s=0.0):
    features = np.stack([one.features for one in of])
    return parts.seconds(features, overhead_s, np.zeros(len(of)) if beside is None else np.array(beside))


@examples(60)
@given(one=batches(), other=batches())
def test_a_law_that_shares_nothing_lasts_as_long_as_the_slowest_rank(one, other):
    law = AffineKv(d0_s=0.01, d1_s=1e-6)
    found, own = seconds(parts_of(law, 2), one, other, beside=[0.5, 0.0], overhead_s=0.25)
    assert own.tolist() == [law.seconds(one) + 0.25 + 0.5, law.seconds(other) + 0.25 + 0.0]
    assert found == own.max()


@examples(60)
@given(one=batches())
def test_two_ranks_with_the_same_batch_last_as_long_as_the_law_of_one_says(one):
    if not 0 < one.tokens <= 2048:
        return
    for parts in PARTS:
        found, own = seconds(parts, one, one)
        assert found == pytest.approx(MIXTURE.seconds(one), rel=1e-9)
        assert own[0] == own[1] < found


@examples(60)
@given(tokens=st.lists(st.integers(0, 600), min_size=1, max_size=5))
def test_graphs_pad_all_ranks_to_one_size_or_each_to_its_own(tokens):
    parts = Parts(Unit().table(), sizes=(1, 2, 4, 8, 256))
    found = parts.padded(np.array(tokens, float))
    if max(tokens) <= 256:
        assert found.tolist() == [min(s for s in parts.sizes if s >= max(tokens))] * len(tokens)
    else:
        for ran, asked in zip(found, tokens, strict=True):
            assert ran == (asked if asked > 256 else min(s for s in parts.sizes if s >= asked))


def test_without_graphs_an_idle_rank_runs_one_token():
    assert Parts(Unit().table()).padded(np.array([0.0, 7.0])).tolist() == [1.0, 7.0]
    assert seconds(parts_of(Unit(2.0), 2), Batch(), Batch(tokens=3, requests=1))[0] == 2.0


@examples(40)
@given(tokens=st.lists(st.integers(1, 2000), min_size=2, max_size=4))
def test_links_charge_the_sum_along_one_path_and_the_most_received_on_lanes(tokens):
    seen, ranks = np.array(tokens, float), len(tokens)
    shared, lanes = (Parts(Unit().table(), shares_path=shares).share(seen) for shares in (True, False))
    assert shared == pytest.approx(sum(tokens) / ranks)
    assert lanes == pytest.approx(max(sum(tokens) - own for own in tokens) / (ranks - 1))
    assert shared <= lanes + 1e-9


def test_a_prefill_on_one_rank_holds_up_the_other_and_shares_the_experts():
    decode = Batch(tokens=64, requests=64, decodes=64, kv=64_000, decode_context=64_000, longest=1000)
    prefill = Batch(tokens=1024, requests=1, prefill_tokens=1024, kv=1024, chunk_squares=1024**2)
    parts = MIXTURE.in_lockstep(2)
    alone, both = seconds(parts, decode, decode)[0], seconds(parts, decode, prefill)[0]
    assert alone < both < seconds(parts, prefill, prefill)[0]
    assert both == seconds(parts, prefill, decode)[0]
    idle = seconds(parts, decode, Batch())[0]
    assert idle == pytest.approx(alone, rel=0.01)  # padded to as many tokens, with no requests of its own
    assert idle <= alone


def test_experts_of_another_number_of_ranks_are_refused():
    with pytest.raises(InputError, match="data_parallel is 3"):
        MIXTURE.in_lockstep(3)
    one = MIXTURE.in_lockstep(1)
    assert one.experts is None and np.array_equal(one.own, MIXTURE.table())
    assert Profile("rtxpro6000-llama31-8b").in_lockstep(4).links is None


def test_a_line_goes_on_beyond_its_ends():
    points = np.array([[1.0, 3.0, 4.0], [2.0, 4.0, 7.0]])
    assert [on_lines(points, at) for at in (0.0, 1.0, 2.0, 3.5, 6.0)] == [1.0, 2.0, 3.0, 5.5, 13.0]
