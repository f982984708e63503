"""The secret that hashes are made under."""

from __future__ import annotations

import pytest

from evenstep.errors import InputError
from evenstep.gateway.salting import salt_of
from evenstep.gateway.sections import Decisions


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


def test_it_may_be_given_or_left_out(monkeypatch):
    monkeypatch.setenv("SALT", "pepper")
    assert salt_of(Decisions(salt="env:SALT")) == b"pepper"
    assert salt_of(Decisions(plain_keys=True)) == b""
    with pytest.raises(InputError):
        salt_of(Decisions(salt="env:NOT_THERE"))
