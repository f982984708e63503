"""The state that the parts of a dispatcher share while it handles an event: time, settings, commands."""

from __future__ import annotations

import math

from evenstep.dispatch.commands import Command
from evenstep.dispatch.settings import Settings


class Turn:
    """The values that all parts share while an event is handled.

    Args:
        settings: limits and deadlines.

    Attributes:
        now_s: the host's time; it never goes back.
        due: whether a `Tick` is wanted as soon as the reads at hand are done.
        legs: number of the last upstream call.
        is_draining: nothing new is accepted.
        out: commands so far.
    """

    __slots__ = ("due", "is_draining", "legs", "now_s", "out", "settings")

    def __init__(self, settings: Settings) -> None:
        self.settings, self.now_s = settings, -math.inf
        self.due, self.is_draining, self.legs = False, False, 0
        self.out: list[Command] = []
