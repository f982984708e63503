"""The heavy and the near-cap workloads."""

from __future__ import annotations

import numpy as np

from evenstep.experiments.papers import _heavy


def test_heavy_prompts_and_outputs_are_within_what_the_constant_says():
    trace = _heavy.heavy(20_000).draw(0)
    assert trace.prompt_tokens.min() >= 16 and trace.prompt_tokens.max() <= 60_000
    assert np.median(trace.prompt_tokens) == np.clip(np.median(trace.prompt_tokens), 3_700, 4_300)
    assert trace.output_tokens.max() == 2_000
    assert "sigma 1.1" in _heavy.HEAVY_LINE


def test_recurring_prompts_have_keys_and_nearly_equal_outputs():
    trace = _heavy.heavy(5_000, recurring=True).draw(0)
    assert trace.prompt_key is not None
    first = trace.output_tokens[trace.prompt_key == trace.prompt_key[0]]
    assert first.max() - first.min() <= 2 * _heavy.JITTER


def test_most_outputs_of_the_other_end_at_the_cap():
    outputs = _heavy.near_cap(20_000).draw(0).output_tokens
    assert 0.83 < (outputs >= 989).mean() < 0.87
    assert outputs.max() <= 1_000
