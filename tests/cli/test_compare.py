"""``evenstep compare``."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.dispatch.recorded_run import record

from evenstep.cli.main import main, parser_of
from evenstep.experiments import crew
from evenstep.experiments.compare import observed

SMALL = ["--workers", "4", "--slots", "8", "--pool", "32", "--limit", "300"]
FIELDS = {
    "policy",
    "requests",
    "output_tokens",
    "digest",
    "idle_share",
    "idle_time_share",
    "imbalance_envelope_tokens",
    "imbalance_spread_tokens",
    "tokens_per_s",
    "full_slot_tokens_per_s",
    "makespan_s",
    "tpot_mean_s",
    "tpot_p95_s",
    "ttft_p95_s",
    "mean_wait_s",
    "oldest_wait_s",
    "energy_busy_idle_j",
    "energy_step_average_j",
    "window",
    "versus_first",
}


def compare(capsys, *words: str) -> dict:
    assert main(["compare", "sample:azure-conv", *SMALL, *words, "--format", "json"]) == 0
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    return json.loads(out)


def test_json_is_one_object_with_every_field_of_the_contract_in_the_order_asked(capsys):
    found = compare(capsys, "--policy", "least-load", "--policy", "jsq", "--seeds", "2")
    assert [p["policy"] for p in found["policies"]] == ["least-load", "jsq"]
    for policy in found["policies"]:
        assert set(policy) >= FIELDS
    first, second = found["policies"]
    assert first["versus_first"] is None
    difference = second["versus_first"]["idle_share"]
    assert difference["diff"] == pytest.approx(second["idle_share"] - first["idle_share"])
    assert difference["low"] <= difference["diff"] <= difference["high"]
    assert first["requests"] == 300
    assert found["replicates"] == "rotated"


def test_one_seed_has_no_intervals(capsys):
    found = compare(capsys, "--policy", "least-load", "--policy", "jsq", "--seeds", "1")
    assert found["policies"][1]["versus_first"]["makespan_s"]["low"] is None
    assert found["policies"][1]["versus_first"]["makespan_s"]["high"] is None


def test_a_trace_with_too_few_rotations_gets_fewer_replicates_and_says_so_but_not_where_seeds_were_asked_for(
    capsys,
):
    words = [
        "compare",
        "sample:azure-conv",
        "--policy",
        "fcfs",
        "--policy",
        "jsq",
        "--format",
        "json",
        "--limit",
    ]
    for rows, seeds in (("1", [0]), ("2", [0, 1])):
        assert main([*words, rows]) == 0
        seen = capsys.readouterr()
        found = json.loads(seen.out)
        assert found["seeds"] == seeds
        assert (found["policies"][1]["versus_first"]["makespan_s"]["low"] is None) == (rows == "1")
        assert any(note.startswith(f"{rows} replicate") for note in found["notes"])
        assert main([*words, rows, "--seeds", "3"]) == 2
        assert "seeds is 3; expected replicates that differ" in capsys.readouterr().err


def test_the_same_command_gives_the_same_digests(capsys):
    asked = ["--policy", "random", "--seeds", "2"]
    one, two = compare(capsys, *asked), compare(capsys, *asked)
    assert one["policies"][0]["digest"] == two["policies"][0]["digest"]
    other = compare(capsys, *asked, "--seed", "5")
    assert other["policies"][0]["digest"] != one["policies"][0]["digest"]


def test_the_report_says_where_every_setting_comes_from(capsys, tmp_path):
    config = tmp_path / "c.yaml"
    config.write_text("version: 1\nseeds: 1\npolicies: [jsq]\nload: 0.5\nworkers: 99\n")
    found = compare(capsys, "--config", str(config))
    settings = found["settings"]
    assert settings["seeds"] == {"value": 1, "origin": str(config)}
    assert settings["workers"] == {"value": 4, "origin": "command line"}
    assert settings["arrivals"] == {"value": "timed", "origin": "implied"}
    assert settings["overhead_s"] == {"value": 0.0049, "origin": "default"}


def test_every_part_of_the_fleet_matters(capsys):
    asked = ["--policy", "br-0", "--seeds", "1"]
    plain = compare(capsys, *asked)["policies"][0]["digest"]
    seen = {plain}
    for words in (
        ["--law", "piecewise:knots=0:0/4000:0.003/11000:0.012"],
        ["--law", "per-worker:speed=1/0.5"],
        ["--law", "unequal"],
        ["--law", "unequal:share=0.1"],
        ["--worker-speeds", "1,2,0.7"],
        ["--worker-speeds", "uniform:1:2"],
        ["--sync-s", "0.001"],
        ["--drift", "growth=0.25"],
        ["--drift", "growth=3,tokens_per_step=3"],
        ["--drift", "sequence=1/1/0.5"],
        ["--outage", "100:1", "--outage", "300:1:back"],
        ["--kv-tokens", "9000"],
        ["--kv-tokens", "9000", "--kv-reserve", "500"],
        ["--slots", "8,8,4,2"],
    ):
        seen.add(compare(capsys, *asked, *words)["policies"][0]["digest"])
    assert len(seen) == 15
    assert compare(capsys, *asked, "--worker-speeds", "1,0.5")["policies"][0]["digest"] in seen
    assert compare(capsys, *asked, "--law", "linear")["policies"][0]["digest"] == plain
    assert compare(capsys, *asked, "--law", "unequal:share=0")["policies"][0]["digest"] == plain
    assert compare(capsys, *asked, "--slots", "8,8,8,8")["policies"][0]["digest"] == plain


def test_a_load_is_of_the_slots_there_are(capsys):
    def rate(*words):
        found = compare(capsys, "--policy", "jsq", "--seeds", "1", "--load", "0.05", *words)
        return found["policies"][0]["makespan_s"]

    assert rate("--slots", "8,8,8,8") == rate("--slots", "8")
    assert rate("--slots", "8,8,4,4") > 1.2 * rate("--slots", "8")


def test_the_table_has_a_row_a_policy_differences_and_digests(capsys):
    assert main(["compare", "sample:azure-conv", *SMALL, "--policy", "jsq", "--policy", "fcfs", "--seeds", "2"]) == 0
    out = capsys.readouterr().out
    lines = [line for line in out.splitlines() if not line.startswith("compiling kernels")]
    assert lines[0].startswith("policy") and "barrier" in lines[0] and "worth" in lines[0]
    assert lines[2].startswith("jsq") and lines[3].startswith("fcfs")
    assert "difference to jsq, replicate by replicate" in out
    assert "Overload (BF-IO Definition 1" in out
    assert "--report FILE.html" in out
    assert out.count("digest ") == 2


MOONCAKE = Path(__file__).parents[1] / "workload" / "samples" / "mooncake.jsonl"
CACHES = [
    "compare",
    str(MOONCAKE),
    "--workers",
    "2",
    "--slots",
    "2",
    "--seeds",
    "1",
    "--prefix-cache-blocks",
    "40",
]


def test_prefix_hits_are_shown_where_caches_are_looked_at(capsys, tmp_path):
    asked = [*CACHES, "--policy", "jsq", "--policy", "prefix-affinity"]
    report = tmp_path / "r.html"
    assert main([*asked, "--report", str(report)]) == 0
    out = capsys.readouterr().out
    assert "hits" in next(line for line in out.splitlines() if line.startswith("policy"))
    assert "prefix hits" in out and "% of prompt" in report.read_text()
    assert main([*asked, "--format", "json"]) == 0
    for policy in json.loads(capsys.readouterr().out)["policies"]:
        assert policy["prefix_hit_share"] == policy["prefix_hit_tokens"] / policy["prefix_prompt_tokens"] > 0


def test_caches_of_a_trace_without_block_ids_are_refused(capsys):
    assert main(["compare", "sample:azure-conv", "--prefix-cache-blocks", "9", "--policy", "jsq"]) == 2
    assert "prefix_blocks is 'absent'; expected block ids" in capsys.readouterr().err


def test_report_and_records_are_written_and_said(capsys, tmp_path):
    report, records = tmp_path / "r.html", tmp_path / "records"
    words = ["--policy", "jsq", "--seeds", "2", "--report", str(report), "--records", str(records)]
    assert main(["compare", "sample:azure-conv", *SMALL, *words]) == 0
    assert f"report: {report}" in capsys.readouterr().out
    page = report.read_text()
    assert "evenstep compare sample:azure-conv" in page
    assert 'src="http' not in page and 'href="http' not in page
    assert sorted(p.name for p in records.glob("0-jsq/*")) == ["replicate-0", "replicate-1"]
    assert (records / "0-jsq" / "replicate-1" / "requests.parquet").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--workers", "0"], "--workers is 0"),
        (["--slots", "0"], "--slots is 0"),
        (["--seeds", "0"], "--seeds is 0"),
        (["--limit", "0"], "--limit is 0"),
        (["--overhead-s", "-1"], "--overhead-s is -1.0"),
        (["--load", "0"], "--load is 0.0"),
        (["--load", "nan"], "--load is nan"),
        (["--workers", "two"], "--workers is 'two'; expected an integer"),
        (["--groups", "4,4"], "--groups is [4, 4]"),
        (["--worker-speeds", "17*1"], "--worker-speeds is '17*1'; expected at most 16 numbers"),
        (["--worker-speeds", "uniform:2:1"], "--worker-speeds is 'uniform:2:1'"),
        (["--prefix-cache-blocks", "-1"], "--prefix-cache-blocks is -1"),
        (["--groups", "a"], "--groups is 'a'"),
        (["--arrivals", "tmied"], "Did you mean timed?"),
        (["--policy", "jqs"], "Did you mean jsq?"),
        (["--policy", "jsq:tise=lowest"], "Did you mean ties?"),
        (["--policy", "br-h:horizon=20"], "predictor=oracle"),
        (["--policy", "jsq:ties=fair"], "ties is 'fair'; expected one of random, lowest"),
        (["--policy", "jsq:ties"], "Write jsq:key=value"),
        (["--policy", "bf-io:horizon=x"], "horizon is 'x'; expected an integer"),
        (["--policy", "nowhere.py"], "expected an existing Python file"),
        (["--baseline", "fcfs", "--policy", "jsq"], "expected one of the policies compared"),
        (["--arrivals", "closed"], "Give --users and --think-s"),
        (["--report", "/nowhere/at/all/r.html"], "/nowhere/at/all"),
        (["--sedes", "2"], "Did you mean --seeds"),
        (["--config", "nowhere.yaml"], "expected a readable file"),
        (["--format-name", "azuer"], "Did you mean azure"),
        (["--format-name", "azure:limit=5"], "azure: option is 'limit'; expected a known option"),
        (["--law", "piecewis"], "Did you mean piecewise?"),
        (["--law", "unequal:share=2"], "unequal: share is 2.0; expected a share in 0..1"),
        (["--law", "unequal", "--load", "0.9"], "a linear step-time law to scale to a load"),
        (["--drift", "growth=3,tokens_per_step=3", "--load", "0.9"], "a drift of one token a step to scale to a load"),
        (["--drift", "grow=1"], "Did you mean growth?"),
        (["--outage", "5"], "expected STEP:WORKER"),
        (["--outage", "5:16"], "a worker in 0..15"),
        (["--slots", "72,36"], "or 16 of them"),
        (["--sync-s", "-1"], "--sync-s is -1"),
        (["--kv-reserve", "-1"], "--kv-reserve is -1"),
        (["--kv-reserve", "5"], "Give --kv-tokens"),
        (["--prefill-base-s", "1"], "Give --load or --rate"),
        (["--prefill-per-token-s", "1", "--users", "3"], "Give --load or --rate"),
        (["--prefill-budget", "5", "--load", "0.5"], "Give --prefillers"),
    ],
)
def test_bad_input_is_exit_2_and_one_line(capsys, words, message):
    assert main(["compare", "sample:azure-conv", "--limit", "20", *words]) == 2
    seen = capsys.readouterr()
    assert seen.out == ""
    assert seen.err.count("\n") == 1
    assert message in seen.err


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("empty.csv", b"", "empty.csv"),
        ("header.csv", b"TIMESTAMP,ContextTokens,GeneratedTokens\n", "header.csv"),
        ("binary.csv", bytes(range(256)) * 4, "binary.csv"),
        (
            "negative.csv",
            b"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,-5,3\n",
            "ContextTokens",
        ),
        (
            "nan.csv",
            b"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,nan,3\n",
            "ContextTokens",
        ),
        (
            "short.csv",
            b"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,5\n",
            "short.csv",
        ),
    ],
)
def test_a_bad_file_is_exit_2_and_one_line(capsys, tmp_path, name, content, message):
    path = tmp_path / name
    path.write_bytes(content)
    assert main(["compare", str(path), "--policy", "jsq"]) == 2
    seen = capsys.readouterr()
    assert seen.out == "" and seen.err.count("\n") == 1
    assert message in seen.err


def test_timed_arrivals_on_a_length_list_need_a_rate(capsys, tmp_path):
    path = tmp_path / "lengths.csv"
    path.write_text("num_prefill_tokens,num_decode_tokens\n" + "".join(f"{5 + i},{1 + i % 4}\n" for i in range(40)))
    words = ["compare", str(path), "--policy", "jsq", "--seeds", "1", "--format", "json"]
    assert main([*words, "--arrivals", "timed"]) == 2
    assert "--rate" in capsys.readouterr().err
    assert main([*words, "--rate", "5"]) == 0
    assert "Poisson" in capsys.readouterr().out


BAD_POLICIES = {
    "greedy": ("RoutingDecision(np.zeros(view.waiting_id.size, np.int64))", "over capacity"),
    "lost": ("RoutingDecision(np.full(view.waiting_id.size, 99))", "unknown worker 99"),
    "raises": ("1 / 0", "ZeroDivisionError"),
    "leaves": ("sys.exit(0)", "exits Python with 0"),
    "nothing": ("None", "route answers NoneType; expected a RoutingDecision"),
    "twice": (
        "RoutingDecision(np.zeros((view.waiting_id.size, 2), np.int64))",
        "one entry a waiting request",
    ),
}


@pytest.mark.parametrize("form", ["table", "json"])
@pytest.mark.parametrize("name", BAD_POLICIES)
def test_a_policy_that_breaks_its_contract_is_exit_2_and_one_line(capsys, tmp_path, name, form, monkeypatch):
    # as on a new machine
    monkeypatch.setattr(crew, "compile_notice", lambda: "kernels run as plain Python")
    answer, message = BAD_POLICIES[name]
    bad = tmp_path / f"{name}.py"
    bad.write_text(
        "import sys\nimport numpy as np\nfrom evenstep import RoutingDecision\n"
        f"class Bad:\n    def route(self, view):\n        return {answer}\n"
        "policy = Bad\n"
    )
    assert main(["compare", "sample:azure-conv", *SMALL, "--policy", str(bad), "--format", form]) == 2
    seen = capsys.readouterr()
    assert seen.err.count("\n") == 1 and message in seen.err


HOLDS = (
    "import numpy as np\nfrom evenstep import RoutingDecision\n"
    "class Holds:\n    def route(self, view):\n        return RoutingDecision(np.full(view.waiting_id.size, -1))\n"
    "policy = Holds\n"
)

ONCE = """
import numpy as np
from evenstep import RoutingDecision

class Once:
    def route(self, view):
        worker, free = np.full(view.waiting_id.size, -1), view.free_slots.copy()
        if view.seed == {seed} and view.running.sum() == 0 and 0 in view.waiting_id:
            return RoutingDecision(worker)
        for i in range(worker.size):
            if free.max() > 0:
                worker[i] = free.argmax()
                free[worker[i]] -= 1
        return RoutingDecision(worker)

policy = Once
"""


@pytest.mark.parametrize("seed", [0, 1])
def test_a_policy_that_holds_in_one_replicate_only_is_told_of_and_counted(seed, capsys, tmp_path):
    policy = tmp_path / "once.py"
    policy.write_text(ONCE.format(seed=seed))
    words = ["compare", "sample:azure-conv", "--workers", "2", "--slots", "4", "--limit", "40", "--seeds", "2"]
    words += ["--policy", str(policy)]
    assert main(words) == 0
    assert "once.py held requests that fit a worker which ran nothing, at 1 of " in capsys.readouterr().out
    assert main([*words, "--format", "json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["policies"]
    assert [one["held_decisions"] for one in found["per_seed"]] == [1 - seed, seed] and found["held_decisions"] == 0.5


def test_a_policy_that_holds_what_fits_an_idle_worker_is_told_of_and_may_hold_lets_it(capsys, tmp_path):
    policy = tmp_path / "holds.py"
    policy.write_text(HOLDS)
    words = ["sample:azure-conv", *SMALL, "--policy", str(policy)]
    assert main(["compare", *words]) == 0
    assert "held requests that fit a worker which ran nothing, at " in capsys.readouterr().out
    assert main(["simulate", *words]) == 0
    assert "held requests that fit a worker which ran nothing, at " in capsys.readouterr().out
    assert main(["compare", *words, "--may-hold"]) == 2
    assert "expected it to admit at least one" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("class Bad:\n", "SyntaxError|IndentationError"),
        ("import sys\nsys.exit(3)\n", "SystemExit: 3"),
        ("import nowhere_at_all\n", "nowhere_at_all"),
        ("class Bad:\n    def __init__(self):\n        1 / 0\npolicy = Bad\n", "ZeroDivisionError"),
        ("class Bad:\n    pass\npolicy = Bad\n", "expected a class with route"),
        ("x = 1\n", "thing is 'policy'"),
    ],
)
def test_a_policy_file_that_is_none_is_exit_2_and_one_line(capsys, tmp_path, text, message):
    bad = tmp_path / f"bad_{abs(hash(text))}.py"
    bad.write_text(text)
    assert main(["compare", "sample:azure-conv", *SMALL, "--policy", str(bad)]) == 2
    seen = capsys.readouterr()
    assert seen.out == "" and seen.err.count("\n") == 1
    assert re.search(message, seen.err)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /dev/full")
def test_a_report_on_a_full_disk_is_exit_2_and_one_line(capsys):
    assert main(["compare", "sample:azure-conv", *SMALL, "--policy", "jsq", "--report", "/dev/full"]) == 2
    text = capsys.readouterr().err
    assert text.count("\n") == 1 and "No space left" in text


@pytest.mark.slow
def test_a_table_on_a_full_disk_is_exit_2_and_one_line():
    words = ["compare", "sample:azure-conv", *SMALL, "--policy", "jsq"]
    with Path("/dev/full").open("w") as stream:
        seen = subprocess.run(
            [
                sys.executable,
                "-m",
                "evenstep",
                *words,
                "--format",
                "json",
            ],
            stdout=stream,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert seen.returncode == 2, seen.stderr
    assert seen.stderr.count("\n") == 1 and "No space left" in seen.stderr


def test_help_shows_every_setting_with_its_meaning():
    text = parser_of("compare").format_help()
    for flag in (
        "--workers",
        "--think-s",
        "--per-token-s",
        "--model-params",
        "--peak-flops",
        "--skip-bad-rows",
        "--records",
    ):
        assert flag in text
    assert "evenstep compare sample:azure-conv" in text


def test_no_figure_is_nan(capsys):
    def walk(value):
        if isinstance(value, dict):
            for inner in value.values():
                walk(inner)
        elif isinstance(value, list):
            for inner in value:
                walk(inner)
        else:
            assert not (isinstance(value, float) and math.isnan(value))

    walk(compare(capsys, "--policy", "jsq", "--load", "0.05", "--seeds", "1"))


def test_a_predictor_that_never_had_enough_to_fit_is_told_of(capsys):
    pytest.importorskip("lightgbm")
    asked = "compare sample:azure-conv --limit 200 --workers 2 --slots 8 --seeds 2 --policy br-h:predictor=learned"
    assert main(asked.split()) == 0
    assert "survival answered in its place" in capsys.readouterr().out


def test_any_csv_is_compared_by_naming_its_columns_on_a_fleet_and_inside_an_engine(capsys, tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("ts,in,out\n" + "".join(f"{10 * i},{50 + i},{8 + i % 5}\n" for i in range(40)))
    named = [
        str(path),
        "--columns",
        "prompt=in,output=out,time=ts,unit=ms",
        "--seeds",
        "1",
        "--format",
        "json",
    ]
    fleet = ["--workers", "2", "--slots", "4", "--arrivals", "timed", "--policy", "jsq"]
    assert main(["compare", *named, *fleet]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["trace"]["format"], found["conditions"]["arrivals"]) == ("columns", "timed")
    assert found["settings"]["format_name"]["origin"] == "command line"
    assert main(["compare", *named, "--engine", "kv-tokens=4000", "--policy", "vllm"]) == 0
    assert json.loads(capsys.readouterr().out)["trace"]["requests"] == 40


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["--report", "x.pdf"],
            "--report: file is 'x.pdf'; expected a name that ends in .html. Print the page",
        ),
        (["--policy", "jsq", "--policy", "jsq"], "policy is 'jsq'; expected each policy once, not 2 times"),
        (
            ["--policy", "sarathi"],
            "sarathi schedules inside one engine: use evenstep compare --engine, or evenstep stability",
        ),
        (
            ["--rate", "2", "--load", "0.9"],
            "--load is 0.9; expected a rate or a load, not both. The rate is 2",
        ),
    ],
)
def test_a_mistake_of_the_command_line_says_what_to_do(capsys, tmp_path, monkeypatch, words, said):
    monkeypatch.chdir(tmp_path)
    assert main(["compare", "sample:azure-conv", *SMALL, *words]) == 2
    captured = capsys.readouterr()
    assert said in captured.err and captured.out == ""
    assert list(tmp_path.iterdir()) == []


def test_an_objective_adds_the_share_of_requests_that_meet_it_and_their_goodput(capsys):
    found = compare(capsys, "--policy", "jsq", "--seeds", "1", "--load", "0.8", "--slo", "ttft=1s,tpot=6ms")
    (jsq,) = found["policies"]
    assert 0.0 < jsq["slo_share"] < 1.0
    assert jsq["goodput_requests_per_s"] == pytest.approx(jsq["slo_share"] * 300 / jsq["makespan_s"])
    assert main(["compare", "sample:azure-conv", *SMALL, "--policy", "jsq", "--seeds", "1", "--slo", "ttft=1"]) == 0
    heads = capsys.readouterr().out.splitlines()[0]
    assert "SLO met" in heads and "goodput" in heads


def test_a_first_token_without_a_prefill_model_says_so_in_its_head(capsys, tmp_path):
    report = tmp_path / "r.html"
    words = [
        "compare",
        "sample:azure-conv",
        *SMALL,
        "--policy",
        "jsq",
        "--seeds",
        "1",
        "--report",
        str(report),
    ]
    assert main(words) == 0
    assert "s, no prefill" in capsys.readouterr().out and "<small>s, no prefill</small>" in report.read_text()
    assert main([*words, "--prefill-base-s", "0.1", "--load", "0.8"]) == 0
    assert "no prefill" not in capsys.readouterr().out and "no prefill" not in report.read_text()
    assert main([*words, "--prefill-per-token-s", "1e-5", "--load", "0.8", "--prefillers", "2"]) == 0
    assert "s, no prefill" in capsys.readouterr().out
    assert main([*words, "--load", "0.8", "--prefillers", "2"]) == 2
    assert "--prefillers is 2; expected 0 where prefill takes no time" in capsys.readouterr().err


@pytest.fixture(scope="module")
def recorded(tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("log") / "decisions.evlog"
    record(path, workers=4, slots=16, requests=200)
    return str(path)


def test_a_decision_log_is_compared_on_its_own_fleet_with_the_observed_run_beside_it(capsys, recorded, tmp_path):
    report = tmp_path / "r.html"
    words = ["compare", recorded, "--policy", "br-0", "--seeds", "1", "--report", str(report)]
    assert main([*words, "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    conditions = found["conditions"]
    assert (conditions["workers"], conditions["slots"], conditions["arrivals"]) == (4, 16, "timed")
    assert conditions["seconds_per_token"] == pytest.approx(1.1e-7, rel=0.1)
    assert found["settings"]["slots"]["origin"] == "decision log"
    assert [p["policy"] for p in found["policies"]] == ["jsq", "br-0"]  # the log's own comes first
    observed = found["observed"]
    assert observed["policy"] == "jsq" and observed["overridden"] == []
    for name in ("tokens_per_s", "makespan_s", "tpot_mean_s"):
        error = observed["error"][name]
        assert abs(error["error"]) < 0.02
        assert error["simulated"] == found["policies"][0]["per_seed"][0][name]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert re.search(r"^observed: jsq .*observed", out, re.M) and "Error of the simulator (simulated jsq" in out
    assert "From the log: 4 workers, 16 slots each" in out
    page = report.read_text()
    assert "badge base'>observed" in page or 'badge base">observed' in page
    assert "Error of the simulator" in page


def test_a_flag_that_would_change_nothing_is_refused_beside_a_log_too(capsys, recorded):
    assert main(["compare", recorded, "--policy", "jsq", "--seeds", "1", "--prefill-budget", "4096"]) == 2
    assert "--prefill-budget is 4096; expected no value here, as it would change nothing" in capsys.readouterr().err


def test_flags_override_what_a_log_says_and_say_so(capsys, recorded):
    assert main(["compare", recorded, "--policy", "jsq", "--seeds", "1", "--workers", "8"]) == 0
    out = capsys.readouterr().out
    assert "Overridden: --workers. The simulated rows are of another fleet or workload than the log's." in out
    words = [
        "--law",
        "linear:overhead-s=0.01,per-token-s=1e-7",
        "--users",
        "8",
        "--think-s",
        "0",
        "--format",
        "json",
    ]
    assert main(["compare", recorded, "--policy", "jsq", "--seeds", "1", *words]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["conditions"]["workers"], found["conditions"]["arrivals"]) == (4, "closed")
    assert found["conditions"]["overhead_s"] == [0.01]
    assert set(found["observed"]["overridden"]) == {"law", "users", "think_s"}


def test_a_flag_that_overrides_a_log_leaves_the_error_of_the_logs_own_fleet(capsys, recorded):
    words = ["compare", recorded, "--policy", "jsq", "--seeds", "1"]
    assert main([*words, "--format", "json"]) == 0
    own = json.loads(capsys.readouterr().out)["observed"]["error"]
    for more in (["--workers", "8"], ["--limit", "20"], ["--overhead-s", "1"], ["--users", "8", "--think-s", "0"]):
        assert main([*words, *more, "--format", "json"]) == 0
        assert json.loads(capsys.readouterr().out)["observed"]["error"] == own, more
    assert main([*words, "--workers", "8"]) == 0
    assert "Error of the simulator (simulated jsq on the log's own fleet, first replicate" in capsys.readouterr().out


def test_a_log_whose_own_fleet_cannot_be_simulated_says_why_there_is_no_error(capsys, recorded, monkeypatch):
    def small(path):
        found = whole(path)
        return replace(found, values={**found.values, "kv_tokens": 1.0})

    whole = observed.from_log
    monkeypatch.setattr(observed, "from_log", small)
    assert main(["compare", recorded, "--policy", "jsq", "--seeds", "1", "--kv-tokens", "100000"]) == 0
    out = capsys.readouterr().out
    assert "No error of the simulator: the log's own fleet cannot be simulated: " in out
    assert "Error of the simulator" not in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            [],
            "Fleet: 2 workers, each with 4 slots; 1 barrier group; a step takes 4.90 ms and 0.110 us for each KV token of the",
        ),
        (["--arrivals", "timed"], "requests arrive at their times."),
        (["--groups", "1,1", "--slots", "4,3"], "Fleet: 2 workers, with 7 slots in all; 2 barrier groups;"),
    ],
)
def test_the_table_says_what_fleet_it_is_of(words, said, capsys):
    assert (
        main(["compare", "sample:azure-conv", "--workers", "2", "--slots", "4", "--limit", "30", "--seeds", "1", *words])
        == 0
    )
    assert said in capsys.readouterr().out


@pytest.mark.parametrize("words", [["--batch-time", "unit"], ["--bounds", "exact"], ["--until-s", "5"]])
def test_a_flag_of_engines_is_refused_without_an_engine(words, capsys):
    assert main(["compare", "sample:azure-conv", *SMALL, *words]) == 2
    assert f"{words[0]} is" in capsys.readouterr().err


def test_requests_that_all_come_at_once_have_no_rate(capsys):
    words = ["--engine", "kv-tokens=20000", "--arrivals", "together", "--limit", "50", "--seeds", "2", "--policy", "vllm"]
    assert main(["compare", "sample:azure-conv", *words]) == 0
    assert "50 requests (all at once)" in " ".join(capsys.readouterr().out.split())
    assert main(["compare", "sample:azure-conv", *words, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["trace"]["requests_per_s"] is None


@pytest.mark.slow
@pytest.mark.parametrize("closed", [">&-", "2>&-"])
def test_output_may_be_closed(closed, tmp_path):
    words = "compare sample:azure-conv --workers 2 --slots 4 --limit 30 --seeds 1 --policy jsq"
    run = f"{sys.executable} -m evenstep {words} {closed}"
    done = subprocess.run(["/bin/sh", "-c", run], check=False, cwd=tmp_path)
    assert done.returncode == 0


def test_records_into_a_folder_without_a_name_are_refused(capsys):
    assert main(["compare", "sample:azure-conv", *SMALL, "--records", ""]) == 2
    assert "folder is 'empty'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--bounds", "nope"], "--bounds: name is 'nope'; expected one of trace, exact, constant"),
        (["--bounds", "constant:5/3"], "low/high is '5/3'; expected 1 <= low <= high"),
        (["--bounds", "bucketed:1/2"], "last edge is 2; expected at least"),
        (["--bounds", "around:inf"], "share is inf; expected a finite number >= 0"),
        (["--engine", "data-parallel=2,balancer=nope"], "balancer is 'nope'; expected a routing policy"),
    ],
)
def test_an_error_in_what_an_engine_is_told_names_it(words, said, capsys):
    engine = [] if "--engine" in words else ["--engine", "kv-tokens=20000"]
    policy = ["--policy", "a-min" if "--bounds" in words else "vllm"]
    assert main(["compare", "sample:azure-conv", "--limit", "40", "--seeds", "1", *engine, *policy, *words]) == 2
    assert said in " ".join(capsys.readouterr().err.split())


def test_options_of_an_engine_without_effect_are_told(capsys):
    words = ["compare", "sample:azure-conv", "--limit", "20", "--seeds", "1", "--policy", "vllm", "--engine"]
    assert main([*words, "balancer=round-robin,news-s=0.5,hold-produced=true,first-token=decode"]) == 0
    said = capsys.readouterr().err.splitlines()
    assert said[:2] == [
        "--engine: balancer has no effect: only ranks have a balancer, see data-parallel.",
        "--engine: news-s has no effect: only ranks have a balancer, see data-parallel.",
    ]
    assert said[2] == "--engine: hold-produced has no effect with first-token=decode."
    assert main([*words, "balancer=round-robin,data-parallel=2"]) == 0
    assert "no effect" not in capsys.readouterr().err
