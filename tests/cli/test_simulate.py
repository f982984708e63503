"""``evenstep simulate``."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from evenstep.cli import simulate as module
from evenstep.cli.main import main

SMALL = ["simulate", "sample:azure-conv", "--workers", "4", "--slots", "8", "--pool", "32", "--limit", "120"]


def test_the_table_names_the_policy_every_shown_metric_and_the_digest(capsys):
    assert main([*SMALL, "--policy", "least-load"]) == 0
    out = capsys.readouterr().out
    assert "least-load" in out
    for name in module.SHOWN:
        assert name in out
    assert "digest" in out


def test_prefix_hits_are_shown_where_caches_are_looked_at(capsys):
    sample = Path(__file__).parents[1] / "workload" / "samples" / "mooncake.jsonl"
    assert main(["simulate", str(sample), "--workers", "2", "--slots", "2", "--prefix-cache-blocks", "40"]) == 0
    out = capsys.readouterr().out
    assert [name for name in module.CACHED if name not in out] == []


def test_json_is_one_object_and_both_doors_give_one_digest(capsys):
    digests = set()
    for door in ("plain", "compiled"):
        assert main([*SMALL, "--policy", "jsq", "--door", door, "--format", "json"]) == 0
        out = capsys.readouterr().out
        assert out.count("\n") == 1
        digests.add(json.loads(out)["digest"])
    assert len(digests) == 1


CLASSES = [
    "simulate",
    "examples/workloads/tenants.yaml",
    "--workers",
    "2",
    "--slots",
    "4",
    "--limit",
    "300",
    "--policy",
    "jsq",
]


def test_each_class_has_a_line_where_a_trace_has_several(capsys, tmp_path):
    assert main([*CLASSES, "--records", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    head = next(i for i, line in enumerate(lines) if line.startswith("class "))
    shown = [line.split() for line in lines[head + 1 : head + 3]]
    requests = pq.read_table(tmp_path / "requests.parquet").to_pydict()
    for number, cells in enumerate(shown):
        mine = [i for i, kind in enumerate(requests["request_class"]) if kind == number]
        tokens = sum(requests["output_tokens"][i] for i in mine)
        waits = [requests["admitted_s"][i] - requests["visible_s"][i] for i in mine]
        assert cells[:3] == [str(number), str(len(mine)), str(tokens)]
        assert cells[4:] == [f"{sum(waits) / len(waits):.4g}", f"{max(waits):.4g}"]


def test_classes_are_the_same_with_and_without_records_and_absent_without_classes(capsys, tmp_path):
    found = []
    for more in ([], ["--records", str(tmp_path / "records")]):
        assert main([*CLASSES, "--format", "json", *more]) == 0
        found.append(json.loads(capsys.readouterr().out)["by_class"])
    assert [one["requests"] for one in found[0]] == [one["requests"] for one in found[1]]
    assert [one["admitted_share"] for one in found[0]] == [one["admitted_share"] for one in found[1]]
    assert main([*SMALL, "--format", "json", "--records", str(tmp_path / "none")]) == 0
    assert "by_class" not in json.loads(capsys.readouterr().out)
    assert "request_class" not in pq.read_table(tmp_path / "none" / "requests.parquet").column_names


def test_of_many_classes_the_table_shows_the_first_ones():
    one = {
        "requests": 1,
        "output_tokens": 1,
        "admitted_share": 0.01,
        "mean_wait_s": 0.0,
        "oldest_wait_s": 0.0,
    }
    lines = module.class_lines([{"request_class": i, **one} for i in range(module.MOST_CLASSES + 7)])
    assert len(lines) == module.MOST_CLASSES + 2 and lines[-1].startswith("and 7 more classes")


def test_records_and_chrome_trace_are_written(capsys, tmp_path):
    words = [
        "--records",
        str(tmp_path / "records"),
        "--chrome-trace",
        str(tmp_path / "run.json"),
        "--samples",
        "16",
    ]
    assert main([*SMALL, *words]) == 0
    written = sorted(p.name for p in (tmp_path / "records").iterdir())
    assert written == ["decisions.parquet", "requests.parquet", "steps.parquet", "workers.parquet"]
    events = json.loads((tmp_path / "run.json").read_text())["traceEvents"]
    tracks = {e["args"]["name"] for e in events if e.get("name") == "thread_name"}
    assert tracks == {f"worker {g}" for g in range(4)}
    assert "chrome trace:" in capsys.readouterr().out


def test_a_chrome_trace_shows_every_group_with_its_own_steps(capsys, tmp_path):
    words = ["--groups", "3,1", "--chrome-trace", str(tmp_path / "run.json")]
    assert main([*SMALL, *words]) == 0
    events = json.loads((tmp_path / "run.json").read_text())["traceEvents"]
    slices = [e for e in events if e["ph"] == "X"]
    assert {e["tid"] for e in slices} == {1, 2, 3, 4}
    for track in range(1, 5):  # one thing at a time on every track
        mine = sorted((e["ts"], e["ts"] + e["dur"]) for e in slices if e["tid"] == track)
        assert all(end <= start + 1e-3 for (_, end), (start, _) in pairwise(mine))
    assert all(e["dur"] >= 0 for e in slices)


def test_a_run_too_long_for_a_chrome_trace_says_so(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MOST_SAMPLED", 10)
    assert main([*SMALL, "--chrome-trace", str(tmp_path / "run.json")]) == 2
    assert "--limit" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["simulate"], "FILE is 'missing'"),
        ([*SMALL, "--samples", "0"], "--samples is 0"),
        ([*SMALL, "--door", "back"], "expected one of auto, plain, compiled"),
        ([*SMALL, "--policy", "jqs"], "Did you mean jsq?"),
    ],
)
def test_bad_input_is_exit_2_and_one_line(capsys, words, message):
    assert main(words) == 2
    seen = capsys.readouterr()
    assert message in seen.err and seen.err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["--policy", "jsq", "--policy", "br-0"],
            "evenstep simulate: --policy is 'br-0'; expected one value. Several policies are compared by evenstep compare.",
        ),
        (["--slo", "ttft=1s", "--slo", "tpot=1s"], "--slo is 'tpot=1s'; expected one value. Write ttft=2s,tpot=50ms."),
        (["--policy", "sarathi"], "sarathi schedules inside one engine: use evenstep compare --engine"),
    ],
)
def test_two_values_of_a_flag_and_a_policy_of_another_kind_are_refused(capsys, words, said):
    assert main([*SMALL, *words]) == 2
    captured = capsys.readouterr()
    assert said in captured.err and captured.err.count("\n") == 1 and captured.out == ""


@pytest.mark.parametrize("name", ["trace.csv", "run.parquet"])
def test_a_chrome_trace_has_the_name_of_a_json_file(capsys, tmp_path, name):
    """It replaced any file, that of the workload too."""
    (tmp_path / name).write_text("prompt,output\n100,5\n")
    assert main(["simulate", str(tmp_path / name), "--chrome-trace", str(tmp_path / name)]) == 2
    assert "expected a name that ends in .json" in capsys.readouterr().err
    assert (tmp_path / name).read_text() == "prompt,output\n100,5\n"


def test_a_run_does_not_write_over_its_workload(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["trace", "convert", "sample:azure-conv", "requests.parquet", "--limit", "60"]) == 0
    log = Path("run.json")
    log.write_text("".join(f'{{"input_toks": 100, "output_toks": 5, "arrival_time": {n}}}\n' for n in range(20)))
    before = log.read_bytes(), Path("requests.parquet").read_bytes()
    for source, words, said in (
        ("run.json", ["--chrome-trace", "run.json"], "--chrome-trace: file is 'run.json'"),
        ("requests.parquet", ["--records", "."], "output: file is 'requests.parquet'"),
    ):
        capsys.readouterr()
        assert main(["simulate", source, "--workers", "2", "--slots", "2", *words]) == 2
        assert f"{said}; expected a file that the command does not read." in capsys.readouterr().err
    assert (log.read_bytes(), Path("requests.parquet").read_bytes()) == before


def test_a_pool_without_effect_is_told_and_does_not_stop_a_script(capsys):
    told = "command line: --pool has no effect: only with saturated arrivals the pool is topped up.\n"
    assert main([*SMALL, "--rate", "5"]) == 0
    assert capsys.readouterr().err.count(told) == 1
    for words in (SMALL, [word for word in [*SMALL, "--rate", "5"] if word not in ("--pool", "32")]):
        assert main(words) == 0
        assert "no effect" not in capsys.readouterr().err


def test_bad_input_is_one_line_where_a_pool_has_no_effect_too(capsys):
    assert main([*SMALL, "--rate", "5", "--policy", "nosuch"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
