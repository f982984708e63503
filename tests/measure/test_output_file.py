from __future__ import annotations

from pathlib import Path

import pytest

from evenstep.errors import InputError
from evenstep.measure.output_file import make_folder, replacing, write_text

needs_dev_full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")


def test_a_file_is_replaced_whole(tmp_path):
    path = tmp_path / "report.html"
    path.write_text("old")
    with replacing(path) as out:
        out.write(b"new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert [f.name for f in tmp_path.iterdir()] == ["report.html"]


def test_a_name_may_be_as_long_as_the_system_allows(tmp_path):
    path = tmp_path / ("é" * 125 + ".html")
    with replacing(path) as out:
        out.write(b"new")
    assert path.read_text() == "new"


def test_a_new_file_has_the_permissions_any_file_would_have(tmp_path):
    (tmp_path / "plain").write_text("")
    with replacing(tmp_path / "ours"):
        pass
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_replaced_file_keeps_its_permissions(tmp_path):
    path = tmp_path / "private"
    path.touch(0o600)
    with replacing(path) as out:
        out.write(b"new")
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "report.html"
    path.write_text("old")
    with pytest.raises(RuntimeError, match="no luck"), replacing(path) as out:
        out.write(b"half")
        raise RuntimeError("no luck")
    assert path.read_text() == "old"
    assert [f.name for f in tmp_path.iterdir()] == ["report.html"]


def test_a_missing_folder_is_a_clear_error(tmp_path):
    message = r"report.html: file is 'report.html'; .* No such file or directory"
    with pytest.raises(InputError, match=message), replacing(tmp_path / "none" / "report.html"):
        pass


def test_a_link_is_followed(tmp_path):
    (tmp_path / "far").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "far" / "report.html")
    with replacing(tmp_path / "link") as out:
        out.write(b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "far" / "report.html").read_text() == "new"


@needs_dev_full
def test_a_full_disk_is_a_clear_error_and_devices_are_not_replaced():
    with (
        pytest.raises(InputError, match="/dev/full.*No space left on device"),
        replacing(Path("/dev/full")) as out,
    ):
        out.write(b"x" * 100_000)
    assert Path("/dev/full").is_char_device()


def test_a_folder_that_cannot_be_made_is_a_clear_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="expected a file that can be written"):
        make_folder(tmp_path / "file" / "below")
    make_folder(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()


def test_bytes_of_a_name_that_are_no_utf_8_become_question_marks(tmp_path):
    write_text(tmp_path / "x.html", "bad\udcff.csv")
    assert (tmp_path / "x.html").read_bytes() == b"bad?.csv"
