from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies import traces

from evenstep.workload.checks import check_trace
from evenstep.workload.readers import json_table, links


def test_a_row_follows_the_one_above_it_of_its_session():
    session = np.array([5, -1, 5, 2, -1, 5, 2])
    assert links.previous_in_session(session).tolist() == [-1, -1, 0, -1, -1, 2, 3]


def test_gaps_are_0_without_a_predecessor_and_never_negative():
    assert links.gaps_after(np.array([-1, 0, 1]), np.array([3.0, 5.0, 4.0])).tolist() == [0.0, 2.0, 0.0]


def test_a_chain_of_dropped_rows_passes_on_its_think_times():
    after, think = links.relinked(
        np.array([-1, 0, 1, 2]), np.array([1.0, 2.0, 4.0, 8.0]), np.array([True, False, False, True])
    )
    assert (after[3], think[3]) == (0, 14.0)


def test_a_row_whose_predecessors_are_all_dropped_begins_its_session():
    after, think = links.relinked(np.array([-1, 0]), np.array([1.0, 2.0]), np.array([False, True]))
    assert (after[1], think[1]) == (-1, 3.0)


@given(traces(sessions=True), st.data())
def test_dropping_rows_keeps_a_trace_whole_and_its_sessions_in_order(trace, data):
    keep = np.array(data.draw(st.lists(st.booleans(), min_size=len(trace), max_size=len(trace))))
    keep[data.draw(st.integers(0, len(trace) - 1))] = True
    kept = links.keep_rows(trace, keep)
    check_trace(kept, "kept")
    assert len(kept) == keep.sum()
    assert kept.after.tolist() == links.previous_in_session(kept.session).tolist()
    assert kept.notes == trace.notes


def test_every_row_below_a_later_one_is_counted(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text("".join(f'{{"t": {t}}}\n' for t in (3, 1, 2, 4)))
    table = json_table.table(path, {"t": ("t",)}, ("t",), skip_bad_rows=False)
    order, notes = links.by_time(table, table.number("t", low=0.0), "or so")
    assert order.tolist() == [1, 2, 0, 3] and notes == ["2 rows or so"]


def test_a_note_on_many_classes_names_the_first_ones_and_counts_the_others():
    names = [f"t{number:04}" for number in range(10_000)]
    said = links.classes(names)
    assert said.startswith("Request classes: 0 = t0000, 1 = t0001, ")
    assert said.endswith(", 29 = t0029, and 9,970 more in the order of their names.")
    assert links.classes(names[:30]).endswith("28 = t0028, 29 = t0029.")
