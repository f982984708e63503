"""A file that a command reads and writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from evenstep.errors import InputError
from evenstep.in_use import one_command, reads, writes


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "trace.csv"
    path.write_text("1,2\n")
    return path


def test_a_file_that_is_read_first_is_not_written(file):
    with one_command():
        reads(file)
        with pytest.raises(InputError, match=r"^--out: file is .*trace\.csv'; expected a file that the command does not"):
            writes(file, "--out")


def test_a_file_that_will_be_written_is_not_read_under_any_name(file):
    link = file.with_name("link.csv")
    link.symlink_to(file)
    with one_command():
        writes(file, "--out")
        with pytest.raises(InputError, match=r"^--out: file is .*link\.csv"):
            reads(link)


def test_devices_new_files_and_names_that_no_file_can_have_pass(tmp_path):
    with one_command():
        for path in (Path("/dev/null"), tmp_path / "new.html", tmp_path, Path("a\0b")):
            reads(path)
            writes(path)


def test_a_command_knows_nothing_of_the_one_before_and_outside_of_commands_nothing_is_refused(file):
    with one_command():
        writes(file)
    with one_command():
        reads(file)
    writes(file)
    reads(file)


def test_a_long_file_is_told_once_before_it_is_read(file, monkeypatch):
    monkeypatch.setattr("evenstep.in_use.LONG", 4)
    said: list[str] = []
    with one_command(said.append):
        reads(file)
        reads(file)
    assert said == ["reading trace.csv, 0 MB"]
