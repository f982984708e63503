"""The commit of a checkout, to name on pages and to choose which part of the leaderboard a check runs."""

from __future__ import annotations

import subprocess
from pathlib import Path


def commit_of(folder: Path) -> str:
    """The first ten digits of the commit, with `` with local changes`` if tracked files differ from it.

    Empty outside a checkout, and without git.
    """
    commit = _git(folder, "rev-parse", "--short=10", "HEAD")
    if commit and _git(folder, "status", "--porcelain", "--untracked-files=no"):
        return f"{commit} with local changes"
    return commit


def day_of(folder: Path) -> int | None:
    """The last commit's date in whole days since 1970 (UTC); None outside a checkout, and without git."""
    seconds = _git(folder, "log", "-1", "--format=%ct")
    return int(seconds) // 86_400 if seconds else None


def _git(folder: Path, *words: str) -> str:
    try:
        done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()
