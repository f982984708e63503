"""The dispatcher's picture of the cluster: what each worker runs, its KV, and its own reports (samples of its metrics).

It counts slots and tokens of the dispatcher's own requests, with every chunk. Load that a worker's metrics show beyond them
is *foreign*: it belongs to another gateway, or to a client that knows the engine's address. A worker with metrics counts as
full, not empty, until they have been read.

A worker that ran foreign requests in the last minute is *shared*: another gateway may send there between two samples. Of the
slots that a sample shows to be free, each of the gateways takes its part until the next one, so they do not fill the same
slots twice. Foreign KV memory is taken to grow until the next sample as it grew until this one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from evenstep import compiled
from evenstep.compiled import I2, INT, Floats, Ints, declared
from evenstep.dispatch.columns import Columns, Restored
from evenstep.dispatch.settings import WorkerSpec

#: `WorkerColumns.free_at_most` of a worker that may be sent nothing: so far below 0 that no margin makes up for it.
CLOSED = -(1 << 40)
_YIELDED = 16  # if a sample shows no free slot, a gateway gives up one of this many slots
_SHARED_S = 60.0  # seconds after its last foreign request in which a worker counts as shared


class Worker:
    """Facts known of one worker that have no column in the mirror; `now_s`: when it was added, in seconds."""

    def __init__(self, spec: WorkerSpec, now_s: float) -> None:
        self.spec = spec
        self.capacity = self.stated(spec)
        self.most_slots = spec.slots  # the most it ever had: if they are lowered, it keeps what it runs
        self.is_up = True
        self.leaves = False
        self.heard_s = now_s  # time of its last sample
        self.is_known = not spec.scraped
        self.foreign, self.foreign_load = 0, 0.0
        self.beyond: tuple[int, float] = (0, 0.0)  # requests and KV tokens that the last sample showed beyond our own
        self.unsure = 0  # requests of the last sample that may be foreign
        self.foreign_s = -math.inf  # time of the last sample with foreign requests
        self.held = 0  # slots taken by our requests at the last sample
        self.divergences = 0
        self.short = 0  # requests of ours that the last sample lacked, though they ran at the one before and still run
        self.before: tuple[int, int] = (0, 0)  # went, and requests of ours, when the last sample was asked for
        # came, went and requests of ours when its metrics were asked for; -1 = they were not
        self.asked: tuple[int, int, int] = (0, 0, -1)

    @staticmethod
    def stated(spec: WorkerSpec) -> float:
        """The KV capacity in tokens that a worker's description states; inf without one."""
        return float(spec.kv_tokens or math.inf)

    def go_unread(self) -> None:
        """Count no foreign requests from now on: metrics are not read any more. The caller then calls `Mirror.changed`."""
        self.is_known, self.foreign, self.foreign_load, self.foreign_s = True, 0, 0.0, -math.inf

    @property
    def is_open(self) -> bool:
        """Whether the worker may be sent requests: it is not ejected or leaving, and its metrics are known if it has any."""
        return self.is_up and self.is_known and not self.leaves

    @property
    def is_shared(self) -> bool:
        """Whether the last sample with foreign requests came less than 60 s before the worker's last sample."""
        return self.heard_s < self.foreign_s + _SHARED_S

    def slots_of_ours(self, gateways: int) -> int:
        """Slots that this gateway's requests may hold in all until the next sample; `CLOSED` if it is not open.

        In general these are all slots but the foreign ones. Slots are divided if the worker is shared, or has metrics and
        `gateways` (with this one; 0 = unknown) is above 1. A gateway may then add ``free // max(2, gateways)`` to those it
        holds, and at least one while it holds less than an even share. Without a free slot it gives up one or more, but
        keeps its last one. So a gateway that came late gets slots too.
        """
        if not self.is_open:
            return CLOSED
        slots, held = self.spec.slots, self.held
        if not (self.is_shared or (gateways > 1 and self.spec.scraped)):
            return slots - self.foreign
        parts, free = max(2, gateways), slots - self.foreign - held
        share = slots // parts
        if free > 0:
            return held + max(held < share, free // parts)
        gives = max(1, slots // _YIELDED if held > share else 0, -(free // parts))
        return max(held - gives, min(held, 1))


class WorkerColumns(NamedTuple):
    """Numbers of each worker, one column each, indexed by the worker's place in the mirror."""

    running: Ints  # slots
    sent: Ints  # slots of requests whose call has no token yet
    reserved: Ints  # slots held by requests that want several
    free_at_most: Ints  # slots that our requests may hold (`Worker.slots_of_ours`), or `CLOSED`
    foreign: Ints  # slots of foreign requests
    group: Ints  # its barrier group
    came: Ints  # slots of requests that were sent there, ever
    went: Ints  # slots of requests that ended there, ever
    changes: Ints  # grows whenever a request starts or stops to run, or the length of a prompt is corrected
    load: Floats  # KV tokens running
    sent_load: Floats  # KV tokens sent
    foreign_load: Floats
    capacity: Floats  # KV tokens
    seconds_per_token: Floats  # 1 / the worker's speed
    heard_s: Floats  # when its metrics were read last; inf unless it is shared and takes requests
    left: Floats  # KV tokens of requests that were in the step under way and no longer run


_WORKERS = compiled.struct(WorkerColumns)


@declared(None if INT is None else INT(_WORKERS, I2))
def open_groups(workers: WorkerColumns, found: Any) -> int:
    """List the barrier groups with a free slot, in the order of their first worker with a free slot; returns their number.

    The group numbers are written at the front of row 0 of int64[2, G] `found`; row 1 is working space.
    """
    G, count = len(workers.group), 0
    for group in range(G):
        found[1, group] = 0
    for g in range(G):
        held = workers.running[g] + workers.sent[g] + workers.reserved[g]
        group = workers.group[g]
        if workers.free_at_most[g] > held and found[1, group] == 0:
            found[0, count] = group
            found[1, group] = 1
            count += 1
    return count


_open_groups = compiled.entry(open_groups)


class Mirror(Restored):
    """The decode workers, in order of joining. A worker's place is its index, from 0; `remove` moves later workers up.

    Args:
        gateways: number of gateways that send to these workers, this one included; they share the free slots of each worker
            whose metrics are read. 0 = 2 for a worker that ran foreign requests in the last minute, else 1.

    Attributes:
        at: the workers' columns (`WorkerColumns`) by place, to read and write single numbers; `add` and `remove` replace it.
        place: worker name -> place.
        group: number of each worker's barrier group, by place.
    """

    made_anew = ("at",)

    def __init__(self, gateways: int = 0) -> None:
        self.gateways, self.margin = gateways, 0
        self.workers: list[Worker] = []
        self.place: dict[str, int] = {}
        self.group: list[int] = []
        self.groups = 0
        self.requests: list[int] = []  # running ones of each worker
        self._open: list[int] | None = None  # what `open_groups` found, until slots change
        self._slots = -1  # of all workers; -1 = to be counted
        self.generation = 0  # one more whenever places or groups change
        self.columns = Columns(WorkerColumns)
        self._replaced()

    def _make_anew(self) -> None:
        self.at: Any = self.columns.at

    def add(self, spec: WorkerSpec, now_s: float) -> None:
        """Add a worker at the end; columns are replaced and groups numbered anew."""
        self.workers.append(Worker(spec, now_s))
        self.requests.append(0)
        self.columns.add(1)
        self._replaced()

    def remove(self, place: int) -> None:
        """Remove a worker without requests; the workers after it move up by one place, and groups are numbered anew."""
        del self.workers[place], self.requests[place]
        self.columns.remove(place)
        self._replaced()

    def _replaced(self) -> None:
        """Refer to the present columns, after they were replaced, and number workers and groups anew."""
        self._make_anew()
        self._oldest_s = math.inf  # of the workers' last samples, where those matter
        self.regroup()

    def regroup(self) -> None:
        """Number workers and groups anew, from their specs; `generation` grows by one.

        Groups are numbered from 0 in the order of their first worker. A worker without a group name is a group of its own.
        """
        self.generation += 1
        self.names = [worker.spec.name for worker in self.workers]
        self.place = {name: g for g, name in enumerate(self.names)}
        named: dict[str, int] = {}
        self.group = []
        for g, worker in enumerate(self.workers):
            name = f"={worker.spec.group}" if worker.spec.group else f"#{g}"
            self.group.append(named.setdefault(name, len(named)))
            self.at.group[g] = self.group[g]
            self.changed(g)
        self.groups = len(named)
        self._groups = np.zeros((2, len(self.workers)), np.int64)
        self._open = None

    def changed(self, place: int) -> None:
        """Recompute the columns of a worker whose spec, samples or state (up, leaving) changed, such as `free_at_most`."""
        worker, at = self.workers[place], self.at
        self._open, self._slots = None, -1
        at.free_at_most[place] = worker.slots_of_ours(self.gateways)
        at.foreign[place], at.foreign_load[place] = worker.foreign, worker.foreign_load
        at.capacity[place], at.seconds_per_token[place] = worker.capacity, 1.0 / worker.spec.speed
        at.heard_s[place] = worker.heard_s if worker.is_open and worker.is_shared else math.inf
        self._oldest_s = min(at.heard_s)

    def go_by(self, gateways: int, margin: int) -> None:
        """Use another number of gateways, and another margin: requests that a worker may be sent beyond its slots."""
        self.gateways, self.margin = gateways, margin
        for place in range(len(self.workers)):
            self.changed(place)

    @property
    def slots(self) -> int:
        """Slots of all workers together, in use or free, ejected and leaving workers included."""
        if self._slots < 0:
            self._slots = sum(worker.spec.slots for worker in self.workers)
        return self._slots

    def runs(self, place: int, more: int) -> None:
        """Count `more` running requests on the worker in this place, 1 or -1; its slots are counted elsewhere."""
        self.requests[place] += more
        self.at.changes[place] += 1

    def peers(self, place: int) -> list[str]:
        """Names of the worker and of all workers in its barrier group, which are lost together."""
        return [w.spec.name for w, group in zip(self.workers, self.group, strict=True) if group == self.group[place]]

    def held(self, place: int) -> int:
        """Slots of a worker that this gateway's requests hold: running, sent without a token yet, or reserved."""
        at = self.at
        return at.running[place] + at.sent[place] + at.reserved[place]

    def free(self, place: int) -> int:
        """Slots of a worker that may still be given to requests; 0 if it is full or not open. The margin does not count."""
        return max(0, self.at.free_at_most[place] - self.held(place))

    def open_groups(self) -> list[int]:
        """Numbers of the barrier groups with a free slot, in the order of their first worker with a free slot.

        The same list is returned until slots change; do not change it.
        """
        found = self._open
        if found is None:
            count = _open_groups(self.columns.given, self._groups)
            found = self._open = self._groups[0, :count].tolist()
        return found

    def slots_changed(self) -> None:
        """Drop the cached result of `open_groups`; call it after compiled code changed the columns of slots."""
        self._open = None

    def reserve(self, place: int, slots: int) -> None:
        """Add to the reserved slots of the worker in this place, for requests that want several; negative releases them."""
        self.at.reserved[place] += slots
        self._open = None

    def lets_go(self, place: int, requests: int, *, ran: bool) -> None:
        """Free `requests` slots of the worker in this place: running ones if `ran`, else sent ones. Loads do not change."""
        self._open = None
        (self.at.running if ran else self.at.sent)[place] -= requests
        self.at.went[place] += requests

    def sampling(self, place: int) -> None:
        """Note that a worker's metrics are about to be read: its requests now are what the next `sampled` compares with."""
        at = self.at
        self.workers[place].asked = at.came[place], at.went[place], at.running[place] + at.sent[place]

    def sampled(self, place: int, requests: int, kv_used: float, kv_tokens: int, now_s: float) -> tuple[bool, bool]:
        """Take a worker's own report of its requests and KV memory (a sample), and recompute its foreign load.

        A sample shows the worker at some time between `sampling` and now, and engines report a little late. So a worker
        becomes shared only if two samples in a row show requests that cannot be ours; the first sample ever counts alone.
        While it is shared, each request that may be foreign counts as foreign. The larger number of the last two samples
        counts: a gateway may take back slots that it gave up. Without foreign requests there is no foreign load. A request
        of ours is lacking if two samples in a row do not show it, though it was sent before them and still runs.

        Args:
            place: of the worker; call `sampling` before its metrics are read.
            requests: requests that run or wait there, by its own count.
            kv_used: share of its KV memory in use, 0..1.
            kv_tokens: capacity it states, 0 = not stated; ignored if the operator stated one.

        Returns whether foreign requests appeared where there were no foreign ones before, and whether requests of ours are
        lacking.
        """
        worker, at = self.workers[place], self.at
        if kv_tokens and not worker.spec.kv_tokens:
            worker.capacity = float(kv_tokens)
        used = kv_used * worker.capacity if math.isfinite(worker.capacity) else 0.0
        ours = at.running[place] + at.sent[place]
        all_came, all_went = at.came[place], at.went[place]
        came, went, asked = worker.asked if worker.asked[2] >= 0 else (all_came, all_went, ours)
        could = max(asked, at.free_at_most[place] + self.margin)
        beyond = requests - min(could, asked + all_came - came), used - at.load[place] - at.sent_load[place]
        last = worker.beyond if worker.is_known else beyond
        had = worker.foreign
        if min(last[0], beyond[0]) > 0:
            worker.foreign_s = now_s
        worker.heard_s, worker.is_known, worker.held = now_s, True, self.held(place)
        unsure = max(0, requests - min(asked, ours))
        worker.foreign = max(worker.unsure, unsure) if worker.is_shared else 0
        worker.unsure = unsure
        grown = max(0.0, beyond[1] - last[1])
        worker.foreign_load = max(0.0, last[1], beyond[1]) + grown if worker.foreign else 0.0
        before_went, before_ours = worker.before
        short = before_ours - (all_went - before_went) - requests
        is_short = min(worker.short, short) > 0
        worker.divergences += is_short
        worker.short, worker.before = short, (went, asked)
        worker.beyond, worker.asked = beyond, (0, 0, -1)
        if not worker.spec.scraped:  # this reading was under way when its metrics were given up, and none follows
            worker.go_unread()
        self.changed(place)
        return worker.foreign > 0 and had == 0, is_short

    def state_age_s(self, now_s: float) -> float:
        """Age in seconds of the oldest last sample among shared workers that take requests; 0 without such a worker.

        What our own requests do is known from their streams, so the age of any other worker's sample does not matter.
        """
        return now_s - self._oldest_s if self._oldest_s < math.inf else 0.0

    def oldest(self, now_s: float) -> str:
        """A clause for messages: which shared worker has the oldest sample, and its age. Call it if `state_age_s` > 0."""
        place = min(range(len(self.workers)), key=self.at.heard_s.__getitem__)
        return f"{self.names[place]} runs requests of others and was last read {self.state_age_s(now_s):.1f} s ago"

    def check(self, told: Callable[[int], tuple[Any, ...]], margin: int) -> None:
        """Raise a RuntimeError if a column differs from the sum over requests, or a worker holds too many slots.

        Args:
            told: counts from the requests, for the worker at a place: slots running, slots sent, slots reserved, KV tokens
                running, KV tokens sent, and running requests (one may take several slots).
            margin: slots that a worker's requests may hold beyond the most slots it ever had.
        """
        at = self.at
        for g, worker in enumerate(self.workers):
            kept = at.running[g], at.sent[g], at.reserved[g], at.load[g], at.sent_load[g], self.requests[g]
            if kept != told(g):
                raise RuntimeError(f"the mirror has {kept} on {worker.spec.name}; its requests say {told(g)}")
            if self.held(g) > worker.most_slots + margin:
                raise RuntimeError(f"{worker.spec.name} has {self.held(g)} requests in {worker.spec.slots} slots")
