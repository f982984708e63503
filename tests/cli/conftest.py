"""What tests of several commands share."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from evenstep import names
from evenstep.errors import InputError


@pytest.fixture
def unloadable(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """A function that makes a member, by its name, one of another package that cannot be loaded."""
    find = names.find

    def make(broken: str) -> None:
        def found(room: str, name: str):
            if name == broken:
                raise InputError(name, "entry point", f"other:{name}", "one that loads")
            return find(room, name)

        monkeypatch.setattr(names, "find", found)

    return make
