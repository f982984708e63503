"""Secrets lie in variables, files or hashes, and are never shown."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from tests.gateway.full_disk import no_file_beyond

from evenstep.errors import InputError
from evenstep.gateway.config.secrets import covered, digest_of, read_secret, salt_of
from evenstep.gateway.config.sections import Decisions


def test_a_secret_is_read_from_where_it_lies(tmp_path, monkeypatch):
    file = tmp_path / "key"
    file.write_text("of the file\n")
    monkeypatch.setenv("SOME_KEY", "of the variable")
    assert read_secret(f"file:{file}", "keys", "key") == "of the file"
    assert read_secret("env:SOME_KEY", "keys", "key") == "of the variable"
    assert read_secret("sk-written-out", "keys", "key") == "sk-written-out"


def test_a_secret_that_is_not_there_is_refused_by_its_place(tmp_path, monkeypatch):
    (tmp_path / "empty").write_text("\n")
    monkeypatch.setenv("NOT_UTF_8", "k\udcff")
    for text, said in (
        ("env:NO_SUCH_VARIABLE", "a variable that is set"),
        ("env:NOT_UTF_8", "a variable that is UTF-8 text"),
        (f"file:{tmp_path}/none", "a readable file"),
        (f"file:{tmp_path}/empty", "a file that is not empty"),
    ):
        with pytest.raises(InputError, match=f"keys: key is .*expected {said}"):
            read_secret(text, "keys", "key")


def test_a_key_may_be_given_as_its_hash():
    digest = hashlib.sha256(b"word").digest()
    assert digest_of(" word ", "keys", "key") == digest
    assert digest_of("word", "keys", "key") == digest_of(f"sha256:{digest.hex()}", "keys", "key") == digest
    with pytest.raises(InputError, match="64 hexadecimal digits") as caught:
        digest_of("sha256:abc", "keys", "key")
    assert "abc" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "  ", f"sha256:{hashlib.sha256(b'').hexdigest()}"])
def test_an_empty_key_and_its_hash_are_refused(text):
    with pytest.raises(InputError, match=r"keys\[0\]: key is .*expected a key that is not empty"):
        digest_of(text, "keys[0]", "key")


def test_only_the_place_of_a_secret_is_shown():
    shown = [covered(text) for text in ("", "env:A", "file:/a", "sk-1", "sha256:00")]
    assert shown == ["", "env:A", "file:/a", "(hidden)", "(hidden)"]


def test_a_salt_is_drawn_once_and_kept_for_its_user_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    first = salt_of(Decisions())
    assert len(first) == 32
    assert salt_of(Decisions()) == first
    assert (tmp_path / "evenstep" / "salt").stat().st_mode & 0o077 == 0


def test_without_a_place_to_keep_a_salt_there_is_one_all_the_same(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    assert len(salt_of(Decisions())) == 32
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setattr(Path, "home", homeless)
    assert len(salt_of(Decisions())) == 32


def homeless():
    raise RuntimeError("Could not determine home directory.")


def test_a_full_disk_leaves_no_empty_salt_under_which_hashes_are_the_same_everywhere(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with no_file_beyond(0):
        assert len(salt_of(Decisions())) == 32
    assert list((tmp_path / "evenstep").iterdir()) == []
    (tmp_path / "evenstep" / "salt").write_bytes(b"")
    kept = salt_of(Decisions())
    assert len(kept) == 32 and salt_of(Decisions()) == kept


def test_a_salt_may_be_given_or_left_out(monkeypatch):
    monkeypatch.setenv("SALT", "pepper")
    assert salt_of(Decisions(salt="env:SALT")) == b"pepper"
    assert salt_of(Decisions(plain_keys=True)) == b""
    with pytest.raises(InputError):
        salt_of(Decisions(salt="env:NOT_THERE"))
