from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from evenstep.errors import InputError
from evenstep.workload import files


def test_a_gzip_file_reads_like_a_plain_one(write):
    assert files.content(write("a.txt", "one\ntwo\n")) == files.content(write("b.gz", "one\ntwo\n"))
    assert files.head(write("c.gz", "x" * (files.HEAD_BYTES + 5))) == b"x" * files.HEAD_BYTES


@pytest.mark.parametrize("name", ["a.txt", "a.gz"])
@pytest.mark.parametrize("size", [0, files.HEAD_BYTES])
def test_lines_are_the_lines_of_a_short_and_of_a_long_file(write, name, size):
    text = "x" * size + "\nsecond\n\nfourth"
    assert [line.rstrip(b"\n") for line in files.lines(write(name, text))] == text.encode().split(b"\n")


def test_a_last_newline_does_not_make_a_line(write):
    assert len(list(files.lines(write("a.txt", "one\ntwo\n")))) == 2


@pytest.mark.parametrize(
    ("content", "word"),
    [(b"", "empty"), (b"\x1f\x8b\x08\x00rubbish that is no gzip at all", "damaged gzip")],
)
def test_an_unreadable_file_is_one_error(write, content, word):
    path = write("a.bin", content)
    with pytest.raises(InputError, match=word):
        files.content(path)
    with pytest.raises(InputError, match=word):
        files.head(path)


def test_a_cut_gzip_file_is_named(write, tmp_path):
    whole = write("a.gz", os.urandom(5000)).read_bytes()
    (tmp_path / "cut.gz").write_bytes(whole[:-900])
    with pytest.raises(InputError, match="damaged gzip"):
        files.content(tmp_path / "cut.gz")


def test_a_name_that_no_file_can_have_is_a_missing_file():
    with pytest.raises(InputError, match="expected an existing file"):
        files.content(Path("a\0b"))


def test_a_missing_file_and_a_directory_are_named(tmp_path):
    with pytest.raises(InputError, match="missing"):
        files.content(tmp_path / "nothing")
    with pytest.raises(InputError, match="directory"):
        files.content(tmp_path)


def test_a_file_without_permission_is_named(write, monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    path = write("a.txt", "x")
    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(InputError, match="unreadable.*Permission denied"):
        files.content(path)


def test_binary_text_names_its_line(write):
    path = write("a.txt", b"fine\nfine\nnot \xff fine\n")
    with pytest.raises(InputError, match=r"a\.txt:3: bytes"):
        files.decoded(path, files.content(path))
    with pytest.raises(InputError, match="bytes"):
        files.decoded(path, b"a\0b")


def test_a_pipe_is_refused_in_words(tmp_path):
    """It said only that it expected a readable file, and None."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="file is 'a pipe'; expected a file. Traces are read more than once: write it"):
        files.content(tmp_path / "pipe")


def test_an_error_without_words_of_the_system_still_says_why(write, monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise io.UnsupportedOperation("underlying stream is not seekable")

    path = write("a.txt", "x")
    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(InputError, match="a readable file. underlying stream is not seekable."):
        files.content(path)
