"""What experiments on profiles share: engines at full token load."""

from __future__ import annotations

import numpy as np

from evenstep.experiments.papers import _profiles as profiles
from evenstep.experiments.reproduce import Setting


def test_full_iterations_run_the_whole_budget():
    setting = Setting(quick=True)
    table = profiles.served("8B, RTX 4090", profiles.requests(setting, 0), 256, 2.0)
    seconds = profiles.full_seconds(setting, "8B, RTX 4090", 0, 256, 2.0)
    assert seconds.size == int((table.tokens == 256).sum()) > 5
    assert np.isin(seconds, table.seconds).all()


def test_replicates_have_other_requests():
    one, other = (profiles.requests(Setting(quick=True), number) for number in (0, 1))
    assert len(one) == len(other) == 80
    assert not np.array_equal(one.prompt_tokens, other.prompt_tokens)
