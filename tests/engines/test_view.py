"""What is seen of an engine: every adapter of the room keeps the same promises."""

from __future__ import annotations

import dataclasses

import pytest

from evenstep import names
from evenstep.engines.view import Dialect


@pytest.mark.parametrize("name", names.members("engines"))
def test_every_adapter_is_a_value_with_paths_and_a_dialect(name):
    adapter = names.build("engines", {"name": name})
    assert dataclasses.is_dataclass(adapter) and adapter == names.build("engines", {"name": name})
    assert isinstance(adapter.dialect, Dialect)
    assert adapter.health_path.startswith("/")
    assert adapter.metrics_path == "" or adapter.metrics_path.startswith("/")
    assert isinstance(adapter.rank_header, str)
