from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import get_args

import pytest

from evenstep.emulator.faults import Fault, Faults, Kind, fault_of
from evenstep.errors import InputError


def test_every_kind_and_every_option_has_its_line_in_the_reference():
    text = (Path(__file__).parents[2] / "docs" / "reference" / "emulator.md").read_text(encoding="utf-8")
    words = [*get_args(Kind), *(field.name for field in dataclasses.fields(Fault))]
    assert [word for word in words if f"`{word}`" not in text] == []


def test_a_fault_is_read_from_text_and_from_an_object():
    wanted = Fault("die", rank=1, count=3, after_tokens=5)
    assert fault_of("die:after-tokens=5,count=3,rank=1", 2) == wanted
    assert fault_of({"fault": "die", "after_tokens": 5, "count": 3, "rank": 1}, 2) == wanted


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("dei", "Did you mean die"),
        ("die:after=3", "Did you mean after_tokens"),
        ("die:rank=2", "rank is 2; expected a rank in 0..1"),
        ("die:share=2", "share is 2.0"),
        *((f"{kind}:after_tokens=2", f"{kind}: after_tokens is 2; expected 0. It") for kind in ("status", "refuse", "html")),
        ("empty:after_tokens=2", "empty: after_tokens is 2; expected 0. It strikes before any token"),
        ("status:status=299", "status is 299; expected an HTTP status in 300..599"),
        ("status:status=600", "status is 600"),
        ("die:rank=-2", "rank is -2"),
        ({"fault": "status", "location": "a\rb"}, "location is"),
        ({"fault": "status", "location": "a\nb"}, "location is"),
        ({"fault": "status", "location": "a\r\nb"}, "location is"),
        ("stall:count=-1", "count is -1"),
        ({"fault": "die", "count": "many"}, "count is 'many'"),
        ({}, "fault is 'missing'"),
    ],
)
def test_a_bad_fault_is_named(given, said):
    with pytest.raises(InputError) as error:
        fault_of(given, 2)
    assert said in str(error.value)


def test_a_fault_at_the_ends_of_its_ranges_is_a_fault():
    for status in (300, 599):
        assert fault_of({"fault": "status", "status": status}, 1).status == status
    assert fault_of("die:rank=-1,share=0", 1).rank == -1 and fault_of("die:rank=0", 1).rank == 0
    assert fault_of("die", 1, "sglang").fault == "die"


def test_a_fault_is_over_when_it_has_hit_as_often_as_said_and_only_its_rank():
    faults = Faults(seed=0)
    faults.on.append(Fault("die", rank=1, count=2))
    assert [faults.hit(rank) is not None for rank in (0, 1, 0, 1, 1)] == [False, True, False, True, False]
    assert faults.on == []


def test_a_share_of_requests_is_hit_the_same_ones_for_the_same_seed():
    def hits(seed):
        faults = Faults(seed)
        faults.on.append(Fault("die", share=0.25, count=0))
        return [faults.hit(0) is not None for _ in range(1000)]

    assert 200 < sum(hits(1)) < 300
    assert hits(1) == hits(1) != hits(2)


def test_slow_metrics_hit_metrics_only():
    faults = Faults(seed=0)
    faults.on.append(Fault("slow-metrics", seconds=3.0, count=2))
    assert faults.hit(0) is None
    assert [faults.metrics_delay_s((0,)) for _ in range(3)] == [3.0, 3.0, 0.0]
    faults.on.append(Fault("die"))
    faults.on.clear()
    assert faults.hit(0) is None


def test_slow_metrics_hit_their_share_of_the_pages_that_show_their_rank():
    faults = Faults(seed=0)
    faults.on.append(Fault("slow-metrics", seconds=3.0, count=0, share=0.25, rank=1))
    assert [faults.metrics_delay_s((0, 2)) for _ in range(100)] == [0.0] * 100
    assert 200 < sum(faults.metrics_delay_s((0, 1)) > 0 for _ in range(1000)) < 300


def test_what_engines_of_a_dialect_never_say_is_no_fault_of_theirs():
    with pytest.raises(InputError, match="recomputed: dialect is 'sglang'; expected vllm"):
        fault_of("recomputed:after_tokens=2", 1, "sglang")
