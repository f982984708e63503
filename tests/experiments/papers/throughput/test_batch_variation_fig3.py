"""Throughput-optimal Fig. 3 at its reduced size."""

from __future__ import annotations

import pytest
from tests.experiments.papers.quick import lies_within, quick

TIME, VARIATION = "batch time at full load", "coefficient of variation"


@pytest.mark.slow
def test_a_full_batch_takes_longer_on_the_smaller_card_and_varies_less():
    found = quick("batch-variation-fig3", seeds=6)
    for name, slow, fast, least, most in (("8B, RTX 4090", 62, 57, 0.06, 0.095), ("8B, RTX PRO 6000", 42, 36, 0.17, 0.23)):
        lies_within(found, f"{name}, budget 512", TIME, fast, slow)
        lies_within(found, f"{name}, budget 512", VARIATION, least, most)
