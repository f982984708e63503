"""The cluster as the dispatcher knows it: what each worker runs, how much KV it holds, what it says of itself.

Counted here are slots and tokens of the dispatcher's own requests, kept up with every chunk. What a worker's metrics
show beyond them is *foreign*: another gateway's, or a client's that knows the engine's address. A worker that has not
been heard of is full, not empty.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable
from typing import Any

import numpy as np

from evenstep import compiled
from evenstep.dispatch import deciding_kernel as kernel
from evenstep.dispatch.mirror_layout import (
    CAME,
    CAPACITY,
    CHANGES,
    FLOATS,
    FOREIGN,
    FOREIGN_LOAD,
    FREE_AT_MOST,
    GROUP,
    HEARD_S,
    INTS,
    LOAD,
    RESERVED,
    RUNNING,
    SECONDS_PER_TOKEN,
    SENT,
    SENT_LOAD,
    WENT,
)
from evenstep.dispatch.settings import WorkerSpec
from evenstep.request import F8, I8

_CLOSED = -(1 << 40)
_open_groups = compiled.entry(kernel.open_groups)


class Worker:
    """What is known of one worker beside its columns.

    Args:
        spec: as its operator describes it.
        now_s: when it was added.
    """

    def __init__(self, spec: WorkerSpec, now_s: float) -> None:
        self.spec = spec
        self.capacity = float(spec.kv_tokens or math.inf)
        self.most_slots = spec.slots  # it ever had: one that is given fewer keeps what it runs
        self.is_up = True
        self.leaves = False
        self.heard_s = now_s  # of its last sample
        self.is_known = not spec.scraped
        self.foreign, self.foreign_load = 0, 0.0
        self.beyond: tuple[int, float] = (0, 0.0)  # what the last sample showed beyond our own
        self.divergences = 0
        # came, went and requests of ours when its metrics were asked for; -1 = they were not
        self.asked: tuple[int, int, int] = (0, 0, -1)

    @property
    def is_open(self) -> bool:
        """Whether it may be sent anything."""
        return self.is_up and self.is_known and not self.leaves


class Columns:
    """Numbers of G workers: arrays, and memory views of them for one number at a time.

    Args:
        ints: int64[INTS, G]. floats: float64[FLOATS, G].
    """

    def __init__(self, ints: I8, floats: F8) -> None:
        self.ints, self.floats = ints, floats
        self.i: list[Any] = [
            memoryview(column.data).cast("B").cast("q") if column.size else [] for column in ints
        ]
        self.f: list[Any] = [
            memoryview(column.data).cast("B").cast("d") if column.size else [] for column in floats
        ]


class Mirror:
    """Workers that decode, in order of joining; their numbers are places in that order."""

    def __init__(self) -> None:
        self.workers: list[Worker] = []
        self.place: dict[str, int] = {}
        self.group: list[int] = []
        self.groups = 0
        self.requests: list[int] = []  # running ones of each worker
        # KV tokens of requests that were in the step and are not running any more
        self.left = array("d")
        self._open: list[int] | None = None  # what `open_groups` found, until slots change
        self._slots = -1  # of all workers; -1 = to be counted
        self._replace(np.zeros((INTS, 0), np.int64), np.zeros((FLOATS, 0)))

    def __getstate__(self) -> dict[str, Any]:
        numbers = {name: value for name, value in vars(self).items() if name not in ("columns", "i", "f")}
        return {**numbers, "ints": self.columns.ints, "floats": self.columns.floats}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.columns = Columns(state.pop("ints"), state.pop("floats"))
        self.i, self.f = self.columns.i, self.columns.f
        vars(self).update(state)

    def add(self, spec: WorkerSpec, now_s: float) -> None:
        """A new worker, behind the others."""
        self.workers.append(Worker(spec, now_s))
        self.requests.append(0)
        self.left.append(0.0)
        self._replace(
            np.concatenate([self.columns.ints, np.zeros((INTS, 1), np.int64)], axis=1),
            np.concatenate([self.columns.floats, np.zeros((FLOATS, 1))], axis=1),
        )

    def remove(self, place: int) -> None:
        """Take an empty worker out; those behind it move up by one."""
        for numbers in (self.workers, self.requests, self.left):
            del numbers[place]
        self._replace(
            np.delete(self.columns.ints, place, axis=1), np.delete(self.columns.floats, place, axis=1)
        )

    def _replace(self, ints: I8, floats: F8) -> None:
        self.columns = Columns(np.ascontiguousarray(ints), np.ascontiguousarray(floats))
        self.i, self.f = self.columns.i, self.columns.f
        self._oldest_s = math.inf  # of the workers' last samples, where those matter
        self.regroup()

    def regroup(self) -> None:
        """Number workers and groups anew, as their specs say."""
        self.names = [worker.spec.name for worker in self.workers]
        self.place = {name: g for g, name in enumerate(self.names)}
        named: dict[str, int] = {}
        self.group = []
        for g, worker in enumerate(self.workers):
            name = f"={worker.spec.group}" if worker.spec.group else f"#{g}"
            self.group.append(named.setdefault(name, len(named)))
            self.i[GROUP][g] = self.group[g]
            self.changed(g)
        self.groups = len(named)
        self._groups = np.zeros((2, len(self.workers)), np.int64)
        self._open = None

    def changed(self, place: int) -> None:
        """Something about the worker changed that says how much it may be sent."""
        worker, i, f = self.workers[place], self.i, self.f
        self._open, self._slots = None, -1
        i[FREE_AT_MOST][place] = worker.spec.slots - worker.foreign if worker.is_open else _CLOSED
        i[FOREIGN][place], f[FOREIGN_LOAD][place] = worker.foreign, worker.foreign_load
        f[CAPACITY][place], f[SECONDS_PER_TOKEN][place] = worker.capacity, 1.0 / worker.spec.speed
        f[HEARD_S][place] = worker.heard_s if worker.spec.scraped and worker.is_open else math.inf
        self._oldest_s = min(f[HEARD_S])

    @property
    def slots(self) -> int:
        """Slots of all workers, taken or not."""
        if self._slots < 0:
            self._slots = sum(worker.spec.slots for worker in self.workers)
        return self._slots

    def joins(self, place: int) -> None:
        """A request has its first token."""
        self.requests[place] += 1
        self.i[CHANGES][place] += 1

    def peers(self, place: int) -> list[str]:
        """Names of the worker and of all that share its barrier: they are lost together."""
        return [
            w.spec.name
            for w, group in zip(self.workers, self.group, strict=True)
            if group == self.group[place]
        ]

    def held(self, place: int) -> int:
        """Slots of a worker that are taken by our requests."""
        i = self.i
        return i[RUNNING][place] + i[SENT][place] + i[RESERVED][place]

    def free(self, place: int) -> int:
        """Slots it may still be sent."""
        return max(0, self.i[FREE_AT_MOST][place] - self.held(place))

    def open_groups(self) -> list[int]:
        """Barrier groups with a free slot."""
        found = self._open
        if found is None:
            count = _open_groups(self.columns.ints, self._groups)
            found = self._open = self._groups[0, :count].tolist()
        return found

    def slots_changed(self) -> None:
        """Slots were taken or freed in the columns themselves."""
        self._open = None

    def reserve(self, place: int, slots: int) -> None:
        """A request that wants several slots holds so many more of a worker's."""
        self.i[RESERVED][place] += slots
        self._open = None

    def takes(self, place: int, requests: int) -> None:
        """Requests are sent to a worker."""
        self._open = None
        self.i[SENT][place] += requests
        self.i[CAME][place] += requests

    def lets_go(self, place: int, column: int, requests: int) -> None:
        """Requests of this column, SENT or RUNNING, are off their worker."""
        self._open = None
        self.i[column][place] -= requests
        self.i[WENT][place] += requests

    def sampling(self, place: int) -> None:
        """A worker's metrics are about to be read."""
        worker = self.workers[place]
        i = self.i
        worker.asked = i[CAME][place], i[WENT][place], i[RUNNING][place] + i[SENT][place]

    def sampled(
        self, place: int, requests: int, kv_used: float, kv_tokens: int, now_s: float
    ) -> tuple[bool, bool]:
        """A worker's own figures arrived.

        A sample shows some time between its asking and now: only what cannot be ours counts as foreign, only what cannot
        have ended as lacking. Engines tell a little late too, so only what two samples in a row show counts; the first one
        counts alone. Of the two the larger counts: what others send grows between samples, and slots they may have
        taken are not ours to fill.

        Args:
            requests: what it runs and holds.
            kv_used: share of its KV memory.
            kv_tokens: capacity it states, 0 = none.

        Returns:
            Whether foreign requests appeared, and whether it lacks requests that the mirror counts there.
        """
        worker, i, f = self.workers[place], self.i, self.f
        if kv_tokens and not worker.spec.kv_tokens:
            worker.capacity = float(kv_tokens)
        used = kv_used * worker.capacity if math.isfinite(worker.capacity) else 0.0
        ours = i[RUNNING][place] + i[SENT][place]
        all_came, all_went = i[CAME][place], i[WENT][place]
        came, went, asked = worker.asked if worker.asked[2] >= 0 else (all_came, all_went, ours)
        most, least = asked + all_came - came, asked - (all_went - went)
        beyond = requests - most if requests > most else min(0, requests - least)
        now = beyond, used - f[LOAD][place] - f[SENT_LOAD][place]
        last = worker.beyond if worker.is_known else now
        had = worker.foreign
        is_foreign = min(last[0], now[0]) > 0
        worker.foreign = max(last[0], now[0]) if is_foreign else 0
        worker.foreign_load = max(0.0, last[1], now[1]) if is_foreign else 0.0
        is_short = max(last[0], now[0]) < 0
        worker.divergences += is_short
        worker.beyond, worker.heard_s, worker.is_known, worker.asked = now, now_s, True, (0, 0, -1)
        self.changed(place)
        return worker.foreign > 0 and had == 0, is_short

    def state_age_s(self, now_s: float) -> float:
        """Age of the oldest state of a worker that may be sent something; 0 when none is scraped."""
        return now_s - self._oldest_s if self._oldest_s < math.inf else 0.0

    def check(self, told: Callable[[int], tuple[Any, ...]], margin: int) -> None:
        """See that the columns are the sums over requests, and that no worker is over its slots.

        Args:
            told: place -> slots running, sent, reserved, KV tokens running and sent, running requests, as the requests say.
            margin: what a worker may hold beyond its slots.

        Raises:
            RuntimeError: they are not.
        """
        i, f = self.i, self.f
        for g, worker in enumerate(self.workers):
            kept = i[RUNNING][g], i[SENT][g], i[RESERVED][g], f[LOAD][g], f[SENT_LOAD][g], self.requests[g]
            if kept != told(g):
                raise RuntimeError(f"the mirror has {kept} on {worker.spec.name}; its requests say {told(g)}")
            if self.held(g) > worker.most_slots + margin:
                raise RuntimeError(
                    f"{worker.spec.name} has {self.held(g)} requests in {worker.spec.slots} slots"
                )
