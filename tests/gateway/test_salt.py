"""The secret that hashes are made under."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.gateway.full_disk import no_file_beyond

from evenstep.errors import InputError
from evenstep.gateway.config.salt import salt_of
from evenstep.gateway.config.sections import Decisions


def test_it_is_drawn_once_and_kept_for_its_user_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    first = salt_of(Decisions())
    assert len(first) == 32
    assert salt_of(Decisions()) == first
    assert (tmp_path / "evenstep" / "salt").stat().st_mode & 0o077 == 0


def test_without_a_place_to_keep_it_there_is_one_all_the_same(tmp_path, monkeypatch):
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


def test_it_may_be_given_or_left_out(monkeypatch):
    monkeypatch.setenv("SALT", "pepper")
    assert salt_of(Decisions(salt="env:SALT")) == b"pepper"
    assert salt_of(Decisions(plain_keys=True)) == b""
    with pytest.raises(InputError):
        salt_of(Decisions(salt="env:NOT_THERE"))
