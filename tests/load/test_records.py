"""Records of requests, and their file."""

from __future__ import annotations

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
from tests.load.outcomes import TRACE, four
from tests.load.test_answer import GOOD

from evenstep.errors import InputError
from evenstep.load.answer import Answer, Meters
from evenstep.load.records import Records


def test_what_did_not_happen_is_missing_and_not_zero():
    records = Records.of(TRACE)
    assert records.rows == 4
    assert np.isnan(records.ended_s).all() and (records.output_tokens == -1).all()
    assert records.error == ["not-ended"] * 4


def test_an_answer_that_is_over_fills_its_row():
    records, answer = Records.of(TRACE), Answer(4, Meters(0.0, 1.0))
    for one in GOOD:
        answer.feed(one, 12.0)
    answer.end(12.0)
    records.ended(2, answer, 200, 13.0, 10.0)
    assert (records.first_s[2], records.ended_s[2], records.output_tokens[2]) == (2.0, 3.0, 4)
    assert (records.error[2], records.counting[2], records.status[2]) == ("", "usage", 200)


def test_records_are_written_whole_with_what_made_them(tmp_path):
    path = tmp_path / "r.parquet"
    four().records.write(path, {"command": "evenstep load"})
    table = pq.read_table(path)
    assert table.num_rows == 4
    assert table["error"].to_pylist() == ["", "", "", "cut"]
    assert json.loads(table.schema.metadata[b"evenstep"])["command"] == "evenstep load"


def test_a_folder_that_is_not_there_is_one_clear_error(tmp_path):
    with pytest.raises(InputError, match=r"can be written"):
        four().records.write(tmp_path / "no" / "r.parquet", {})
