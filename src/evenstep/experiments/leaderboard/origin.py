"""The commit of a checkout: its name for pages, and its date, which selects the part of a leaderboard that a check runs."""

from __future__ import annotations

import subprocess
from pathlib import Path


def commit_of(folder: Path) -> str:
    """Ten digits of the commit, and `` with local changes`` if tracked files differ; empty without a checkout or git."""
    commit = _git(folder, "rev-parse", "--short=10", "HEAD")
    if commit and _git(folder, "status", "--porcelain", "--untracked-files=no"):
        return f"{commit} with local changes"
    return commit


def day_of(folder: Path) -> int | None:
    """The last commit's date in whole days since 1970 (UTC); None without a checkout or git."""
    seconds = _git(folder, "log", "-1", "--format=%ct")
    return int(seconds) // 86_400 if seconds else None


def _git(folder: Path, *words: str) -> str:
    """The stripped output of a git command in `folder`; empty if it fails or git is missing."""
    try:
        done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()
