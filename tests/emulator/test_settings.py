from __future__ import annotations

import pytest

from evenstep.config.layers import Layer, settle
from evenstep.cost.linear import Linear
from evenstep.emulator.settings import EmulatorSettings, checked
from evenstep.errors import InputError


def given(**flags):
    return checked(settle(EmulatorSettings, Layer("command line", {k: str(v) for k, v in flags.items()}, text=True)))


def test_defaults_are_one_rank_with_the_linear_law():
    settings = checked(settle(EmulatorSettings))
    assert (settings.sizes, settings.longest) == ((1,), settings.kv_tokens)
    assert settings.step_time() == Linear()


def test_a_batch_time_law_comes_without_overhead_unless_that_is_given():
    assert given(batch_time="token-budget").overhead_s == 0.0
    assert given(batch_time="token-budget", overhead_s=0.25).overhead_s == 0.25


def test_memory_is_whole_blocks_and_bounds_a_request():
    settings = given(kv_tokens=100, block_size=16)
    assert (settings.blocks, settings.longest) == (6, 96)
    assert given(kv_tokens=100, max_model_len=50).longest == 50


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"ranks": 0}, "--ranks is 0; expected an integer >= 1"),
        ({"ranks": 10**12}, "--ranks is 1000000000000; expected an integer in 1..4096"),
        ({"slots": 0}, "--slots is 0"),
        ({"speed": 0}, "--speed is 0.0; expected a finite number > 0"),
        ({"port": 70000}, "--port is 70000"),
        ({"port": 65535, "ranks": 2, "port_per_rank": "true"}, "--port is 65535"),
        ({"overhead_s": "nan"}, "--overhead-s is nan"),
        ({"kv_tokens": 10}, "--kv-tokens is 10; expected at least one block of 16"),
        ({"mean_output_tokens": 0.5}, "--mean-output-tokens is 0.5"),
        ({"model": ""}, "--model is ''"),
        ({"model": "byte\udcff"}, "--model is 'byte\\udcff'; expected a name that can be printed"),
        ({"law": "linear", "per_token_s": 1e-6}, "--per-token-s is 1e-06; expected no value when a law is given"),
        ({"law": "lineer"}, "Did you mean linear"),
        (
            {"batch_time": "token-budget", "law": "linear"},
            "--law is 'linear'; expected no value when a batch-time law is given",
        ),
        ({"batch_time": "token-budget", "decode_per_token_s": 1e-6}, "--decode-per-token-s is 1e-06; expected no value"),
        ({"batch_time": "token-bugdet"}, "Did you mean token-budget"),
        ({"batch_time": "profile:path=rtxpro6000-qwen3-30b-a3b-ep2", "ranks": 3}, "3"),
        ({"dialect": "tgi"}, "dialect"),
    ],
)
def test_a_bad_value_is_named(flags, said):
    with pytest.raises(InputError) as error:
        given(**flags)
    assert said in str(error.value)


def test_groups_have_to_add_up_and_faults_to_be_known():
    with pytest.raises(InputError, match="sizes >= 1 that add up to 4 ranks"):
        checked(settle(EmulatorSettings, Layer("here", {"ranks": 4, "groups": [2, 3]})))
    with pytest.raises(InputError, match="Did you mean die"):
        checked(settle(EmulatorSettings, Layer("here", {"faults": ["dye"]})))
