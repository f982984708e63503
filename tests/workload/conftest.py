"""Files for the reader tests, and the checks that need real traces (`EVENSTEP_TRACES`, a folder of them)."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "real_traces: needs EVENSTEP_TRACES, a folder of real traces; else deselected")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if os.environ.get("EVENSTEP_TRACES"):
        return
    kept = [item for item in items if item.get_closest_marker("real_traces") is None]
    left_out = [item for item in items if item.get_closest_marker("real_traces") is not None]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept


@pytest.fixture
def samples() -> Path:
    return Path(__file__).parent / "samples"


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write a file: `write("a.csv", text)`, or `write("a.csv.gz", text)` packed."""

    def written(name: str, content: str | bytes) -> Path:
        data = content.encode() if isinstance(content, str) else content
        path = tmp_path / name
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return path

    return written
