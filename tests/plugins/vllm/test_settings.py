from __future__ import annotations

from pathlib import Path

import pytest

from evenstep.errors import InputError
from evenstep.plugins.vllm.settings import Recording, rank_of, recording


def test_nothing_is_recorded_unless_a_folder_is_named():
    assert recording({"PATH": "/bin"}) is None
    assert recording({"EVENSTEP_STEPS_FOLDER": ""}) is None


def test_folder_and_rank_come_from_the_environment():
    assert recording({"EVENSTEP_STEPS_FOLDER": "/a"}) == Recording(Path("/a"), -1)
    assert recording({"EVENSTEP_STEPS_FOLDER": "/a", "EVENSTEP_STEPS_RANK": "3"}) == Recording(Path("/a"), 3)


@pytest.mark.parametrize("rank", ["-1", "one", "1.0"])
def test_a_rank_that_is_none_is_refused_by_name(rank):
    with pytest.raises(InputError, match=f"EVENSTEP_STEPS_RANK is '{rank}'; expected an integer >= 0"):
        recording({"EVENSTEP_STEPS_FOLDER": "/a", "EVENSTEP_STEPS_RANK": rank})


def test_a_rank_without_a_folder_is_refused():
    with pytest.raises(InputError, match="EVENSTEP_STEPS_FOLDER is 'missing'"):
        recording({"EVENSTEP_STEPS_RANK": "0"})


def test_a_misspelt_variable_is_refused_with_the_nearest_name():
    with pytest.raises(InputError, match="Did you mean EVENSTEP_STEPS_FOLDER"):
        recording({"EVENSTEP_STEPS_FOLDR": "/a"})


@pytest.mark.parametrize(
    ("asked", "launched", "is_parallel", "rank"),
    [(5, 1, True, 5), (-1, 1, True, 1), (-1, 0, True, 0), (-1, 2, False, 2), (-1, 0, False, 77)],
)
def test_the_rank_is_as_configured_else_as_launched_else_the_process(asked, launched, is_parallel, rank):
    assert rank_of(Recording(Path("/a"), asked), launched, is_parallel, pid=77) == rank
