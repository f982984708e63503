from __future__ import annotations

import json

import numpy as np
import pytest

from evenstep.errors import InputError
from evenstep.workload.readers import mooncake


def lines(*rows: dict[str, object]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def test_ticks_are_spread_in_order_by_a_key_and_said(samples):
    trace, again, other = (mooncake.read(samples / "mooncake.jsonl", seed=s) for s in (0, 0, 1))
    kept = mooncake.read(samples / "mooncake.jsonl", ticks="keep")
    tick = kept.arrival_s // 3
    first = trace.arrival_s - (trace.arrival_s[0] - 0.0)
    assert (np.diff(trace.arrival_s) > 0).all()
    assert np.array_equal(trace.arrival_s, again.arrival_s)
    assert not np.array_equal(trace.arrival_s, other.arrival_s)
    assert (np.abs(first - tick * 3) < 3).all()
    assert np.array_equal(trace.prompt_tokens, kept.prompt_tokens)
    assert "ticks of 3 s; requests were spread" in trace.notes[0]
    assert "kept" in kept.notes[0]


def test_times_without_ticks_are_left_alone(write):
    rows = [{"timestamp": 10.5 * i, "input_length": 5, "output_length": 2} for i in range(8)]
    trace = mooncake.read(write("x.jsonl", lines(*rows)))
    assert trace.arrival_s.tolist() == [10.5 * i / 1e3 for i in range(8)]
    assert trace.notes == ()


def test_blocks_are_global_and_of_512_tokens(samples):
    blocks = mooncake.read(samples / "mooncake.jsonl").prefix_blocks
    assert (blocks.block_tokens, blocks.scope, blocks.row(0).tolist()) == (512, "global", [0, 1])
    assert mooncake.read(samples / "mooncake.jsonl", prefix_blocks=False).prefix_blocks is None


def test_sessions_follow_their_delays_and_arrive_after_them(samples):
    trace = mooncake.read(samples / "mooncake_sessions.jsonl")
    by_prompt = {int(p): row for row, p in enumerate(trace.prompt_tokens)}
    second, third = by_prompt[180], by_prompt[260]
    assert trace.after[second] == by_prompt[100]
    assert (trace.think_s[second], trace.arrival_s[second]) == (1.5, 1.5)
    assert (trace.after[third], trace.think_s[third]) == (second, 0.0)
    assert trace.think_s[by_prompt[60]] == 4.0  # no delay: the gap between the times
    assert trace.session[by_prompt[30]] == -1
    assert (np.diff(trace.arrival_s) >= 0).all()
    assert len(trace.notes) == 2


@pytest.mark.parametrize("prompt", mooncake.ALIASES["input_length"])
@pytest.mark.parametrize("output", ["output_length", "osl", "output_tokens"])
def test_every_alias_is_recognised_and_read(write, prompt, output):
    path = write("x.jsonl", lines({prompt: 7, output: 3, "timestamp": 0}))
    assert mooncake.recognises(path.read_bytes(), "x.jsonl")
    assert mooncake.read(path).prompt_tokens.tolist() == [7]


GOOD = {"timestamp": 1000, "input_length": 5, "output_length": 2}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"timestamp": 500}, r"x\.jsonl:2: timestamp is 500; expected a time not before"),
        ({"timestamp": -1}, r"x\.jsonl:2: timestamp is -1"),
        ({"timestamp": None}, r"x\.jsonl:2: timestamp is None; expected a time in milliseconds"),
        ({"timestamp": "noon"}, r"x\.jsonl:2: timestamp is 'noon'"),
        ({"input_length": 0}, r"x\.jsonl:2: input_length is 0"),
        ({"output_length": 1.5}, r"x\.jsonl:2: output_length is 1\.5"),
        ({"output_length": float("nan")}, r"x\.jsonl:2: output_length is nan"),
        ({"hash_ids": ["a"]}, r"x\.jsonl:2: hash_ids"),
        ({"session_id": "s", "delay": -5}, r"x\.jsonl:2: delay is -5"),
    ],
)
def test_a_bad_row_is_named_or_skipped(write, row, message):
    path = write("x.jsonl", lines(GOOD, {**GOOD, "timestamp": 1500, **row}, {**GOOD, "timestamp": 2000}))
    with pytest.raises(InputError, match=message):
        mooncake.read(path)
    trace = mooncake.read(path, skip_bad_rows=True)
    assert trace.arrival_s.tolist() == [0.0, 1.0]


def test_a_dropped_turn_passes_its_delay_on(write):
    rows = [
        {"session_id": 1, "timestamp": 0, "input_length": 5, "output_length": 2},
        {"session_id": 1, "delay": 250, "input_length": -5, "output_length": 2},
        {"session_id": 1, "delay": 500, "input_length": 9, "output_length": 2},
    ]
    trace = mooncake.read(write("x.jsonl", lines(*rows)), skip_bad_rows=True)
    assert (trace.after.tolist(), trace.think_s.tolist()) == ([-1, 0], [0.0, 0.75])


def test_rows_without_lengths_are_an_error(write):
    with pytest.raises(InputError, match="input_length is 'missing'; expected one of input_length"):
        mooncake.read(write("x.jsonl", lines({"text_input": "hello", "output_length": 3})))


def test_an_unknown_way_to_treat_ticks_is_an_error(samples):
    with pytest.raises(InputError, match="spread or keep"):
        mooncake.read(samples / "mooncake.jsonl", ticks="drop")


def test_a_row_without_a_time_is_bad_if_the_row_it_follows_has_none(write):
    row = {"input_length": 5, "output_length": 2}
    text = lines(
        {"timestamp": 10_000, "session_id": "a", **row},
        {"session_id": "b", **row},
        {"session_id": "b", "delay": 5, **row},
        {"timestamp": "x", "session_id": "c", **row},
        {"session_id": "c", "delay": 5, **row},
        {"timestamp": 12_000, "session_id": "a", **row},
    )
    trace = mooncake.read(write("x.jsonl", text), skip_bad_rows=True)
    assert trace.arrival_s.tolist() == [0.0, 2.0]
    assert trace.notes[0] == "4 bad rows were skipped (timestamp 4; the first in line 2)."


@pytest.mark.parametrize("wrong", [-5, "?"])
def test_a_skipped_row_gives_no_time_to_the_rows_that_follow_it(write, wrong):
    row = {"input_length": 5, "output_length": 5, "hash_ids": []}
    path = write(
        "x.jsonl",
        lines(
            {**row, "timestamp": 10**12, "session_id": "a"},
            {**row, "timestamp": wrong, "input_length": "?", "session_id": "b"},
            {**row, "session_id": "b", "delay": 5},
            {**row, "timestamp": wrong, "session_id": "c"},
            {**row, "timestamp": 10**12 + 1000, "session_id": "c"},
        ),
    )
    trace = mooncake.read(path, skip_bad_rows=True)
    assert trace.arrival_s.tolist() == [0.0, 1.0]
    assert trace.think_s.tolist() == [0.0, 0.0]


def test_a_skipped_row_that_goes_back_is_no_row_above(write):
    row = {"input_length": 5, "output_length": 5, "hash_ids": [], "session_id": "a"}
    path = write("x.jsonl", lines(*({**row, "timestamp": at} for at in (1000, 500, 2000))))
    assert mooncake.read(path, skip_bad_rows=True).think_s.tolist() == [0.0, 1.0]


def test_a_row_without_a_time_comes_before_the_next_row_of_its_session(write):
    """Its delay led beyond the next row's time: "after is 2; expected a row above"."""
    row = {"input_length": 5, "output_length": 5, "session_id": "a"}
    trace = mooncake.read(
        write("x.jsonl", lines({**row, "timestamp": 0}, {**row, "delay": 5000}, {**row, "timestamp": 3000}))
    )
    assert trace.arrival_s.tolist() == [0.0, 3.0, 3.0]
    assert (trace.after.tolist(), trace.think_s.tolist()) == ([-1, 0, 1], [0.0, 5.0, 0.0])


def test_a_row_without_a_time_takes_none_from_a_skipped_row_that_goes_back(write):
    row = {"input_length": 5, "output_length": 5, "session_id": "a"}
    text = lines({**row, "timestamp": 5000}, {**row, "timestamp": 3000}, {**row, "delay": 100})
    trace = mooncake.read(write("x.jsonl", text), skip_bad_rows=True)
    assert trace.arrival_s.tolist() == [0.0, 0.1]
    assert (trace.after.tolist(), trace.think_s.tolist()) == ([-1, 0], [0.0, 0.1])


def test_a_row_without_a_time_takes_none_from_a_row_skipped_for_its_length_that_goes_back(write):
    row = {"input_length": 5, "output_length": 5, "session_id": "a"}
    text = lines({**row, "timestamp": 5000}, {**row, "delay": 100}, {**row, "timestamp": 3000, "input_length": 0})
    trace = mooncake.read(write("x.jsonl", text), skip_bad_rows=True)
    assert (trace.arrival_s.tolist(), trace.after.tolist()) == ([0.0, 0.1], [-1, 0])
