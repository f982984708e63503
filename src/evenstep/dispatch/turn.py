"""The state of the event being handled."""

from __future__ import annotations

import math

from evenstep.dispatch.commands import Command
from evenstep.dispatch.settings import Settings


class Turn:
    """The values that all parts of a dispatcher share while an event is handled.

    Attributes:
        settings: limits and deadlines.
        now_s: the host's time in seconds; it never goes back; -inf before the first event.
        due: whether the host should send a `Tick` after the current batch of reads.
        legs: number of the last upstream call (leg); 0 before the first.
        is_draining: no new request is accepted.
        out: commands since the last call of `Dispatcher.handle_all` returned, in order; parts append to it.
    """

    __slots__ = ("due", "is_draining", "legs", "now_s", "out", "settings")

    def __init__(self, settings: Settings) -> None:
        self.settings, self.now_s = settings, -math.inf
        self.due, self.is_draining, self.legs = False, False, 0
        self.out: list[Command] = []
