"""What a settings class says about its fields."""

from __future__ import annotations

import inspect

from tests.config.kinds import Fleet, Larger

from evenstep.config.fields import meaning


def test_meaning_includes_what_a_dataclass_extends():
    assert meaning(Larger)["pace"] == "how fast."
    assert meaning(Larger)["workers"] == "workers of the fleet."


def test_meaning_is_whole_where_python_cleans_docstrings():
    class Cleaned:
        """As Python 3.13 keeps it."""

    Cleaned.__doc__ = inspect.cleandoc(Fleet.__doc__)
    assert meaning(Cleaned) == meaning(Fleet)
