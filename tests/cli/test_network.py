"""``evenstep network``."""

from __future__ import annotations

import json
import math
import os
import re
import sys

import pytest
from tests.sim.network.networks import EXAMPLES

from evenstep import experiments
from evenstep.cli.main import main
from evenstep.measure.network_records import Live

ORDERS = "fcfs,oldest-task,least-attained,critical-path,longest-path"
LOOP, RYBKO = str(EXAMPLES / "agent-loop.yaml"), str(EXAMPLES / "rybko-stolyar.yaml")


def test_run_prints_orders_engines_and_digests(capsys):
    assert main(["network", "run", LOOP, "--until-s", "30", "--seeds", "2", "--orders", "fcfs,least-attained"]) == 0
    lines = capsys.readouterr().out.splitlines()
    heads = [line.split()[0] for line in lines if line]
    assert {"fcfs", "least-attained", "pool-0", "pool-1", "pool-2", "digest"} <= set(heads)
    assert "Means over 2 replicates" in "\n".join(lines)


def test_a_bad_file_is_refused_before_the_module_that_compiles_is_imported(tmp_path, capsys, monkeypatch):
    path = tmp_path / "net.yaml"
    path.write_text("version: 1\nengines: {pool: {count: 0}}\ntasks: {}\n")
    monkeypatch.setitem(sys.modules, "evenstep.experiments.networks", None)
    monkeypatch.delattr(experiments, "networks", raising=False)
    assert main(["network", "run", str(path)]) == 2
    assert "net.yaml line 2: engines.pool.count is 0; expected an integer >= 1." in capsys.readouterr().err


def test_check_reads_a_pipe_once(capsys):
    """The look at the file before kernels compile took what the pipe had: content was empty."""
    reading, writing = os.pipe()
    os.write(writing, (EXAMPLES / "agent-loop.yaml").read_bytes())
    os.close(writing)
    try:
        assert main(["network", "check", f"/dev/fd/{reading}", "--until-s", "300"]) == 0
    finally:
        os.close(reading)
    assert "simulated to 300" in capsys.readouterr().out


def test_json_is_one_object_with_paired_differences(capsys):
    assert (
        main(["network", "run", LOOP, "--until-s", "30", "--seeds", "2", "--orders", "fcfs,oldest-task", "--format", "json"])
        == 0
    )
    found = json.loads(capsys.readouterr().out)
    assert [one["order"] for one in found["orders"]] == ["fcfs", "oldest-task"]
    assert found["orders"][0]["versus_first"] is None and "task_mean_s" in found["orders"][1]["versus_first"]


def test_check_names_the_virtual_station_and_both_verdicts(capsys):
    assert main(["network", "check", RYBKO, "--until-s", "5000"]) == 0
    out = capsys.readouterr().out
    assert "virtual: A.long + B.long" in out and "overloaded" in out
    assert "by loads: unstable" in out and "simulated to 5,000 s: unstable" in out


def test_check_of_a_trace_without_times_says_that_there_is_no_verdict(tmp_path, capsys):
    path = tmp_path / "net.yaml"
    tasks = "tasks:\n  log: {engine: one, trace: {file: 'sample:claude-code', limit: 20}}\n"
    path.write_text(f"version: 1\nuntil_s: 4000\nengines:\n  one: {{}}\n{tasks}")
    assert main(["network", "check", str(path)]) == 0
    out = capsys.readouterr().out
    assert "no verdict, because all tasks arrive at once" in out and "stable" not in out


def test_check_says_until_when_tasks_arrive(tmp_path, capsys):
    path = tmp_path / "net.yaml"
    call = "{engine: one, prompt: {law: constant, tokens: 500}, output: {law: constant, tokens: 12}}"
    tasks = f"tasks:\n  t: {{arrivals: {{process: constant, requests_per_s: 2}}, count: 101, calls: {{only: {call}}}}}\n"
    path.write_text(f'version: 1\nuntil_s: 500\nengines:\n  one: {{engine: "token-budget=512", batch_time: unit}}\n{tasks}')
    assert main(["network", "check", str(path)]) == 0
    assert "s, tasks arrive until 50.00 s: unstable; calls pile up at one" in capsys.readouterr().out


def test_an_engine_is_not_judged_by_another_whose_name_is_its_own_with_a_number(tmp_path, capsys):
    """Engine gpu was called unstable, as if gpu-2 were its second member; engines of a group are still judged together."""
    path = tmp_path / "net.yaml"
    call = "prompt: {law: constant, tokens: 500}, output: {law: constant, tokens: 12}"
    tasks = "".join(
        f"  t{engine}: {{arrivals: {{process: constant, requests_per_s: {rate}}}, "
        f"calls: {{only: {{engine: {engine}, {call}}}}}}}\n"
        for engine, rate in (("gpu", 0.01), ("gpu-2", 2), ("pair", 4))
    )
    section = 'engine: "token-budget=512", batch_time: unit'
    engines = f"  gpu: {{{section}}}\n  gpu-2: {{{section}}}\n  pair: {{{section}, count: 2}}\n"
    path.write_text(f"version: 1\nuntil_s: 500\nengines:\n{engines}tasks:\n{tasks}")
    assert main(["network", "check", str(path)]) == 0
    rows = {line.split()[0]: line.split()[-1] for line in capsys.readouterr().out.splitlines()}
    assert rows["gpu"] != "unstable" and rows["gpu-2"] == rows["pair"] == "unstable"


def test_check_as_json(capsys):
    assert main(["network", "check", RYBKO, "--until-s", "2000", "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["verdict"] == "unstable" and found["virtual_stations"][0]["load"] == pytest.approx(1.61, abs=0.01)


def test_figures_without_a_value_are_null_in_json_and_what_ends_after_the_stop_is_not_done(tmp_path, capsys):
    """The batch with the first task begins at 0 s and ends at 3 s, after the stop."""
    path = tmp_path / "stopped.yaml"
    path.write_text(
        "version: 1\nuntil_s: 1\nengines: {one: {policy: sarathi, batch_time: 'affine-kv:d0-s=3'}}\n"
        "tasks: {chat: {arrivals: {process: constant, requests_per_s: 10},"
        " calls: {answer: {engine: one, prompt: {law: constant, tokens: 9}, output: {law: constant, tokens: 1}}}}}\n"
    )
    assert main(["network", "run", str(path), "--format", "json"]) == 0
    (order,) = json.loads(capsys.readouterr().out)["orders"]
    (figures,) = order["summaries"]
    assert figures["tasks"] == figures["calls"] == 0 and figures["task_mean_s"] is None
    assert main(["network", "check", str(path), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["engines"] == [{"engine": "one", "load": None}]


def test_a_report_is_written(tmp_path, capsys):
    report = tmp_path / "net.html"
    assert main(["network", "run", LOOP, "--until-s", "20", "--seeds", "1", "--report", str(report)]) == 0
    text = report.read_text()
    assert "Network agent-loop" in text and text.count("<svg") == 2 and "<script" not in text


def test_a_report_shows_which_line_of_its_charts_is_which_engine(tmp_path, capsys):
    """Its caption listed the engines, and nothing told their colours."""
    report = tmp_path / "net.html"
    small = str(EXAMPLES / "rybko-stolyar-small.yaml")
    assert main(["network", "run", small, "--until-s", "20", "--seeds", "1", "--report", str(report)]) == 0
    legend, _, charts = report.read_text().partition('<div class="charts">')
    shown = dict(re.findall(r'<span class="swatch (c\d)"></span>(\w+)</span>', legend))
    assert sorted(shown.values()) == ["one", "two"] and set(re.findall(r'"line (c\d)"', charts)) == set(shown)


def test_a_report_has_tables_in_place_of_lines_wider_than_the_page(tmp_path, capsys):
    report = tmp_path / "net.html"
    asked = ["--orders", "fcfs,least-attained", "--until-s", "20", "--seeds", "2", "--report", str(report)]
    assert main(["network", "run", LOOP, *asked]) == 0
    text = report.read_text()
    orders = text[text.index("<h2>Orders</h2>") : text.index("<h2>Loads and verdicts</h2>")]
    assert "Means over 2 replicates, ± half a 95 % interval. Small: change from fcfs." in orders
    assert re.search(r"<th>task mean<small>s</small></th>.*least-attained</td><td>[^<(]+<br><small>[^<]+ % ±", orders)
    assert text.count("<pre>") == 1  # the command


def test_a_seed_out_of_range_and_an_order_twice_are_refused(capsys):
    assert main(["network", "check", LOOP, "--seed", "-1"]) == 2
    assert "--seed is -1; expected an integer >= 0" in capsys.readouterr().err
    assert main(["network", "check", LOOP, "--seed", str(10**23)]) == 2
    assert f"--seed is {10**23}; expected an integer from 0 to {2**53}" in capsys.readouterr().err
    assert main(["network", "run", LOOP, "--until-s", "1", "--orders", "fcfs,oldest-task,fcfs"]) == 2
    assert "--orders is 'fcfs'; expected each order once" in capsys.readouterr().err


def test_an_engine_without_a_time_for_a_batch_has_no_load(tmp_path, capsys):
    path = tmp_path / "net.yaml"
    call = "{engine: one, prompt: {law: constant, tokens: 3}, output: {law: constant, tokens: 2}}"
    tasks = f"tasks:\n  t: {{arrivals: {{process: constant, requests_per_s: 2}}, calls: {{only: {call}}}}}\n"
    law = "token-budget:c-s=0,a-s=0,b0=0"
    path.write_text(f'version: 1\nuntil_s: 5\nengines:\n  one: {{batch_time: "{law}"}}\n{tasks}')
    assert main(["network", "check", str(path)]) == 0
    assert "one         0      below 1     stable" in capsys.readouterr().out


def test_a_time_that_is_none_is_refused(capsys):
    assert main(["network", "run", LOOP, "--until-s", "0"]) == 2
    assert "--until-s is 0.0; expected a finite number > 0" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--speed", "2"], "--speed is 2.0; expected no value without --live"),
        (["--live", "--report", "x.html"], "--report is 'x.html'; expected no report with --live"),
        (["--seeds", "0"], "--seeds is 0; expected an integer >= 1"),
        (["--seeds", "99999999999999999999"], "--seeds is 99999999999999999999; expected an integer from 1 to"),
        (["--live", "--speed", "0"], "--speed is 0.0; expected a finite number > 0"),
        (["--live", "--orders", "lifo"], "--orders is 'lifo'; expected a known order"),
    ],
)
def test_flags_that_do_not_go_together_are_refused(capsys, words, said):
    assert main(["network", "run", LOOP, "--until-s", "1", *words]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("form", ["table", "json"])
def test_a_live_run_stands_next_to_the_simulated_one(capsys, monkeypatch, form):
    def lived(network, *, traces, seed, speed):
        assert speed == 4.0 and not traces
        mean_s = 1.5 if network.order == "fcfs" else 1.2
        return Live(network.order, seed, 90, 7, 2, {"task_mean_s": mean_s, "task_p95_s": 9.0, "call_mean_s": 0.5})

    monkeypatch.setattr("evenstep.load.live_network.run_live", lived)
    words = ["--until-s", "20", "--live", "--speed", "4", "--orders", "fcfs,least-attained", "--format", form]
    assert main(["network", "run", LOOP, *words]) == 0
    out = capsys.readouterr().out
    if form == "json":
        found = json.loads(out)
        assert [one["order"] for one in found["runs"]] == ["fcfs", "least-attained"]
        assert found["runs"][0]["live"]["unfinished_tasks"] == 7 and found["runs"][0]["simulated"]["task_mean_s"] > 0
        first, _, _, live = found["orders"]
        assert first == {"order": "fcfs", "run": "simulated", "versus_first": None}
        assert (live["order"], live["run"]) == ("least-attained", "live")
        assert live["versus_first"]["task_mean_s"]["value"] == pytest.approx(-0.3)
        return
    live = [line.split() for line in out.splitlines() if line.strip().startswith("live ")]
    assert live == [
        ["live", "1.50", "9.00", "0.500", "90", "7", "2"],
        ["live", "1.20", "9.00", "0.500", "90", "7", "2"],
        ["live", "1.50", "9.00", "0.500"],
        ["live", "1.20", "(-20.0", "%)", "9.00", "(+0.0", "%)", "0.500", "(+0.0", "%)"],
    ]
    assert "Means over 1 replicate; live runs are compared with live ones under fcfs" in out


def test_live_orders_are_compared_seed_by_seed(capsys, monkeypatch):
    def lived(network, *, traces, seed, speed):
        mean_s = {"fcfs": 10.0, "oldest-task": 8.0}[network.order] + 5 * seed + 0.1 * (seed * (network.order != "fcfs"))
        return Live(network.order, seed, 90, 7, 2, {"task_mean_s": mean_s, "task_p95_s": 9.0, "call_mean_s": 0.5})

    monkeypatch.setattr("evenstep.load.live_network.run_live", lived)
    words = ["--until-s", "20", "--live", "--seeds", "2", "--orders", "fcfs,oldest-task", "--format", "json"]
    assert main(["network", "run", LOOP, *words]) == 0
    change = json.loads(capsys.readouterr().out)["orders"][3]["versus_first"]["task_mean_s"]
    assert change["value"] == pytest.approx(-1.95) and -3 < change["low"] < change["high"] < -1


def test_a_live_run_of_one_order_is_compared_with_nothing(capsys, monkeypatch):
    def lived(network, *, traces, seed, speed):
        return Live(network.order, seed, 90, 7, 2, {"task_mean_s": 1.5, "task_p95_s": 9.0, "call_mean_s": 0.5})

    monkeypatch.setattr("evenstep.load.live_network.run_live", lived)
    words = ["network", "run", LOOP, "--until-s", "20", "--live"]
    assert main(words) == 0 and "replicate" not in capsys.readouterr().out
    assert main([*words, "--format", "json"]) == 0 and json.loads(capsys.readouterr().out)["orders"] == []


def test_a_live_run_in_which_no_task_ended_has_no_change(capsys, monkeypatch):
    def lived(network, *, traces, seed, speed):
        mean_s = 1.5 if network.order == "fcfs" else math.nan
        return Live(network.order, seed, 90, 90, 0, {"task_mean_s": mean_s, "task_p95_s": mean_s, "call_mean_s": mean_s})

    monkeypatch.setattr("evenstep.load.live_network.run_live", lived)
    assert main(["network", "run", LOOP, "--until-s", "20", "--live", "--orders", "fcfs,least-attained"]) == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines() if "live " in line][3] == ["live", "-", "-", "-"]


def test_types_of_tasks_have_their_means_under_each_order(capsys):
    words = ["--until-s", "30", "--seeds", "2", "--orders", "fcfs,least-attained"]
    assert main(["network", "run", LOOP, *words]) == 0
    lines = capsys.readouterr().out.splitlines()
    at = next(k for k, line in enumerate(lines) if line.endswith("question mean s"))
    assert lines[at].split() == ["order", "agent", "mean", "s", "question", "mean", "s"]
    assert lines[at + 1].split()[0] == "fcfs" and "%" not in lines[at + 1]
    assert lines[at + 2].split()[0] == "least-attained" and lines[at + 2].count("%") == 2


def test_one_type_of_tasks_has_no_means_by_type(capsys):
    words = ["--until-s", "300", "--seeds", "1", "--orders", "fcfs,oldest-task"]
    assert main(["network", "run", str(EXAMPLES / "fork-join.yaml"), *words]) == 0
    assert "report mean s" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("example", "orders"), [("research-agents", ORDERS), ("nightly-batch", "fcfs,critical-path,longest-path")]
)
def test_the_page_on_networks_shows_what_the_command_prints(example, orders, capsys):
    """The page's table of orders and the lines that follow it are those of its command, up to the engines."""
    page = (EXAMPLES.parents[1] / "docs" / "how-to" / "simulate-a-network.md").read_text(encoding="utf-8")
    words = f"network run examples/networks/{example}.yaml --orders {orders} --seeds 10"
    assert f"evenstep {words}" in page
    assert main([word.replace("examples/networks", str(EXAMPLES)) for word in words.split()]) == 0
    printed = capsys.readouterr().out.split("\nengine ")[0].strip()
    assert printed in page


def test_a_policy_without_the_bounds_it_plans_with_says_so(tmp_path, capsys):
    path = tmp_path / "bounds.yaml"
    call = "{engine: e, prompt: {law: constant, tokens: 9}, output: {law: constant, tokens: 2}}"
    arrivals = "{process: constant, requests_per_s: 1}"
    path.write_text(
        f"version: 1\nuntil_s: 5\nengines: {{e: {{policy: srpt}}}}\ntasks: {{a: {{arrivals: {arrivals}, calls: {{x: {call}}}}}}}\n"
    )
    assert main(["network", "run", str(path), "--seeds", "1"]) == 0
    assert "note: srpt, the policy of e, plans with bounds of the output lengths" in capsys.readouterr().out
