"""`evenstep replay`."""

from __future__ import annotations

import json
from pathlib import Path

from evenstep.cli.main import main

LOG = str(Path(__file__).parents[1] / "workload" / "samples" / "decision_log.jsonl")


def test_a_log_is_replayed_and_said_to_be_the_same(capsys):
    assert main(["replay", LOG]) == 0
    assert "every decision is the same" in capsys.readouterr().out


def test_another_policy_shows_the_first_difference_and_is_no_failure(capsys):
    assert main(["replay", LOG, "--policy", "throttled:threshold=1", "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["is_changed"] and found["policy"] == "throttled:threshold=1"
    assert main(["replay", LOG, "--policy", "weighted"]) == 0


def test_a_log_that_was_tampered_with_is_a_failure(tmp_path, capsys):
    lines = Path(LOG).read_text().splitlines()
    place = next(n for n, line in enumerate(lines) if '"round"' in line)
    lines[place] = lines[place].replace('"1":"a"', '"1":"b"')
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(lines) + "\n")
    assert main(["replay", str(path)]) == 1
    out = capsys.readouterr().out
    assert "first difference: decision 0" in out and "recorded: 1 waiting, sent 1 -> b" in out
    assert "what the policy saw in the replay, after the event " in out
    assert "worker  KV tokens  running  queued  slots offered" in out and "waiting request" in out


def test_a_decision_that_does_not_differ_is_shown_when_asked_for(capsys):
    assert main(["replay", LOG, "--decision", "1", "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["decisions"] == 2 and found["difference"] is None
    assert {w["worker"] for w in found["seen"]["workers"]} == {"a", "b"} and found["seen"]["waiting"]
    assert main(["replay", LOG, "--decision", "1"]) == 0
    assert "every decision up to this one is the same" in capsys.readouterr().out
    assert main(["replay", LOG, "--decision", "1000"]) == 2
    assert "--decision is 1000; expected one of the log's decisions, 0 to 9." in capsys.readouterr().err


def test_a_log_whose_writer_was_killed_is_replayed_as_far_as_it_goes_and_said_to_be_cut_off(tmp_path, capsys):
    path = tmp_path / "log.jsonl"
    cut = Path(LOG).read_bytes()[:-30]
    path.write_bytes(cut)
    assert main(["replay", str(path)]) == 0
    out = capsys.readouterr().out
    assert "every decision is the same" in out
    assert f"cut off       {len(cut.rpartition(bytes([10]))[2])} bytes at the end" in out
    assert main(["replay", str(path), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["cut_off"] > 0


def test_bad_input_is_one_line(capsys):
    assert main(["replay", "nothing.evlog"]) == 2
    assert main(["replay", LOG, "--policy", "nosuch"]) == 2
    assert capsys.readouterr().err.count("\n") == 2
