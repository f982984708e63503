"""What is believed of output lengths, from text."""

import numpy as np
import pytest

from evenstep.errors import InputError
from evenstep.experiments.compare.engine_settings import EngineSettings, bounds_of, check, together
from evenstep.predict.intervals import Quantiles
from evenstep.request import Trace

TRACE = Trace(prompt_tokens=np.array([3, 4]), output_tokens=np.array([10, 150]), arrival_s=np.array([0.0, 7.0]))


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("exact", [10, 150], [10, 150]),
        ("constant:1/1000", [1, 1], [1000, 1000]),
        ("bucketed:100/200", [1, 101], [100, 200]),
        ("around:0.5", [5, 75], [15, 225]),
    ],
)
def test_bounds_by_name(text, low, high):
    found = bounds_of(text, TRACE)
    assert isinstance(found, tuple)
    assert found[0].tolist() == low and found[1].tolist() == high


def test_a_predictor_gives_quantiles_and_the_trace_nothing_new():
    found = bounds_of("survival:low=0.2,high=0.5", TRACE)
    assert isinstance(found, Quantiles) and (found.low, found.high) == (0.2, 0.5)
    assert bounds_of("trace", TRACE) is None


def test_together_is_at_time_zero():
    assert together(TRACE).arrival_s.tolist() == [0.0, 0.0]


def test_an_engine_and_a_law_come_from_text():
    settings = EngineSettings(engine="kv-tokens=64,overflow=swap,swap-s=1e-6/1e-3", batch_time="unit")
    assert settings.server().kv_tokens == 64 and settings.server().swap_s == (1e-6, 1e-3)
    assert settings.law().table()[0] == 1.0


@pytest.mark.parametrize(("field", "value"), [("seeds", 0), ("rate", -1.0), ("until_s", 0.0)])
def test_numbers_out_of_range_are_named(field, value):
    with pytest.raises(InputError, match=field.replace("_", "-")):
        check(EngineSettings(**{field: value}))


@pytest.mark.parametrize("text", ["kv-tokens", "kv-tokens,token-budget=5"])
def test_an_engine_option_without_a_value_is_named(text):
    with pytest.raises(InputError, match="option is 'kv-tokens'; expected key=value"):
        EngineSettings(engine=text).server()


def test_chances_that_are_no_numbers_are_named():
    with pytest.raises(InputError, match="--bounds: low, high is 'survival:low=abc'"):
        bounds_of("survival:low=abc", TRACE)
