"""The framework of reproductions."""

from __future__ import annotations

import math

import pytest

from evenstep import names
from evenstep.errors import InputError
from evenstep.experiments.reproduce import QUICK_SEEDS, SEEDS, Experiment, Setting, reproduce
from evenstep.experiments.vocabulary import all_of, clearly, joined, ratio, within
from evenstep.measure.comparison import Interval, paired_difference


def test_every_experiment_binds_a_title_a_source_and_a_function():
    for name in names.members("experiments"):
        found = names.find("experiments", name)
        assert isinstance(found, Experiment)
        assert found.title and found.source


def test_replicates_are_five_or_two_when_quick_unless_told():
    assert (Setting().replicates, Setting(quick=True).replicates) == (SEEDS, QUICK_SEEDS)
    assert Setting(quick=True, seeds=7).replicates == 7
    with pytest.raises(InputError, match="seeds is 0"):
        Setting(seeds=0)


def test_an_unknown_name_offers_the_nearest():
    with pytest.raises(InputError, match="Did you mean bfio-table1"):
        reproduce("bfio-table-1")


def test_ratios_are_taken_replicate_by_replicate():
    found = ratio([2.0, 40.0], [1.0, 20.0])
    assert (found.value, found.low, found.high) == (2.0, 2.0, 2.0)


def test_a_difference_without_a_clear_sign_settles_nothing():
    assert clearly(paired_difference([1.0, 1.1, 0.9], [2.0, 2.1, 2.2]), -1) is True
    assert clearly(paired_difference([1.0, 1.1, 0.9], [2.0, 2.1, 2.2]), +1) is False
    assert clearly(Interval(0.1, -1.0, 1.2), +1) is None
    assert clearly(Interval(5.0, None, None), +1) is None


def test_a_range_is_kept_only_by_the_whole_interval():
    assert within(Interval(0.5, 0.42, 0.58), 0.4, 0.6) is True
    assert within(Interval(0.5, 0.39, 0.58), 0.4, 0.6) is None
    assert within(Interval(0.5, 0.42, 0.61), 0.4, 0.6) is None
    assert within(Interval(0.7, 0.61, 0.79), 0.4, 0.6) is False
    assert within(Interval(0.3, 0.21, 0.39), 0.4, 0.6) is False
    assert within(Interval(0.5, None, None), 0.4, 0.6) is None


def test_a_claim_of_several_cases_holds_if_all_do_and_fails_with_one():
    assert all_of([True, True]) is True
    assert all_of([True, None]) is None
    assert all_of([None, False, True]) is False


def test_tables_are_joined_row_after_row():
    assert joined([{"a": [1], "b": [2]}, {"a": [3], "b": [4]}]) == {"a": [1, 3], "b": [2, 4]}
    assert math.isfinite(sum(joined([{"a": [1.0]}])["a"]))


def test_a_file_of_the_users_is_an_experiment_too(tmp_path):
    mine = tmp_path / "mine.py"
    mine.write_text(
        "from evenstep.experiments.papers.bf_io.bfio_adversarial import experiment as other\n"
        "from evenstep.experiments.reproduce import Experiment\n"
        "experiment = Experiment('mine', 'nowhere', other.run, most_traces=0)\n"
    )
    found = reproduce(str(mine), Setting(quick=True, seeds=1, processes=1))
    assert (found.title, found.seeds) == ("mine", 1)
