from __future__ import annotations

import numpy as np
import pytest

from evenstep import names
from evenstep.cost.table import Table, read_steps
from evenstep.cost.view import StepTime
from evenstep.errors import InputError

NONE = np.zeros(0, np.int64)


def write(tmp_path, text, name="h100.csv"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def step_seconds(law, *load):
    return (law.overhead_seconds(4) + law.local_seconds(np.array(load, float), NONE, np.zeros(0))).tolist()


def test_a_step_lasts_what_was_measured_and_c_is_the_line_at_no_load(tmp_path):
    path = write(tmp_path, "load,seconds\n100,3\n\n300,5\n200,4\n400,8\n")
    law = Table(path)
    assert isinstance(law, StepTime)
    assert law.overhead_seconds(4) == 2.0
    assert step_seconds(law, 0, 100, 250, 350, 500) == [2.0, 3.0, 4.5, 6.5, 11.0]
    assert names.build("cost", {"name": "table", "path": path}) == law
    assert Table(path, sync_s="4:0.5/8:1").overhead_seconds(4) == 2.5


def test_several_measurements_of_a_load_are_averaged(tmp_path):
    law = Table(write(tmp_path, "load,seconds\n0,1\n100,2\n100,4\n"))
    assert step_seconds(law, 0, 100) == [1.0, 3.0]


def test_c_is_never_below_zero(tmp_path):
    law = Table(write(tmp_path, "load,seconds\n100,1\n200,9\n"))
    assert step_seconds(law, 0, 50, 100, 200) == [0.0, 0.5, 1.0, 9.0]


def test_a_byte_order_mark_is_no_part_of_the_header(tmp_path):
    assert read_steps(tmp_path / write(tmp_path, b"\xef\xbb\xbfload,seconds\n0,1\n")) == [(0.0, 1.0)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "header is ''"),
        ("tokens,s\n1,2\n", "header is 'tokens,s'; expected load,seconds"),
        ("load,seconds\n", "steps is '0 knots'"),
        ("load,seconds\n1,2\n", "steps is '1 knots'"),
        ("load,seconds\n1,2\n3\n", "line 3: row is '3'"),
        ("load,seconds\n1,2\n3,x\n", "line 3: step is 'x'; expected a number"),
        ("load,seconds\n1,2\n3,nan\n", "line 3: step is nan"),
        ("load,seconds\n1,2\n3,1\n", "steps is '3:1'; expected at least 2 seconds"),
        ("load,seconds\n-1,2\n3,3\n", "steps is '-1:2'"),
        (b"\xff\xfe\x00", "expected a readable CSV file"),
    ],
)
def test_a_bad_file_is_named_with_what_is_wrong(tmp_path, text, message):
    with pytest.raises(InputError) as caught:
        Table(write(tmp_path, text))
    assert message in str(caught.value)
    assert "h100.csv" in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(InputError, match=r"none.csv: file is 'none.csv'; expected a readable CSV file. No such file"):
        Table(str(tmp_path / "none.csv"))


def test_lines_may_end_as_on_an_old_macintosh(tmp_path):
    assert read_steps(tmp_path / write(tmp_path, b"load,seconds\r0,0.1\r10,0.2\r")) == [(0.0, 0.1), (10.0, 0.2)]
