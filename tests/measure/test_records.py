from __future__ import annotations

import dataclasses
import pickle

import numpy as np
import pytest
from tests.measure.small_cluster import small_run

from evenstep.measure.records import RequestTable, Run, StepTable, columns, concatenate


def test_columns_are_in_the_order_they_are_declared():
    steps = small_run([3, 5], [4, 1]).steps
    assert list(columns(steps)) == [f.name for f in dataclasses.fields(StepTable)]
    assert steps.rows == 4
    assert small_run([3, 5], [4, 1]).requests.rows == 2


def test_a_run_is_shown_in_a_line_and_not_with_all_its_rows():
    assert repr(small_run([3, 5], [4, 1])) == str(small_run([3, 5], [4, 1])) == "<run of fcfs on a workload, 2 requests>"


def test_a_table_is_shown_by_its_size_and_the_names_of_its_columns():
    """In a notebook `run.requests` was a page of a hundred thousand letters."""
    run = small_run([3, 5], [4, 1])
    assert repr(run.requests).startswith("<2 rows of request_id, worker, prompt_tokens, ")
    assert "request_class" not in repr(run.requests)
    assert repr(run.steps).startswith("<4 rows of group, step, ")


def test_parts_are_put_together_in_order():
    requests = small_run([3, 5, 1], [4, 1, 2]).requests
    halves = [RequestTable(**{k: v[part] for k, v in columns(requests).items()}) for part in (slice(1), slice(1, 3))]
    whole = concatenate(RequestTable, halves)
    for name, column in columns(requests).items():
        np.testing.assert_array_equal(getattr(whole, name), column, strict=True)


def test_a_run_is_measured_and_hashed_once_and_only_when_asked():
    asked: list[str] = []
    run = small_run([1], [1])
    lazy = Run(
        run.conditions,
        run.totals,
        lambda: asked.append("hashed") or "ab",
        lambda: asked.append("measured") or {"steps": 1},
    )
    assert asked == []
    assert (lazy.digest, lazy.digest, lazy.summary, lazy.summary) == ("ab", "ab", {"steps": 1}, {"steps": 1})
    assert asked == ["hashed", "measured"]


def test_a_table_given_as_what_works_it_out_is_worked_out_once_when_it_is_read():
    run, asked = small_run([3, 5], [4, 1]), []
    lazy = dataclasses.replace(run, requests=lambda: asked.append("requests") or run.requests)
    assert asked == []
    assert lazy.requests is run.requests and lazy.requests is run.requests
    assert asked == ["requests"]


def test_a_run_travels_between_processes_and_can_be_changed_there():
    run = small_run([3, 5], [4, 1])
    back = pickle.loads(pickle.dumps(run))
    renamed = dataclasses.replace(back, conditions=dataclasses.replace(back.conditions, seed=7))
    assert (renamed.digest, renamed.summary) == (run.digest, run.summary)
    assert back.steps.envelope.tolist() == run.steps.envelope.tolist()


def test_a_run_for_charts_keeps_some_steps_and_the_figures_of_all():
    run = small_run([3, 5, 2, 8], [40, 10, 30, 20])
    few, steps = run.thinned(7), run.steps.step
    assert few.steps.rows == 7 and few.steps.step.tolist() == sorted({*few.steps.step.tolist()} & {*steps.tolist()})
    assert few.digest == run.digest and few.summary == run.summary and few.requests.rows == 4
    assert np.diff(few.steps.step, append=steps[-1]).max() <= 2 * steps.size / 7  # nowhere a long gap
    assert run.thinned(steps.size) is run
    almost = run.thinned(steps.size - 1).steps.step
    assert almost.size < steps.size and (np.diff(almost) > 0).all()  # no step twice


def test_a_run_cannot_be_changed_in_place():
    with pytest.raises(dataclasses.FrozenInstanceError):
        small_run([1], [1]).steps = None
