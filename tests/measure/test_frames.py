"""Every record table is also a table of pyarrow, and a data frame where pandas is installed."""

from __future__ import annotations

import numpy as np
import pytest

from evenstep.errors import InputError
from evenstep.measure import frames
from evenstep.measure.network_records import TaskTable
from evenstep.measure.records import WorkerTable

ONE, TWO = np.array([1, 2]), np.array([[1.0, 2.0], [3.0, 4.0]])
TASKS = TaskTable(ONE, ONE * 0.5, np.array([1.0, np.nan]), ONE + 1, ONE + 2)


def test_a_record_table_as_arrow_has_its_columns_in_order():
    found = TASKS.to_arrow()
    assert found.column_names == ["task_type", "arrival_s", "finished_s", "calls", "tokens"]
    assert found.column("arrival_s").to_pylist() == [0.5, 1.0]


def test_a_column_of_every_worker_is_a_list_and_a_plain_number_is_left_out():
    found = WorkerTable(ONE, ONE, ONE * 0.5, ONE * 0.1, TWO, TWO.astype(np.int64), stride=4).to_arrow()
    assert found.column("load").to_pylist() == [[1.0, 2.0], [3.0, 4.0]]
    assert "stride" not in found.column_names and "longest" not in found.column_names


def test_without_pandas_a_data_frame_of_a_table_is_one_clear_error(monkeypatch):
    monkeypatch.setattr(frames, "find_spec", lambda name: None)
    with pytest.raises(InputError, match="pandas is 'missing'.*pip install pandas, or use to_arrow"):
        TASKS.to_pandas()


def test_with_pandas_a_data_frame_has_the_same_rows_and_columns():
    pytest.importorskip("pandas")
    assert TASKS.to_pandas().shape == (2, 5)
