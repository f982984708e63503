"""Commands are values."""

from __future__ import annotations

import dataclasses
from typing import get_args

import pytest

from evenstep.dispatch.commands import Command, Reject


def test_every_command_is_a_frozen_dataclass_that_says_what_it_is():
    for kind in get_args(Command):
        assert dataclasses.is_dataclass(kind) and kind.__doc__
    with pytest.raises(dataclasses.FrozenInstanceError):
        Reject(1, 503, "expired").status = 200
