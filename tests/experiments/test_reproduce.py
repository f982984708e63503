"""The framework of reproductions."""

from __future__ import annotations

import pytest

from evenstep import names
from evenstep.errors import InputError
from evenstep.experiments.reproduce import QUICK_SEEDS, SEEDS, Experiment, Setting, reproduce
from evenstep.report.findings import cells


def test_every_experiment_binds_a_title_a_source_and_a_function():
    for name in names.members("experiments"):
        found = names.find("experiments", name)
        assert isinstance(found, Experiment)
        assert found.title and found.source


def test_a_function_under_a_title_and_a_source_is_the_experiment_it_runs(tmp_path):
    mine = tmp_path / "mine.py"
    mine.write_text(
        "from evenstep.experiments import vocabulary as ex\n"
        "@ex.experiment('my title', 'my place', most_traces=0)\n"
        "def experiment(setting):\n"
        "    return ex.Findings([ex.row('case', 'size', '', [1.0])], [], [], 'none', 'nothing', {}, lambda figure: None)\n"
    )
    found = reproduce(str(mine), Setting(quick=True, seeds=1))
    assert (found.title, found.source, found.findings.rows[0].ours.value) == ("my title", "my place", 1.0)
    with pytest.raises(InputError, match="makes its own instance"):
        reproduce(str(mine), Setting(traces=("x.csv",)))


def test_replicates_are_five_or_two_when_quick_unless_told():
    assert (Setting().replicates, Setting(quick=True).replicates) == (SEEDS, QUICK_SEEDS)
    assert Setting(quick=True, seeds=7).replicates == 7
    with pytest.raises(InputError, match="seeds is 0"):
        Setting(seeds=0)


def test_an_unknown_name_offers_the_nearest():
    with pytest.raises(InputError, match="Did you mean bfio-table1"):
        reproduce("bfio-table-1")


def test_a_file_of_the_users_is_an_experiment_too(tmp_path):
    mine = tmp_path / "mine.py"
    mine.write_text(
        "from evenstep.experiments.papers.bf_io.bfio_adversarial import experiment as other\n"
        "from evenstep.experiments.reproduce import Experiment\n"
        "experiment = Experiment('mine', 'nowhere', other.run, most_traces=0)\n"
    )
    found = reproduce(str(mine), Setting(quick=True, seeds=1, processes=1))
    assert (found.title, found.seeds) == ("mine", 1)
    mine.write_text("experiment = 3\n")
    with pytest.raises(InputError, match="experiment is '3'; expected an Experiment"):
        reproduce(str(mine))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bfio-table1", "bfio-fig4", "br-sweep"])
def test_a_trace_without_imbalance_has_ratios_without_a_value(name, tmp_path):
    trace = tmp_path / "alike.csv"
    trace.write_text("prompt_tokens,output_tokens\n" + "10,1\n" * 400)
    found = reproduce(name, Setting(quick=True, seeds=1, processes=1, traces=(str(trace),)))
    assert not any(claim.holds for claim in found.findings.claims)
    assert any(cell == "-" for row in cells(found.findings.rows) for cell in row)
