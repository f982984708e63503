"""What a sweep found."""

from __future__ import annotations

import orjson
import pyarrow.parquet as pq
import pytest

from evenstep.errors import InputError
from evenstep.measure.swept import Swept, SweptRun, columns_of, to_json_object, value_text, write_swept


def run(replicate, idle, wait=1.0, oracle=False):
    summary = {
        "idle_share": idle,
        "oldest_wait_s": wait,
        "steps": 5,
        "overloaded": False,
        "window": {"kind": "running"},
        "waits_by_prompt_fifth": [],
    }
    return SweptRun(replicate, 7 + replicate, f"d{replicate}", f"t{replicate}", "", oracle, summary)


def swept(**changes):
    runs = tuple((tuple(run(r, 0.1 * (p + 1) + 0.01 * r) for r in range(2)),) for p in range(4))
    given = {
        "parameters": ("workers", "arrivals"),
        "points": ((8, "timed"), (8, "closed"), (4, "timed"), (4, "closed")),
        "policies": ("jsq",),
        "runs": runs,
        "metrics": ("idle_share",),
        "met": (True,) * 4,
    }
    return Swept(**given | changes)


def test_a_sweep_is_shown_in_a_line():
    assert repr(swept()) == "<sweep over workers, arrivals: 4 points, 1 policy>"


def test_values_of_numbers_ascend_and_others_keep_their_order():
    assert swept().values("workers") == [4, 8]
    assert swept().values("arrivals") == ["timed", "closed"]
    assert swept().is_numeric("workers") and not swept().is_numeric("arrivals")


def test_a_parameter_that_was_not_swept_is_refused_with_those_that_were():
    with pytest.raises(InputError, match="sweep: parameter is 'wrokers'; expected one of workers, arrivals"):
        swept().curve("wrokers", 0, "idle_share")


def test_a_curve_averages_over_the_other_parameters_replicate_by_replicate():
    four, eight = swept().curve("workers", 0, "idle_share")
    assert eight.value == pytest.approx((0.1 + 0.2) / 2 + 0.005)
    assert four.value == pytest.approx((0.3 + 0.4) / 2 + 0.005)
    assert four.high - four.value == pytest.approx(12.706 * 0.005, rel=1e-3)  # t of one degree, two replicates


def test_a_curve_uses_the_replicates_that_all_its_points_have():
    runs = list(swept().runs)
    runs[0] = ((*runs[0][0], run(2, 9.0)),)
    assert swept(runs=tuple(runs)).curve("workers", 0, "idle_share") == swept().curve("workers", 0, "idle_share")


def test_a_metric_that_a_replicate_lacks_has_no_interval():
    runs = list(swept().runs)
    runs[0] = ((run(0, None), run(1, 0.2)),)
    found = swept(runs=tuple(runs))
    assert found.interval(0, 0, "idle_share") is None
    assert found.curve("workers", 0, "idle_share")[1] is None
    assert found.average([], 0, "idle_share") is None


def test_the_table_has_a_row_a_run_with_every_number(tmp_path):
    path = tmp_path / "s.parquet"
    assert write_swept(swept(), path) == 8
    table = pq.read_table(path)
    assert table.column("point").to_pylist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert table.column("workers").to_pylist() == [8] * 4 + [4] * 4
    assert table.column("replicate").to_pylist() == [0, 1] * 4
    assert table.column("window").to_pylist() == ["running"] * 8
    assert table.column("steps").type == "int64" and table.column("idle_share").type == "double"
    assert "waits_by_prompt_fifth" not in table.column_names and "until_met" not in table.column_names
    assert orjson.loads(table.schema.metadata[b"evenstep"])["parameters"] == ["workers", "arrivals"]


def test_a_metric_that_no_run_has_is_a_column_of_numbers(tmp_path):
    runs = tuple(((run(0, None), run(1, None)),) for _ in range(4))
    write_swept(swept(runs=runs), tmp_path / "s.parquet")
    column = pq.read_table(tmp_path / "s.parquet").column("idle_share")
    assert column.type == "double" and column.null_count == 8


def test_the_same_sweep_gives_the_same_bytes(tmp_path):
    write_swept(swept(), tmp_path / "a")
    write_swept(swept(), tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_column_has_one_type():
    def column(*values):
        found = swept(parameters=("x",), points=tuple((value,) for value in values))
        return columns_of(found)["x"][::2]

    assert column(1, 2, 3, 4) == [1, 2, 3, 4]
    assert column(1, 0.5, None, 2) == [1.0, 0.5, None, 2.0]
    assert column(72, [8, 4], True, "a") == ["72", "8,4", "true", "a"]


def test_values_read_as_in_yaml():
    assert [value_text(v) for v in (None, [], True, 0.25, 3, [1, 2], "x")] == [
        "none",
        "none",
        "true",
        "0.25",
        "3",
        "1,2",
        "x",
    ]


def test_the_json_object_has_a_row_for_each_point_and_policy():
    found = to_json_object(swept(until="ci(idle_share) < 2%", met=(True, True, True, False)))
    assert found["rows"][0]["parameters"] == {"workers": 8, "arrivals": "timed"}
    assert [row["until_met"] for row in found["rows"]] == [True, True, True, False]
    assert found["rows"][0]["metrics"]["idle_share"]["mean"] == pytest.approx(0.105)
    orjson.dumps(found)
