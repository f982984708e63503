"""`evenstep compare --engine`, as a person types it."""

import json
import math

import pytest

from evenstep.cli.main import main
from evenstep.cli.parts import outputs
from evenstep.measure.parquet import read_table

ASKED = [
    "compare",
    "sample:azure-conv",
    "--engine",
    "kv-tokens=20000",
    "--load",
    "0.9",
    "--limit",
    "300",
    "--seeds",
    "2",
]
CONTRACT = (
    "throughput_tokens_per_s",
    "e2e_mean_s",
    "e2e_p50_s",
    "e2e_p99_s",
    "ttft_mean_s",
    "ttft_p99_s",
    "tbt_mean_s",
    "tbt_p99_s",
    "evictions",
    "wasted_tokens",
    "iterations",
)


def test_the_json_has_every_figure_of_the_contract(capsys):
    assert main([*ASKED, "--policy", "sarathi", "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    (one,) = found["policies"]
    assert all(math.isfinite(one[name]) for name in CONTRACT)
    assert found["conditions"]["engine"]["kv_tokens"] == 20000 and len(one["per_seed"]) == 2
    assert one["versus_first"] is None and len(one["digest"]) == 64


def test_a_table_a_report_and_records_are_written(capsys, tmp_path):
    report, records = tmp_path / "engine.html", tmp_path / "records"
    asked = [
        *ASKED,
        "--policy",
        "vllm",
        "--policy",
        "vllm:watermark=0",
        "--report",
        str(report),
        "--records",
        str(records),
    ]
    assert main(asked) == 0
    out = capsys.readouterr().out
    explained = [kind for kind in ("undecided", "mixed", "unstable") if f"verdict {kind}: " in out]
    assert explained == [kind for kind in ("undecided", "mixed", "unstable") if f" {kind}\n" in out]
    assert "E2E p99" in out and "difference to vllm" in out and "+0.0 ±0.0" in out
    page = report.read_text(encoding="utf-8")
    assert page.count("<svg") >= 7 and "http" not in page.replace("http-equiv", "")
    table, head = read_table(records / "0-vllm" / "engine_requests.parquet")
    assert table.request_id.size == 300 and head["digest"]


def test_a_narrow_terminal_gets_every_column_and_long_policies_in_full_below(capsys, monkeypatch):
    long = "vllm:watermark=0.01,reserve_full_prompt=true,long_prefill_token_threshold=0"
    asked = [*ASKED, "--policy", "vllm", "--policy", long]
    assert main(asked) == 0
    whole = capsys.readouterr().out
    monkeypatch.setattr(outputs, "terminal_width", lambda: 80)
    assert main(asked) == 0
    narrow = capsys.readouterr().out
    assert max(map(len, narrow.replace("difference to", "\n").splitlines())) <= 80
    assert f"\n[2] {long}\n" in narrow and "… [2]" in narrow and "…" not in whole
    assert all(heading in narrow for heading in ("throughput", "TBT p99", "iterations", "verdict"))


def test_an_objective_adds_the_share_of_requests_that_meet_it_and_their_goodput(capsys, tmp_path):
    report = tmp_path / "engine.html"
    asked = [*ASKED, "--policy", "vllm", "--policy", "sarathi", "--slo", "ttft=1s,tpot=50ms"]
    assert main([*asked, "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["slo"] == {"ttft_s": 1.0, "tpot_s": 0.05}
    for one in found["policies"]:
        assert 0.0 < one["slo_share"] < 1.0
        for seed in one["per_seed"]:
            good = seed["slo_share"] * seed["requests"]
            assert seed["goodput_requests_per_s"] == pytest.approx(good / seed["makespan_s"])
    assert main([*asked, "--report", str(report)]) == 0
    out, page = capsys.readouterr().out, report.read_text(encoding="utf-8")
    assert "SLO met" in out.splitlines()[0] and out.splitlines()[0].count("goodput") == 1
    assert "SLO met" in page and "goodput" in page
    assert main([*ASKED, "--policy", "vllm"]) == 0
    assert "SLO met" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--slo", "ttlt=2"], "slo: key is 'ttlt'; expected ttft or tpot"),
        (["--engine", "kv-tokens=9"], "--engine is 'kv-tokens=9'; expected one value. Write KEY=VALUE,KEY=VALUE."),
        (["--workers", "3"], "--workers is '3'; expected no such flag with --engine"),
        (["--policy", "sarati"], "Did you mean sarathi"),
        (["--policy", "jsq"], "jsq routes requests to workers: use evenstep compare without --engine"),
        (
            ["--policy", "vllm", "--policy", "vllm"],
            "policy is 'vllm'; expected each policy once, not 2 times",
        ),
        (["--report", "x.pdf"], "--report: file is 'x.pdf'; expected a name that ends in .html"),
        (["--bounds", "constant:9"], "--bounds is 'constant:9'"),
        (["--batch-time", "token-budget:a-s=-1"], "a_s is -1"),
        (["--rate", "2"], "a rate or a load, not both"),
        (["--arrivals", "closed"], "timed or together with --engine"),
        (["--arrivals", "together"], "--arrivals is 'together'; expected timed, since --load is given"),
        (["--baseline", "jsq"], "baseline is 'jsq'"),
    ],
)
def test_bad_input_is_one_line_that_names_it(more, said, capsys):
    assert main([*ASKED, *more]) == 2
    err = capsys.readouterr().err
    assert said in err and "Traceback" not in err


def test_an_unknown_key_of_the_engine_offers_the_nearest(capsys):
    assert main(["compare", "sample:azure-conv", "--engine", "kv-token=9"]) == 2
    assert "Did you mean kv_tokens" in capsys.readouterr().err


def test_who_is_shown_the_truth_or_nothing_is_said_and_what_was_counted(capsys):
    asked = [
        "compare",
        "sample:azure-conv",
        "--engine",
        "kv-tokens=9000",
        "--limit",
        "40",
        "--seeds",
        "1",
        "--rate",
        "5",
    ]
    assert main([*asked, "--policy", "h-sf", "--policy", "a-max", "--policy", "nested-wait"]) == 0
    out = capsys.readouterr().out
    assert "note: h-sf is shown the true output lengths" in out and "note: a-max plans with bounds" in out
    assert "counted in nested-wait: gates broken " in out and "counted in h-sf" not in out
    bounds = ["--bounds", "constant:1/2", "--format", "json"]
    assert main([*asked, *bounds, "--policy", "h-sf", "--policy", "a-min"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["conditions"]["bounds"] == "constant:1/2" and len([n for n in found["notes"] if "--bounds" in n]) == 0
    counted = [one["counted"]["bounds_not_holding"] for one in found["policies"]]
    assert counted[0] == 0 and counted[1] > 0


def test_a_file_with_an_engine_needs_no_flag_and_a_run_that_was_stopped_says_so(capsys, tmp_path):
    path = tmp_path / "engine.yaml"
    path.write_text(
        "version: 1\nsource: sample:azure-conv\nengine: kv-tokens=20000\nlimit: 60\nrate: 3\nseeds: 1\npolicies: [vllm]\n"
    )
    assert main(["compare", "--config", str(path)]) == 0
    assert "run to completion" in capsys.readouterr().out
    assert main(["compare", "--config", str(path), "--until-s", "5"]) == 0
    out = capsys.readouterr().out
    assert "run to completion" not in out and "requests left over (vllm " in out
