"""Which commit a checkout is at."""

from __future__ import annotations

import subprocess

import pytest

from evenstep.experiments.leaderboard.origin import commit_of, day_of


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_DATE", "1970-01-05T12:00:00+0000")
        monkeypatch.setenv(f"GIT_{name}_NAME", "someone")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "someone@example.org")
    (tmp_path / "a").write_text("1")
    for words in (["init", "-q"], ["add", "a"], ["commit", "-q", "-m", "one"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    return tmp_path


def test_a_commit_is_named_and_dated_and_changes_are_owned_up_to(checkout):
    commit = commit_of(checkout)
    assert len(commit) == 10 and day_of(checkout) == 4
    (checkout / "b").write_text("not tracked")
    assert commit_of(checkout) == commit
    (checkout / "a").write_text("2")
    assert commit_of(checkout) == f"{commit} with local changes"


def test_outside_a_checkout_there_is_none(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert commit_of(tmp_path) == "" and day_of(tmp_path) is None
