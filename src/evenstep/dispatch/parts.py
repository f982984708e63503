"""The parts of a dispatcher that hold its state, in order: each uses only those before it."""

from __future__ import annotations

from evenstep.dispatch.fleet.fleet import Fleet
from evenstep.dispatch.fleet.prefixes import Prefixes
from evenstep.dispatch.log.journal import Journal
from evenstep.dispatch.log.meters import Meters
from evenstep.dispatch.requests.deadlines import Deadlines
from evenstep.dispatch.requests.exclusions import Exclusions
from evenstep.dispatch.requests.pool import AdmissionLimits, Pool
from evenstep.dispatch.requests.prefill_queue import PrefillQueue
from evenstep.dispatch.requests.rows import Rows
from evenstep.dispatch.rounds.barriers import Barriers
from evenstep.dispatch.rounds.deciding import Deciding, Options
from evenstep.dispatch.rounds.rounds import Rounds
from evenstep.dispatch.rounds.slots import Slots
from evenstep.dispatch.settings import Settings
from evenstep.dispatch.timers import Timers
from evenstep.dispatch.turn import Turn


class Parts:
    """All state of one dispatcher, one attribute for each part (`rows`, `pool`, `fleet`, ...)."""

    def __init__(self, settings: Settings, options: Options) -> None:
        self.turn = turn = Turn(settings)
        self.rows, self.meters, self.journal = Rows(), Meters(), Journal(options.log)
        self.pool, self.limits = Pool(self.rows), AdmissionLimits(settings)
        self.prefixes = Prefixes(settings.prefix_blocks)
        self.fleet = Fleet(turn, Timers())
        self.exclusions = Exclusions(self.rows, self.fleet)
        self.deadlines = Deadlines(turn, self.rows, self.fleet.timers, self.exclusions)
        self.prefills = PrefillQueue(turn, self.rows, self.fleet, self.exclusions)
        self.rounds = Rounds(turn, self.pool, self.fleet.mirror)
        self.barriers = Barriers(self.rows, self.fleet.mirror, self.rounds)
        self.slots = Slots(turn, self.rows, self.fleet, self.pool, self.limits, self.barriers, self.prefixes, self.meters)
        self.deciding = Deciding(options, settings, self.rows, self.fleet, self.prefixes, self.meters)
        self.rounds.binds_at_once = self.deciding.call.binds_at_once
