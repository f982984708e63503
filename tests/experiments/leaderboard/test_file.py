"""BOARD.yaml."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import jsonschema
import pytest
from tests.experiments.leaderboards import BOARD

from evenstep.cli import compare
from evenstep.cli.parts.flags import settled
from evenstep.config.yaml_file import read_yaml
from evenstep.errors import InputError
from evenstep.experiments.leaderboard.file import BELOW, SATURATED, read_board, schema
from evenstep.experiments.settings import CompareSettings

ROOT = Path(__file__).parents[3]


def test_a_saturated_workload_is_ranked_by_time_lost_and_one_with_a_load_by_imbalance(tmp_path):
    (tmp_path / "b.yaml").write_text(BOARD)
    _, workloads, _ = read_board(tmp_path / "b.yaml")
    assert [one.line.metric for one in workloads] == [SATURATED, BELOW]
    assert (SATURATED, BELOW) == ("idle_time_share", "imbalance_envelope_tokens")
    assert workloads[1].line.command == (
        "evenstep compare sample:azure-conv --workers 2 --slots 4 --load 0.7 --limit 60 --seeds 2"
    )


def test_the_command_of_a_workload_has_the_settings_of_the_workload(tmp_path):
    settings = '{workers: 2, slots: [4, 5], groups: [], outages: ["20:0", "60:0:back"], may_hold: true}'
    (tmp_path / "b.yaml").write_text(
        f"version: 1\nworkloads: [{{name: x, source: sample:azure-conv, settings: {settings}}}]\n"
    )
    _, (workload,), _ = read_board(tmp_path / "b.yaml")
    parser = argparse.ArgumentParser()
    compare.command.add_arguments(parser)
    found = settled(parser.parse_args(workload.line.command.split()[2:]), CompareSettings).value
    assert (found.slots, found.outages, found.may_hold) == ([4, 5], ["20:0", "60:0:back"], True)
    assert found == workload.settings


def test_a_source_is_beside_the_board(tmp_path):
    (tmp_path / "b.yaml").write_text("version: 1\nworkloads: [{name: x, source: deep/x.yaml}]\n")
    _, (workload,), _ = read_board(tmp_path / "b.yaml")
    assert workload.settings.source == str(tmp_path / "deep" / "x.yaml")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "limit: 60}}\n  - name",
            "limt: 60}}\n  - name",
            "line 4: workloads[0].settings.limt is 60; expected a known setting. Did you mean limit",
        ),
        ("workers: 2", "workers: 0", "workers is 0; expected an integer >= 1"),
        ("seeds: 2\nwork", "seeds: 1\nwork", "line 2: seeds is 1; expected an integer >= 2"),
        ("seeds: 2, leave", "seeds: 3, leave", "slow.aco.seeds is 3; expected an integer from 2 to 2"),
        ("[timed]", "[time]", "slow.aco.leave_out is 'time'; expected a workload above. Did you mean timed?"),
        ("name: timed", "name: chat", "workloads[1].name is 'chat'; expected each name once"),
        ("limit: 60}}\n  - name", "seeds: 60}}\n  - name", "Replicates stand under `seeds`"),
        ("policies:", "polices:", "key is 'polices'; expected a known key. Did you mean policies or picture?"),
    ],
)
def test_what_does_not_fit_is_named_with_its_place(tmp_path, old, new, said):
    assert old in BOARD
    (tmp_path / "b.yaml").write_text(BOARD.replace(old, new, 1))
    with pytest.raises(InputError) as error:
        read_board(tmp_path / "b.yaml")
    assert said in str(error.value)


def test_a_board_without_workloads_is_refused(tmp_path):
    (tmp_path / "b.yaml").write_text("version: 1\nworkloads: []\n")
    with pytest.raises(InputError, match="at least one workload"):
        read_board(tmp_path / "b.yaml")


def test_the_published_board_fits_its_schema():
    published = json.loads((ROOT / "docs" / "reference" / "schemas" / "leaderboard.json").read_text())
    assert published == json.loads(json.dumps(schema()))
    jsonschema.validate({"version": 1, **read_yaml(ROOT / "examples" / "leaderboard.yaml").values}, published)
