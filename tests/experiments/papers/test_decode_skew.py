"""Measured attention of unequal contexts: shares, steps, and the quick run."""

from __future__ import annotations

import numpy as np
import pytest
from tests.experiments.papers.quick import ours, quick

from evenstep.cost.batch import Batch
from evenstep.experiments.papers import _profiles as profiles
from evenstep.experiments.papers import decode_skew as skew


def rows(**more):
    plain = {name: np.array([4.0, 4.0]) for name in skew.COLUMNS}
    return plain | {name: np.array(values, np.float64) for name, values in more.items()}


def test_the_share_is_how_far_unequal_batches_are_on_the_way_to_the_longest():
    own = rows(equal_us=[10, 20], longest_us=[30, 60], unequal_us=[12, 24])
    assert skew.share(own) == pytest.approx(0.1)
    assert skew.beyond(own) == pytest.approx([0.2, 0.2]) and skew.beyond(own, 0.1) == pytest.approx([0, 0])


def test_a_step_is_longer_by_all_layers_over_a_whole_iteration():
    own = skew.parted(skew.table("8B, RTX 4090"))["decodes alone"]
    step, attention = skew.of_step("8B, RTX 4090", own), skew.beyond(own)
    slower = attention > 0.02
    assert (step[slower] > 0).all() and (step[slower] < attention[slower]).mean() > 0.99


@pytest.mark.parametrize("form", skew.FORMS)
def test_a_form_is_fitted_by_least_squares(form):
    own = skew.parted(skew.table("8B, RTX 4090"))["decodes alone"]
    way, gone, number = skew.FORMS[form](own), own["unequal_us"] - own["equal_us"], skew.fitted(own, form)
    left = [((gone - x * number * way) ** 2).sum() for x in (0.0, 0.99, 1.0, 1.01)]
    assert min(left) == left[2]
    plain, corrected = skew.of_step("8B, RTX 4090", own), skew.of_step("8B, RTX 4090", own, form)
    assert corrected * gone == pytest.approx(plain * (gone - number * way))


def test_the_longest_of_a_batch_lies_above_its_mean():
    own = rows(n_decode=[4, 4], n_long=[1, 4], kv_short=[10, 10], kv_long=[50, 50])
    assert skew.FORMS["longest less mean"](own).tolist() == [30.0, 0.0]
    assert skew.FORMS["that by the root of the decodes"](own).tolist() == [60.0, 0.0]


def test_the_line_through_steps_of_equal_contexts_is_that_of_the_profile():
    overhead_s, per_token_s = skew.line("8B, RTX 4090")
    law = profiles.law("8B, RTX 4090")
    for context in skew.CONTEXTS:
        batch = Batch(tokens=72, requests=72, decodes=72, decode_context=72 * context, longest=context)
        assert overhead_s + 72 * context * per_token_s == pytest.approx(law.seconds(batch))


@pytest.mark.slow
def test_decodes_alone_are_closer_to_their_sum_than_batches_with_a_chunk():
    found = quick("decode-skew")
    case = "8B, RTX 4090"
    assert ours(found, f"{case}: decodes alone", "step, p95") < ours(found, f"{case}: with a chunk", "step, p95")
