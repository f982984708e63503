"""``evenstep compare``."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from pathlib import Path

import pytest

from evenstep.cli.main import main, parser_of
from evenstep.experiments import compare as comparing

SMALL = ["--workers", "4", "--slots", "8", "--pool", "32", "--limit", "300"]
FIELDS = {
    "policy", "requests", "output_tokens", "digest", "idle_share", "idle_time_share", "imbalance_envelope_tokens",
    "imbalance_spread_tokens", "tokens_per_s", "full_slot_tokens_per_s", "makespan_s", "tpot_mean_s", "tpot_p95_s",
    "ttft_p95_s", "mean_wait_s", "oldest_wait_s", "energy_busy_idle_j", "energy_step_average_j", "window", "versus_first",
}  # fmt: skip


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
    assert (
        main(["compare", "sample:azure-conv", *SMALL, "--policy", "jsq", "--policy", "fcfs", "--seeds", "2"])
        == 0
    )
    out = capsys.readouterr().out
    lines = [line for line in out.splitlines() if not line.startswith("compiling kernels")]
    assert lines[0].startswith("policy") and "idle" in lines[0]
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
        (["--worker-speeds", "17*1"], "worker_speeds is '17*1'; expected at most 16 numbers"),
        (["--worker-speeds", "uniform:2:1"], "worker_speeds is 'uniform:2:1'"),
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
        (["--law", "piecewis"], "Did you mean piecewise?"),
        (["--law", "unequal:share=2"], "unequal: share is 2.0; expected a share in 0..1"),
        (["--law", "unequal", "--load", "0.9"], "a linear step-time law to scale to a load"),
        (["--drift", "grow=1"], "Did you mean growth?"),
        (["--outage", "5"], "expected STEP:WORKER"),
        (["--outage", "5:16"], "a worker in 0..15"),
        (["--slots", "72,36"], "or 16 of them"),
        (["--sync-s", "-1"], "sync_s is -1"),
        (["--kv-reserve", "-1"], "--kv-reserve is -1"),
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
    path.write_text(
        "num_prefill_tokens,num_decode_tokens\n" + "".join(f"{5 + i},{1 + i % 4}\n" for i in range(40))
    )
    words = ["compare", str(path), "--policy", "jsq", "--seeds", "1", "--format", "json"]
    assert main([*words, "--arrivals", "timed"]) == 2
    assert "--rate" in capsys.readouterr().err
    assert main([*words, "--rate", "5"]) == 0
    assert "Poisson" in capsys.readouterr().out


BAD_POLICIES = {
    "greedy": ("RoutingDecision(np.zeros(view.waiting_id.size, np.int64))", "over capacity"),
    "lost": ("RoutingDecision(np.full(view.waiting_id.size, 99))", "unknown worker 99"),
    "holds": ("RoutingDecision(np.full(view.waiting_id.size, -1))", "expected it to admit at least one"),
    "raises": ("1 / 0", "ZeroDivisionError"),
    "leaves": ("sys.exit(0)", "exits Python with 0"),
    "nothing": ("None", "'NoneType' object"),
    "twice": (
        "RoutingDecision(np.zeros((view.waiting_id.size, 2), np.int64))",
        "one entry a waiting request",
    ),
}


@pytest.mark.parametrize("form", ["table", "json"])
@pytest.mark.parametrize("name", BAD_POLICIES)
def test_a_policy_that_breaks_its_contract_is_exit_2_and_one_line(capsys, tmp_path, name, form, monkeypatch):
    # as on a new machine
    monkeypatch.setattr(comparing, "compile_notice", lambda policies, loops: "compiling kernels")
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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("class Bad:\n", "SyntaxError|IndentationError"),
        ("import sys\nsys.exit(3)\n", "SystemExit: 3"),
        ("import nowhere_at_all\n", "nowhere_at_all"),
        ("class Bad:\n    def __init__(self):\n        1 / 0\npolicy = Bad\n", "ZeroDivisionError"),
        ("class Bad:\n    pass\npolicy = Bad\n", r"a method `route\(view\)`"),
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
def test_a_full_disk_is_exit_2_and_one_line(capsys):
    words = ["compare", "sample:azure-conv", *SMALL, "--policy", "jsq"]
    assert main([*words, "--report", "/dev/full"]) == 2
    told = [capsys.readouterr().err]
    with Path("/dev/full").open("w") as stream:
        seen = subprocess.run(
            [sys.executable, "-c", "import sys; from evenstep.cli.main import main; sys.exit(main())", *words, "--format", "json"],
            stdout=stream, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert seen.returncode == 2, seen.stderr
    for text in (*told, seen.stderr):
        assert text.count("\n") == 1 and "No space left" in text


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
