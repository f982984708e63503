"""The report of a sweep, and its lines on a terminal."""

from __future__ import annotations

import pytest
from tests.measure.test_swept import run, swept
from tests.report.test_sweep_plots import NUMBERS

from evenstep.errors import InputError
from evenstep.report.sweep_page import page, subtitle, table_lines, until_sentence, write_sweep


def test_the_page_needs_nothing_else_and_has_a_chart_for_each_metric_and_parameter():
    text = page(swept(**NUMBERS, metrics=("idle_share", "oldest_wait_s"), command="evenstep sweep s.yaml"))
    assert text.count("<svg") == 2 * (2 + 1)
    assert "<script" not in text and 'src="' not in text and "http:" not in text and "https:" not in text
    assert "Averaged over pool." in text and "evenstep sweep s.yaml" in text


def test_names_are_escaped():
    text = page(swept(policies=("<b>.py",), command="a < b"))
    assert "<b>.py" not in text and "&lt;b&gt;.py" in text and "a &lt; b" in text


def test_a_hypercube_has_no_heat_maps():
    assert page(swept(**NUMBERS, grid=False)).count("<svg") == 2


def test_the_line_below_the_title_says_how_much_was_run():
    assert subtitle(swept()) == "4 points of a grid, 1 policy, 2 replicates each. Simulated."
    runs = list(swept().runs)
    runs[0] = ((*runs[0][0], run(2, 0.1)),)
    assert "2 to 3 replicates" in subtitle(swept(runs=tuple(runs)))


def test_the_table_has_a_line_for_each_point_and_policy_and_says_what_it_leaves_out():
    lines = table_lines(swept())
    assert lines[0].split() == ["workers", "arrivals", "policy", "runs", "load", "imbalance"]
    assert lines[2].split() == ["8", "timed", "jsq", "2", "10.5", "±6.4"]
    assert len(lines) == 2 + 4
    assert table_lines(swept(), most=1)[-1] == "... and 3 more rows"


def test_a_table_fits_the_terminal_and_every_part_has_parameters_and_policy():
    found = swept(policies=("bf-io:horizon=20,discount=0.9,predictor=survival",), metrics=("idle_share", "oldest_wait_s"))
    lines = table_lines(found, width=66)
    assert max(map(len, lines)) <= 66 and lines[-1] == f"[1] {found.policies[0]}"
    heads = [line for line in lines if line.startswith("workers")]
    assert len(heads) > 1 and all("policy" in head for head in heads)
    assert any("… [1]" in line for line in lines) and "…" not in "".join(table_lines(found))


def test_an_oracle_is_marked():
    found = swept(runs=tuple(((run(0, 0.1, oracle=True), run(1, 0.2, oracle=True)),) for _ in range(4)))
    assert "jsq*" in table_lines(found)[2] and "which no live router has" in table_lines(found)[-1]
    assert "oracle: unreachable live" in page(found)


def test_points_at_which_until_does_not_hold_are_counted():
    assert until_sentence(swept()) == ""
    assert until_sentence(swept(until="ci(x) < 2%")) == "ci(x) < 2% holds at every point."
    open_one = until_sentence(swept(until="ci(x) < 2%", met=(True, False, True, True)))
    assert open_one.startswith("ci(x) < 2% holds at 3 of 4 points;")


def test_a_report_that_cannot_be_written_is_one_clear_error(tmp_path):
    write_sweep(swept(), tmp_path / "r.html")
    assert (tmp_path / "r.html").read_text().startswith("<!doctype html>")
    with pytest.raises(InputError, match="a file that can be written"):
        write_sweep(swept(), tmp_path / "nowhere" / "r.html")
