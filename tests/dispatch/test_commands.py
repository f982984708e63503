"""Commands are values."""

from __future__ import annotations

from typing import get_args

import msgspec
import pytest

from evenstep.dispatch.commands import Command, Reject


def test_every_command_is_a_frozen_value_that_says_what_it_is():
    for kind in get_args(Command):
        assert issubclass(kind, msgspec.Struct) and kind.__doc__
    with pytest.raises(AttributeError, match="immutable"):
        Reject(1, 503, "expired").status = 200
