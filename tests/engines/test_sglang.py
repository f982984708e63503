"""SGLang's metrics page, on lines made from its published names."""

from __future__ import annotations

import math

import pytest

from evenstep.engines.dialects.sglang import SGLang
from evenstep.errors import EngineError

PAGE = b"""# TYPE sglang:num_running_reqs gauge
sglang:num_running_reqs{dp_rank="0",model_name="m",tp_rank="0"} 5.0
sglang:num_running_reqs{dp_rank="0",model_name="m",tp_rank="1"} 5.0
sglang:num_running_reqs{dp_rank="1",model_name="m",tp_rank="2"} 2.0
sglang:num_queue_reqs{dp_rank="0",model_name="m",tp_rank="0"} 1.0
sglang:num_queue_reqs{dp_rank="1",model_name="m",tp_rank="2"} 0.0
sglang:num_used_tokens{dp_rank="0",model_name="m",tp_rank="0"} 1000.0
sglang:num_used_tokens{dp_rank="1",model_name="m",tp_rank="2"} 0.0
sglang:token_usage{dp_rank="0",model_name="m",tp_rank="0"} 0.25
sglang:token_usage{dp_rank="1",model_name="m",tp_rank="2"} 0.0
sglang:generation_tokens_total{model_name="m"} 700.0
"""


def test_each_rank_is_read_once():
    first, second = SGLang().samples(PAGE)
    assert (first.rank, first.running, first.waiting, first.kv_tokens, first.kv_capacity) == (
        0,
        5,
        1,
        1000,
        4000,
    )
    assert (second.rank, second.running, second.kv_capacity) == (1, 2, math.inf)


def test_the_capacity_it_tells_is_taken():
    page = PAGE + b'sglang:max_total_num_tokens{dp_rank="1",model_name="m"} 8192.0\n'
    assert SGLang().samples(page)[1].kv_capacity == 8192


def test_one_rank_needs_no_label():
    page = (
        b"sglang:num_running_reqs 1\nsglang:num_queue_reqs 0\nsglang:num_used_tokens 10\nsglang:generation_tokens_total 7\n"
    )
    (only,) = SGLang().samples(page)
    assert (only.rank, only.kv_tokens) == (0, 10)


def test_the_cache_counters_of_one_rank_are_read_and_those_of_several_together_are_not():
    counters = b"sglang:prompt_tokens_total 900\nsglang:cached_tokens_total 600\n"
    page = b"sglang:num_running_reqs 1\nsglang:num_queue_reqs 0\nsglang:num_used_tokens 10\n" + counters
    (only,) = SGLang().samples(page)
    assert (only.prefix_queried, only.prefix_hit) == (900, 600)
    assert all(math.isnan(one.prefix_queried) for one in SGLang().samples(PAGE + counters))


def test_a_page_that_lacks_a_line_is_the_engines_error():
    for page in (b"", b"sglang:num_running_reqs 1\n"):
        with pytest.raises(EngineError, match="is missing"):
            SGLang().samples(page)


def test_its_legs_are_not_spoken():
    assert SGLang().dialect.handover == "" and not SGLang().dialect.usage_needs_final
