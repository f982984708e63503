"""Assigns slots: gives slots to requests, sends requests to workers, and frees their slots when they leave."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from evenstep import compiled
from evenstep.compiled import FLOAT, I1, INT, Floats, Ints, declared
from evenstep.dispatch.commands import Continue, SendDecode
from evenstep.dispatch.fleet.fleet import Fleet
from evenstep.dispatch.fleet.mirror import WorkerColumns
from evenstep.dispatch.fleet.prefixes import Prefixes
from evenstep.dispatch.log.histogram import add_wait, count
from evenstep.dispatch.log.meters import Meters
from evenstep.dispatch.requests.pool import AdmissionLimits, Pool
from evenstep.dispatch.requests.rows import NEVER, UNPREDICTED, RequestColumns, Rows, may_move, moves
from evenstep.dispatch.rounds.barriers import Barriers
from evenstep.dispatch.transitions import State, impossible
from evenstep.dispatch.turn import Turn
from evenstep.request import I8
from evenstep.routing.view import HOLD

_POOLED, _SEATING, _SENT = map(int, (State.POOLED, State.SEATING, State.SENT))
_EMPTY: I8 = np.zeros(0, np.int64)


class Tables(NamedTuple):
    """The tables that `send` reads and writes."""

    rows: RequestColumns  # the table of requests
    workers: WorkerColumns  # the table of workers
    waits: Floats  # sum and number of waits (`Waits.sums`)
    counts: Ints  # of the histogram of waits in seconds, as of `Histogram.arrays`
    bounds: Floats  # of the same histogram
    sums: Floats  # of the same histogram
    tokens: Ints  # int64[1], written by each call: tokens of the prompts that it sent


@declared(None if INT is None else INT(compiled.struct(Tables), I1, I1, INT, I1, INT, FLOAT))
def send(tables: Tables, chosen: I8, worker: I8, size: int, pool: I8, legs: int, now_s: float) -> int:
    """Send the requests of a round that are not held: update the tables; the caller appends the commands.

    Args:
        chosen: int64, rows of the requests, at least `size` of them; written: the rows that were sent move to its front.
        worker: int64, place of each one's worker in the mirror, or `HOLD`. Its slots must suffice; they are not checked.
        size: requests of the round.
        pool: int64, written: rows that wait, in order. Those that still wait move to the front; the caller drops the rest.
        legs: number of the last upstream call (leg); the sent requests get the next numbers, in order.
        now_s: the time in seconds, from which waits are counted.

    Returns:
        Number of requests that were sent; -1 - i, and nothing changed, if request i may not be sent in its state, or its row
        or worker is out of range.
    """
    rows, workers = tables.rows, tables.workers
    for i in range(size):
        row, g = chosen[i], worker[i]
        if not 0 <= row < len(rows.state) or not HOLD <= g < len(workers.sent):
            return -1 - i
        if g != HOLD and not may_move(rows.state, row, _SENT):
            return -1 - i
    sent = tables.tokens[0] = 0
    for i in range(size):
        row, g = chosen[i], worker[i]
        if g == HOLD:
            continue
        chosen[sent] = row
        sent += 1
        moves(rows.state, row, _SENT)
        copies, prompt, produced = rows.copies[row], rows.prompt[row], rows.produced[row]
        workers.reserved[g] -= rows.seated[row]
        workers.sent[g] += copies
        workers.came[g] += copies
        workers.sent_load[g] += prompt + produced
        rows.worker[row], rows.seated[row], rows.leg[row] = g, copies, legs + sent
        if rows.predicted[row] != UNPREDICTED or produced > 0:  # it was on another worker before
            rows.leave[row], rows.predicted[row], rows.base[row] = NEVER, UNPREDICTED, produced
        rows.sent_s[row] = now_s
        tables.tokens[0] += prompt
        wait_s: Any = now_s - rows.queued_s[row]
        add_wait(wait_s, tables.waits)
        count(wait_s, tables.counts, tables.bounds, tables.sums)
    left = 0
    for i in range(pool.size):
        row = pool[i]
        if 0 <= row < len(rows.state) and rows.state[row] == _POOLED:
            pool[left] = row
            left += 1
    return sent


_send = compiled.entry(send)


class Slots:
    """Gives slots to requests, sends each to its worker, and frees its slots when it leaves.

    `seat` sends one once it has all it wants, or earlier to a worker without others of ours; `send` checks no slots.
    `seating`: place of a worker -> rows that hold only some of the slots they want there. Each list has one row.
    """

    def __init__(
        self,
        turn: Turn,
        rows: Rows,
        fleet: Fleet,
        pool: Pool,
        limits: AdmissionLimits,
        barriers: Barriers,
        prefixes: Prefixes,
        meters: Meters,
    ) -> None:
        self._turn, self._rows, self._mirror, self._timers = turn, rows, fleet.mirror, fleet.timers
        self._pool, self._limits, self._barriers, self._prefixes = pool, limits, barriers, prefixes
        self._meters = meters
        self.seating: dict[int, list[int]] = {}
        self._known: Tables | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_known": None}

    def seat(self, row: int, worker: int, free: int) -> int:
        """Give a request up to `free` slots of a worker. With all it wants it is sent; with some it holds them and waits.

        Then it leaves the pool for `seating`. One request at a time waits so at a worker: two would each hold what the other
        needs. A worker without other requests of ours may get it beyond `free` (`_takes_whole`). Returns the slots taken
        now; otherwise 0 if `free` is 0 or less, or too few while another request waits there.
        """
        rows, at = self._rows, self._rows.at
        wanted = at.copies[row] - at.seated[row]
        if wanted <= free or self._takes_whole(row, worker):
            self.send(np.array([row]), np.array([worker]), 1)
            return wanted
        if self.seating.get(worker, [row])[0] != row:
            return 0
        if free > 0:
            at.seated[row] += free
            self._mirror.reserve(worker, free)
            if at.state[row] != _SEATING:
                self._pool.remove(row)
                rows.place(row, worker)
                rows.move(row, _SEATING)
                self.seating.setdefault(worker, []).append(row)
        return max(0, free)

    def _takes_whole(self, row: int, worker: int) -> bool:
        """Whether to send a request to a worker that offers fewer slots now than the request still wants.

        True if the worker is open, and has enough slots in all and no other request of ours. Other gateways or clients use
        the missing slots, and might do so for ever. The engine queues what does not fit.
        """
        at, mirror = self._rows.at, self._mirror
        if not 0 < mirror.at.free_at_most[worker] < at.copies[row] <= mirror.workers[worker].spec.slots:
            return False
        return mirror.held(worker) == at.seated[row]

    def send(self, chosen: I8, worker: I8, size: int) -> int:
        """Send requests to their workers, in order: they leave the pool, and commands are appended.

        Args:
            chosen: int64[>= size], rows; written: those that were sent move to its front, in order.
            worker: int64[>= size], place of each one's worker, or `HOLD`. That it has enough slots is not checked.
            size: how many requests of `chosen` to look at.

        Returns the number sent: those not held. Raises RuntimeError if a state does not allow sending; nothing has changed
        then.
        """
        turn, here, legs, states = self._turn, self._pool.here, self._turn.legs, self._rows.at.state
        pool, tables = np.frombuffer(here, np.int64) if here else _EMPTY, self._tables()
        sent = _send(tables, chosen, worker, size, pool, legs, turn.now_s)
        del pool  # an array cannot shrink while another object views its memory
        if sent < 0:
            raise impossible(states[int(chosen[-1 - sent])], _SENT)
        if not sent:
            return 0
        turn.legs = legs + sent
        gone = chosen[:sent].tolist()
        del here[len(here) - (sent if not self.seating else self._pooled(gone)) :]
        self._mirror.slots_changed()
        self._tell(gone, legs, int(tables.tokens[0]))
        return sent

    def _pooled(self, sent: list[int]) -> int:
        """How many of the sent requests were in the pool. The others were in `seating`, and are removed there."""
        pooled, placed = len(sent), self._rows.at.worker
        for row in sent:
            if row in self.seating.get(placed[row], ()):
                self._no_longer_seating(row, placed[row])
                pooled -= 1
        return pooled

    def _tell(self, sent: list[int], legs: int, tokens: int) -> None:
        """Append the commands for these sent requests; they count as waiting no longer, and lose their deadline.

        `legs` is the number of the last upstream call before theirs. `tokens`: tokens of all their prompts, for the count in
        `prefixes`.
        """
        at, names, out, of = self._rows.at, self._mirror.names, self._turn.out, self._limits.of
        requests, placed, produced = at.request, at.worker, at.produced
        for number, row in enumerate(sent, legs + 1):
            of[row].waiting -= 1
            if produced[row]:
                out.append(Continue(requests[row], number, names[placed[row]], row, produced[row]))
            else:
                out.append(SendDecode(requests[row], number, names[placed[row]], row))
        timers, prefixes = self._timers, self._prefixes
        if timers.at:
            for row in sent:
                timers.clear(("ttl", row))
        if not prefixes.has_any:
            prefixes.sent_tokens += tokens
            return
        for row in sent:
            prefixes.sent(row, placed[row], at.prompt[row])

    def _tables(self) -> Tables:
        """The tables for the rule `send`, made anew if columns were replaced."""
        known, rows, columns = self._known, self._rows, self._mirror.columns
        if known is None or known.rows is not rows.columns.given or known.workers is not columns.given:
            waits, counted = np.frombuffer(self._meters.waits.sums), self._meters.pool_wait_s.arrays()
            known = self._known = Tables(rows.columns.given, columns.given, waits, *counted, np.zeros(1, np.int64))
        return known

    def take_off(self, row: int) -> None:
        """Free a request's slots and take it off its worker; requests in `seating` there get them. The state stays."""
        rows, mirror, at = self._rows, self._mirror, self._rows.at
        worker, copies, load, state = at.worker[row], at.copies[row], rows.load(row), at.state[row]
        if state == _SEATING:
            mirror.reserve(worker, -at.seated[row])
            self._no_longer_seating(row, worker)
        elif state == _SENT:
            mirror.lets_go(worker, copies, ran=False)
            mirror.at.sent_load[worker] -= load
        else:
            mirror.lets_go(worker, copies, ran=True)
            mirror.at.load[worker] -= load
            self._barriers.leaves(row, worker)
        rows.place(row, -1)
        at.seated[row] = 0
        if self.seating:
            self.fill(worker)

    def fill(self, worker: int) -> None:
        """Give free slots of the worker in this place to requests in `seating` there, in order; complete ones are sent.

        If the worker now has fewer slots in all than one wants, they go back to the pool (`clear`).
        """
        seating, slots = self.seating.get(worker, ()), self._mirror.workers[worker].spec.slots
        if any(self._rows.at.copies[row] > slots for row in seating):
            self.clear(worker)
        for row in list(self.seating.get(worker, ())):
            self.seat(row, worker, self._mirror.free(worker))

    def clear(self, worker: int) -> None:
        """Move the requests in `seating` at the worker in this place back to the pool, without slots."""
        rows = self._rows
        for row in list(self.seating.get(worker, ())):
            self._no_longer_seating(row, worker)
            self._mirror.reserve(worker, -rows.at.seated[row])
            rows.at.seated[row] = 0
            rows.place(row, -1)
            rows.move(row, _POOLED)
            self._pool.add(row)

    def moved_up(self, place: int) -> None:
        """Renumber the workers in `seating` after the one in this place was removed; it must have no entry."""
        self.seating = {g - (g > place): rows for g, rows in self.seating.items()}

    def _no_longer_seating(self, row: int, worker: int) -> None:
        """Remove a row from `seating` at this worker; its slots stay as they are."""
        self.seating[worker].remove(row)
        if not self.seating[worker]:
            del self.seating[worker]
