"""What a demonstration may be asked for."""

from __future__ import annotations

import pytest

from evenstep.config.layers import Layer, settle
from evenstep.errors import InputError, PolicyError
from evenstep.load.demo_settings import DemoSettings, checked, contender


@pytest.mark.parametrize(
    ("text", "found"),
    [("jsq", ("jsq", None)), ("best@0", ("best", 0.0)), ("br-h:horizon=9@1.5", ("br-h:horizon=9", 1.5))],
)
def test_a_contender_is_a_policy_and_maybe_a_time_to_gather(text, found):
    assert contender(text) == found


@pytest.mark.parametrize("text", ["jsk", "jsq@", "jsq@x", "jsq@-1", "jsq:nonsense=1"])
def test_a_contender_that_cannot_be_meant_is_refused(text):
    with pytest.raises((InputError, PolicyError)):
        contender(text)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"requests": 0}, "--requests"),
        ({"load": 0.0}, "--load"),
        ({"ranks": 0}, "--ranks"),
        ({"policies": ["jsk"]}, "jsk"),
        ({"overhead_s": 0.0, "per_token_s": 0.0}, "--per-token-s"),
    ],
)
def test_settings_out_of_range_are_named(given, said):
    with pytest.raises(InputError, match=said):
        checked(settle(DemoSettings, Layer("command line", given)))
