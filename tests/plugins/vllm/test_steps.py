from __future__ import annotations

import numpy as np
import pytest

from evenstep.errors import InputError
from evenstep.plugins.vllm.step_file import StepFile
from evenstep.plugins.vllm.steps import read_steps


def write(folder, rank, rows):
    file = StepFile(folder, rank)
    for wave, step, start_s, running, kv_tokens in rows:
        file.add(wave, step, start_s, 0.5, running, kv_tokens, running)
    file.close()


def test_the_same_step_of_every_rank_stands_side_by_side(tmp_path):
    write(tmp_path, 1, [(0, 0, 1.1, 1, 30), (0, 1, 2.1, 0, 0)])
    write(tmp_path, 0, [(0, 0, 1.0, 2, 50), (0, 1, 2.0, 2, 52)])
    steps = read_steps(tmp_path)
    np.testing.assert_array_equal(steps.rank, [0, 1])
    np.testing.assert_array_equal(steps.load, [[50, 30], [52, 0]])
    np.testing.assert_array_equal(steps.running, [[2, 1], [2, 0]])
    np.testing.assert_array_equal(steps.produced, [[2, 1], [2, 0]])
    assert steps.alone == 0


def test_steps_in_which_nobody_works_are_left_out(tmp_path):
    write(tmp_path, 0, [(0, 0, 1.0, 0, 0), (0, 1, 2.0, 1, 5)])
    write(tmp_path, 1, [(0, 0, 1.0, 0, 0), (0, 1, 2.0, 0, 0)])
    np.testing.assert_array_equal(read_steps(tmp_path).load, [[5, 0]])


def test_steps_that_one_rank_lacks_are_counted_and_left_out(tmp_path):
    write(tmp_path, 0, [(0, 0, 1.0, 1, 5), (0, 1, 2.0, 1, 6), (1, 0, 3.0, 1, 7)])
    write(tmp_path, 1, [(0, 0, 1.0, 1, 5), (1, 0, 3.0, 1, 8)])
    steps = read_steps(tmp_path)
    np.testing.assert_array_equal(steps.load, [[5, 5], [7, 8]])
    assert steps.alone == 1


def test_a_restarted_group_is_not_mixed_up_with_its_former_life(tmp_path):
    for rank in range(2):
        write(tmp_path, rank, [(0, 0, 1.0, 1, 5), (0, 1, 2.0, 1, 6), (0, 0, 9.0, 1, 50)])
    np.testing.assert_array_equal(read_steps(tmp_path).load[:, 0], [5, 6, 50])


def test_a_window_holds_the_steps_that_begin_in_it(tmp_path):
    write(tmp_path, 0, [(0, n, 1.0 + n, 1, n) for n in range(5)])
    np.testing.assert_array_equal(read_steps(tmp_path).between(2.0, 4.0).load, [[1], [2]])


def test_a_folder_without_steps_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"expected the step files of a barrier group"):
        read_steps(tmp_path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "header is ''"),
        ("rank,wave,step,start_s,seconds,running,kv_tokens,produced\n0,1,x\n", "line 2: line is"),
        ("rank,wave,step,start_s,seconds,running,kv_tokens,produced\n7\n", "line 2: line is '7'; expected 8 finite numbers"),
        (
            "rank,wave,step,start_s,seconds,running,kv_tokens,produced\n0,0,nan,1,1,1,1,1\n",
            "line 2: line is '0,0,nan,1,1,1,1,1'; expected 8 finite numbers",
        ),
        ("rank,wave,step,start_s,seconds,running,kv_tokens,produced\n0,0,0,1,1,1,1,\xff\n", "line 2: line is"),
        ("rank,wave,step,start_s,seconds,running,kv_tokens,produced\n", "steps is 0"),
    ],
)
def test_a_file_that_is_no_step_file_is_refused_with_its_line(tmp_path, text, said):
    (tmp_path / "steps-0.csv").write_text(text, encoding="latin-1")
    with pytest.raises(InputError, match=said):
        read_steps(tmp_path)
