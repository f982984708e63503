from __future__ import annotations

import pytest

from evenstep.errors import InputError
from evenstep.workload.readers import bailian


def test_a_chat_follows_its_parent(samples):
    trace = bailian.read(samples / "bailian.jsonl")
    assert trace.after.tolist() == [-1, -1, 0, -1, 2, 1, -1, -1, 6, -1]
    assert trace.session.tolist() == [0, 1, 0, 2, 0, 1, 3, 4, 3, 5]
    assert trace.think_s[4] == 5.0
    assert "1 row names a parent that is not in the file" in trace.notes[0]


def test_blocks_are_of_16_tokens_and_types_are_classes(samples):
    trace = bailian.read(samples / "bailian.jsonl")
    assert (trace.prefix_blocks.block_tokens, trace.prefix_blocks.row(1).size) == (16, 1)
    assert trace.request_class[:4].tolist() == [3, 2, 3, 0]


def test_times_out_of_order_are_an_error(samples, write):
    rows = (samples / "bailian.jsonl").read_text().splitlines()
    with pytest.raises(InputError, match=r"x\.jsonl:2: timestamp is 0\.5"):
        bailian.read(write("x.jsonl", "\n".join([rows[2], rows[1]]) + "\n"))


def test_children_of_a_skipped_row_follow_its_parent(samples, write):
    text = (samples / "bailian.jsonl").read_text().replace('"input_length": 70', '"input_length": 0')
    trace = bailian.read(write("x.jsonl", text), skip_bad_rows=True)
    assert len(trace) == 9
    assert trace.after.tolist() == [-1, -1, -1, 0, 1, -1, -1, 5, -1]
    assert trace.session[3] == trace.session[0]
    assert "1 row names a parent that is not in the file" in trace.notes[1]


@pytest.mark.parametrize("bad", ['"timestamp": 1.0, "input_length": 0', '"timestamp": "x", "input_length": 9'])
def test_think_times_across_a_skipped_row_are_the_whole_gap(write, bad):
    good = '"timestamp": {}, "input_length": 10'
    parts = [(1, -1, good.format(0.0)), (2, 1, bad), (3, 2, good.format(3.0))]
    rows = [f'{{"chat_id": {c}, "parent_chat_id": {p}, {rest}, "output_length": 5}}\n' for c, p, rest in parts]
    trace = bailian.read(write("x.jsonl", "".join(rows)), skip_bad_rows=True)
    assert (trace.after.tolist(), trace.think_s.tolist()) == ([-1, 0], [0.0, 3.0])
    assert not any("name a parent" in note for note in trace.notes)
