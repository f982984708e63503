"""The tables the reference simulator hands out."""

from __future__ import annotations

import numpy as np
import pytest
from tests.oracles.fleet import Group, Job
from tests.oracles.record import Record, ints, read_only

from evenstep.measure.records import columns
from evenstep.request import Trace


def test_tables_have_the_types_their_columns_promise():
    record = Record()
    record.decision(0.5, 3, 2, 1, 0.25)
    record.step(Group(1, [], step=4), 0.5, 2.0, [3.0, 1.0], [0.5, 0.25], [Job(0, 1, 0.0, 0.0, admitted_step=4)], 7, 1)
    job = Job(0, 1, 0.0, 0.0, admitted_s=0.5, first_token_s=2.5, finished_s=2.5)
    trace = Trace(np.array([3]), np.array([1]))
    out = record.reference(trace, {0: job}, 2.5, decisions=True, counted={})
    for table in (out.requests, out.steps, out.decisions):
        for name, column in columns(table).items():
            is_real = name.endswith(("_s", "_j")) or name in ("envelope", "load_sum", "load_min", "bound")
            assert column.dtype == (np.float64 if is_real else np.int64) and column.shape == (1,), name
    assert out.steps.admitted[0] == 1 and out.steps.running_all[0] == 7 and out.steps.step[0] == 4
    assert (out.totals.makespan_s, out.totals.load_steps, out.totals.active_steps) == (2.5, 4.0, 1)


def test_decisions_are_counted_even_when_their_table_is_not_kept():
    record = Record()
    record.decision(0.0, 1, 1, 0, float("nan"))
    out = record.reference(Trace(np.zeros(0, np.int64), np.zeros(0, np.int64)), {}, 0.0, decisions=False, counted={})
    assert out.totals.decisions == 1 and out.decisions.decision.size == 0


def test_arrays_handed_out_cannot_be_written():
    with pytest.raises(ValueError):
        ints([1])[0] = 2
    with pytest.raises(ValueError):
        read_only(np.zeros(1))[0] = 2
