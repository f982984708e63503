"""Settings classes for tests, and files with their values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from evenstep.config.convert import convert
from evenstep.config.yaml_file import read_yaml


@dataclass(frozen=True)
class Pool:
    """A waiting pool.

    Args:
        limit: requests it holds at most.
    """

    limit: int = 4


@dataclass(frozen=True)
class Fleet:
    """A fleet.

    Args:
        workers: workers of the
            fleet.
        per_token_s, overhead_s: seconds.

    Raises:
        InputError: never.
    """

    workers: int = 16
    per_token_s: float = 0.5
    overhead_s: float = 0.25
    name: str = "none"
    pool: Pool = Pool()
    pools: list[Pool] = field(default_factory=list)
    named: dict[str, Pool] = field(default_factory=dict)


@dataclass(frozen=True)
class Needs:
    size: int


@dataclass(frozen=True)
class Several:
    many: list[Needs]


@dataclass(frozen=True)
class Keyed:
    api_key: str | None = None


@dataclass(frozen=True)
class Larger(Fleet):
    """A larger fleet.

    Args:
        pace: how fast.
    """

    pace: Literal["slow", "fast"] = "slow"


@dataclass(frozen=True)
class Paced:
    share: float | None = None
    limit: int | None = None


@dataclass(frozen=True)
class Counted:
    limit: int | None = None
    load: float = 0.0
    sizes: tuple[int, ...] = ()
    pools: dict[str, list[Pool]] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)


def written(tmp_path, text):
    """A file of this text."""
    path = tmp_path / "fleet.yaml"
    path.write_text(text)
    return path


def load(path, kind):
    return convert(read_yaml(path), kind)
