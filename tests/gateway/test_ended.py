"""What is known of a request when it is over."""

from __future__ import annotations

import math

import pytest

from evenstep.gateway.ended import Ended


def test_times_are_differences_and_unknown_where_something_never_was():
    one = Ended("r", "complete", 200, output_tokens=5, arrived_s=1.0, first_s=3.0, ended_s=5.0)
    assert (one.ttft_s, one.tpot_s) == (pytest.approx(2.0), pytest.approx(0.5))
    none = Ended("r", "refused", 429, arrived_s=1.0, ended_s=1.0)
    assert math.isnan(none.ttft_s) and math.isnan(none.tpot_s)
