"""Findings as table, CSV, LaTeX, JSON and files."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace

import numpy as np

from evenstep.measure.comparison import Interval
from evenstep.report import findings
from evenstep.report.findings import Claim, Constant, Findings, Reproduction, Row


def made(quick: bool = False, nan: bool = False) -> Reproduction:
    value = Interval(float("nan") if nan else 12.5, 12.0, 13.0)
    found = Findings(
        rows=[
            Row("FCFS", "idle_share & more", "%", None, value),
            Row(
                "BR-H {40}",
                "idle_share & more",
                "%",
                "40-50",
                Interval(2.0, 1.5, 2.5),
                Interval(-10.5, -11.0, -10.0),
                "FCFS",
            ),
            Row("one", "exact", "", 2, Interval(3.0, 3.0, 3.0)),
        ],
        claims=[Claim("it is flat", False, "1.5"), Claim("it is low", None, "2")],
        constants=[Constant("C", "60 ms", "not given")],
        remark="we differ in one thing",
        stands_in="a made workload",
        data={"x": [1, 2], "y": [0.5, 0.25]},
        draw=lambda figure: figure.add_subplot(1, 1, 1).plot([0, 1], [0, 1]),
        size=(3, 2),
    )
    return Reproduction("br-made", "a title", "Table 9", found, quick, 3)


def test_the_table_says_everything_a_reader_has_to_know():
    text = "\n".join(findings.text_lines(made()))
    for part in (
        "Table 9",
        "40-50",
        "-10.5 ±0.50 vs FCFS",
        "12.5 ±0.50",
        "over 3 replicates",
        "does not hold: it is flat",
        "not settled: it is low",
        "we differ in one thing",
        "a made workload",
        "C = 60 ms: not given",
        "3.00 ±0",
    ):
        assert part in text


def test_a_difference_above_zero_has_a_plus_however_small():
    row = Row("one", "share", "", None, Interval(1.0, None, None), Interval(0.25, 0.2, 0.3), "other")
    assert findings.cells([row])[1][-1] == "+0.250 ±0.050 vs other"
    zero = replace(row, difference=Interval(0.0, None, None))
    assert findings.cells([zero])[1][-1] == "0 vs other"


def test_a_quick_run_is_marked_and_gives_no_verdict():
    text = "\n".join(findings.text_lines(made(quick=True)))
    assert "QUICK" in text
    assert "does not hold" not in text
    assert "no verdict at this size: it is flat" in text
    assert made(quick=True).stem == "br-made-quick"


def test_files_of_an_experiment_in_another_folder_are_named_by_its_file():
    assert replace(made(), name="../mine/experiment.py").stem == "experiment.py"


def test_json_withholds_the_verdicts_that_the_table_withholds():
    quick, full = (findings.json_object(made(quick=size))["claims"] for size in (True, False))
    assert [(one["holds"], one["verdict"]) for one in quick] == [(None, "no verdict at this size")] * 2
    assert [(one["holds"], one["verdict"]) for one in full] == [(False, "does not hold"), (None, "not settled")]


def test_csv_has_one_line_a_row_and_the_contract_s_columns():
    rows = list(csv.DictReader(io.StringIO(findings.csv_text(made()))))
    assert list(rows[0]) == [
        "experiment",
        "case",
        "quantity",
        "unit",
        "paper",
        "ours",
        "low",
        "high",
        "difference",
        "difference_low",
        "difference_high",
        "against",
        "seeds",
        "quick",
    ]
    assert [row["case"] for row in rows] == ["FCFS", "BR-H {40}", "one"]
    assert rows[0]["paper"] == "" and rows[0]["difference"] == ""
    assert (rows[1]["difference"], rows[1]["against"], rows[1]["quick"]) == ("-10.5", "FCFS", "false")


def test_csv_has_every_number_in_full():
    _, second, third = list(csv.reader(io.StringIO(findings.csv_text(made()))))[1:]
    numbers = ["40-50", "2.0", "1.5", "2.5", "-10.5", "-11.0", "-10.0", "FCFS", "3", "false"]
    assert second == ["br-made", "BR-H {40}", "idle_share & more", "%", *numbers]
    assert third[4:] == ["2", "3.0", "3.0", "3.0", "", "", "", "", "3", "false"]


def test_a_table_without_comparisons_has_no_column_of_differences():
    alone, compared = made().findings.rows[2], made().findings.rows[1]
    assert findings.cells([alone]) == [["case", "quantity", "unit", "paper", "ours"], ["one", "exact", "", "2", "3.00 ±0"]]
    assert [row[-1] for row in findings.cells([alone, compared])] == ["difference", "", "-10.5 ±0.50 vs FCFS"]


def test_intervals_are_explained_as_they_were_made():
    assert findings.intervals_sentence(replace(made(), seeds=1)) == "One replicate: no intervals."
    own = replace(made().findings, intervals="± is a band.", claims=[Claim("it is high", True, "9")])
    assert findings.intervals_sentence(replace(made(), findings=own)) == "± is a band."
    assert "  holds: it is high; ours: 9" in findings.text_lines(replace(made(), findings=own))
    assert not any("claim" in line for line in findings.text_lines(replace(made(), findings=replace(own, claims=[]))))


def test_latex_is_balanced_escaped_and_has_six_cells_a_row():
    text = findings.latex_text(made())
    assert text.count(r"\begin{tabular}") == text.count(r"\end{tabular}") == 1
    body = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert all(len(re.split(r"(?<!\\)&", line)) == 6 for line in body)
    assert r"idle\_share \& more" in text
    assert r"\{40\}" in text
    bare = "\n".join(line for line in text.splitlines() if not line.startswith("%"))
    bare = re.sub(r"\\[\\&%$#_{}]", "", bare)
    assert bare.count("{") == bare.count("}")
    assert bare.count("$") % 2 == 0
    assert not re.search(r"[&%#_](?<!&)", bare.replace(r"\begin{tabular}", ""))


def test_latex_counts_one_replicate_in_the_singular():
    assert findings.latex_text(replace(made(), seeds=1)).splitlines()[0].endswith(", 1 replicate")


def test_json_has_no_nan():
    found = json.loads(json.dumps(findings.json_object(made(nan=True)), allow_nan=False))
    assert found["rows"][0]["ours"]["value"] is None
    assert found["constants"] == [{"name": "C", "value": "60 ms", "why": "not given"}]


def test_numbers_of_numpy_are_numbers():
    found = made()
    row = Row("two", "exact", "", np.int64(1234), Interval(np.float64(3.0), 3.0, 3.0))
    claim = Claim("it is a NumPy answer", np.bool_(True), "1")
    given = replace(found, findings=replace(found.findings, rows=[row], claims=[claim]))
    written = findings.json_object(given)
    assert (written["rows"][0]["paper"], written["claims"][0]["holds"]) == (1234, True)
    assert findings.cells([row])[1][3] == "1,234"
