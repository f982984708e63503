from __future__ import annotations

import os

import pytest

from evenstep.errors import InputError
from evenstep.plugins.vllm.step_file import StepFile


def test_each_step_is_a_line_that_is_there_at_once(tmp_path):
    file = StepFile(tmp_path / "new", 3)
    file.add(0, 7, 1000.25, 0.0421, 2, 350, 1)
    text = (tmp_path / "new" / "steps-3.csv").read_text()
    assert text.splitlines() == [
        "rank,wave,step,start_s,seconds,running,kv_tokens,produced",
        "3,0,7,1000.250000,0.042100,2,350,1",
    ]
    file.close()


def test_a_restarted_engine_goes_on_in_its_file(tmp_path):
    for step in range(2):
        file = StepFile(tmp_path, 0)
        file.add(0, step, 1.0, 0.5, 1, 10, 1)
        file.close()
    assert [line[:5] for line in (tmp_path / "steps-0.csv").read_text().splitlines()] == [
        "rank,",
        "0,0,0",
        "0,0,1",
    ]


def test_two_engines_of_one_rank_are_refused(tmp_path):
    first = StepFile(tmp_path, 0)
    with pytest.raises(InputError, match="rank is 0; expected a rank no other process records"):
        StepFile(tmp_path, 0)
    first.close()


def test_a_folder_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "a").write_text("")
    with pytest.raises(InputError, match="expected a folder to write in"):
        StepFile(tmp_path / "a", 0)


def test_a_line_that_only_a_part_of_has_room_is_told_too(tmp_path, monkeypatch, capsys):
    file, write = StepFile(tmp_path, 0), os.write
    monkeypatch.setattr(os, "write", lambda handle, data: write(handle, data[:5]))
    file.add(0, 0, 1.0, 0.5, 1, 10, 1)
    assert "No space left on device" in capsys.readouterr().err
    assert len(file.path.read_text().splitlines()) == 1


def test_a_full_disk_loses_steps_and_not_the_engine(tmp_path, monkeypatch, capsys):
    def full(handle, data):
        if room[0] == 0:
            raise OSError(28, "No space left on device")
        return write(handle, data[: room.pop(0)])

    file, write, room = StepFile(tmp_path, 0), os.write, [5, 0, 99]
    monkeypatch.setattr(os, "write", full)
    for step in range(2):
        file.add(0, step, 1.0, 0.5, 1, 10, 1)  # only a part of the first has room
    room.remove(0)
    file.add(0, 2, 1.0, 0.5, 1, 10, 1)
    assert [line[:5] for line in file.path.read_text().splitlines()] == ["rank,", "0,0,2"]
    assert capsys.readouterr().err.count("No space left on device; steps are lost until there is room") == 1
    file.close()


def test_a_file_that_had_no_room_for_its_header_gets_it_later(tmp_path, monkeypatch):
    def full(handle, data):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        file = StepFile(tmp_path, 0)
    file.add(0, 3, 1.0, 0.5, 1, 10, 1)
    assert [line[:5] for line in file.path.read_text().splitlines()] == ["rank,", "0,0,3"]
    file.close()
