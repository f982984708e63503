"""``evenstep plan`` as a user sees it."""

import json

import pytest

from evenstep.cli.main import main

SMALL = "10/5 --rate 1 --overhead-s 1 --per-token-s 0.01 --slots 2 --requests 1000 --seeds 1 --processes 1"


def said(capsys, more="", slo="tpot=2s"):
    assert main(["plan", *SMALL.split(), "--slo", slo, *more.split()]) == 0
    return capsys.readouterr().out


def test_the_table_has_a_row_for_each_policy_and_names_the_least_fleet(capsys):
    out = said(capsys, "--policy jsq --policy br-0 --worker-cost 3.6")
    assert out.startswith("arrivals: lengths by the laws 10/5, Poisson arrivals; 1 requests/s bring 5 output tokens/s\n")
    assert "objective: tpot=2s for 95 % of the requests; 1 replicate\n" in out
    rows = [line.split() for line in out.splitlines() if line.startswith(("jsq", "br-0"))]
    assert [row[:2] for row in rows] == [["jsq", "2"], ["br-0", "2"]]
    workers = int(rows[0][2])
    assert rows[0][-1] == f"{workers * 3.6 / (3600 * 5) * 1e6:.0f}"
    assert "s, no prefill" in out
    assert f"Least: {workers} workers, " in out


def test_more_slots_with_a_smaller_fleet_say_what_the_others_need(capsys):
    out = said(capsys, "--policy jsq --slots 1,2")
    assert "jsq with 1 slot needs " in out
    assert " more (+" in out


def test_prefill_counts_to_the_first_token(capsys):
    assert "no prefill" not in said(capsys, "--policy jsq --prefill-per-token-s 0.001")


def test_a_fleet_that_cannot_be_found_is_explained(capsys):
    out = said(capsys, "--policy jsq --most-workers 3")
    assert "jsq with 2 slots: 3 workers could not keep up even with even loads. Give a larger --most-workers.\n" in out
    assert "Least" not in out
    out = said(capsys, "--policy jsq --most-workers 9", slo="tpot=1.11s")
    assert "jsq with 2 slots: not enough with 9 workers, where 0.0 % of the requests meet the objective.\n" in out


def test_json_has_the_same_figures(capsys):
    found = json.loads(said(capsys, "--policy jsq --format json"))
    (size,) = found["sizes"]
    assert found["smallest"] == 0
    assert size["closed_form_workers"] == 4
    assert [one["workers"] for one in size["tried"]][-2:] == [size["workers"] - 1, size["workers"]]


def test_settings_may_come_from_a_file(capsys, tmp_path):
    file = tmp_path / "plan.yaml"
    file.write_text("version: 1\nsource: 10/5\nrate: 1\nslo: tpot=2s\noverhead_s: 1\nper_token_s: 0.01\nslots: [2]\n")
    argv = ["plan", "--config", str(file), "--requests", "1000", "--seeds", "1", "--processes", "1", "--policy", "jsq"]
    assert main(argv) == 0
    assert "Least: " in capsys.readouterr().out


@pytest.mark.parametrize(("argv", "error"), [("10/5 --rate 1", "--slo is 'missing'"), ("--slo tpot=1 --rate 1", "FILE is")])
def test_a_mistake_is_one_line_and_exit_code_2(capsys, argv, error):
    assert main(["plan", *argv.split()]) == 2
    assert error in capsys.readouterr().err


def test_a_report_is_written_and_its_place_is_said(capsys, tmp_path):
    file = tmp_path / "plan.html"
    assert f"report: {file}" in said(capsys, f"--policy jsq --report {file}")
    assert "Plan of a fleet" in file.read_text()
