"""The first runs of a comparison on a machine that has no compiled kernels yet: in plain Python, at equal bits.

One process makes runs in plain Python while others compile. A run whose kernels are compiled by the time it starts is made
here, compiled. A run that is still going when its kernels are there is made anew here. So a run that is too large for
plain Python takes no longer than without.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from multiprocessing import connection
from typing import Any

from evenstep import kernel_cache
from evenstep.errors import EvenstepError
from evenstep.experiments.children import Child, can_start
from evenstep.experiments.executors import Ended, Here
from evenstep.experiments.warming import Warming

#: Seconds in which plain runs may take processor time from those that compile.
EAGER_S = 20.0
#: Seconds after which a run is given up where no other process compiles meanwhile.
ALONE_S = 10.0
MEANWHILE = "until kernels are compiled, runs are made in plain Python, with the same results"


class PlainFirst(Here):
    """An executor of one job at a time: in a child in plain Python until kernels are compiled, then in this process.

    Both give the same bits. A plain run that ended has ``seconds = 0``: its time does not tell what others cost.

    Args:
        shared, before: as in `Here`.
        warming: the processes that compile. Where it has none, plain runs are given up `ALONE_S` seconds after the start,
            and this process compiles.
        kind: the index of a job's contender in `warming`.

    Attributes:
        made: runs made in plain Python.
    """

    def __init__(self, shared: Any, before: Callable[[Any], None], warming: Warming, kind: Callable[[Any], int]) -> None:
        super().__init__(shared, before)
        self._warming, self._kind = warming, kind
        self._is_alone = warming.are_ready()
        self._child: Child | None = None
        with suppress(pickle.PicklingError, AttributeError, TypeError):  # else it cannot leave this process
            self._child = Child(shared, is_plain=True)
        self._until_s = time.monotonic() + (ALONE_S if self._is_alone else EAGER_S)
        self.made = 0

    @property
    def is_plain(self) -> bool:
        """Whether plain Python is still in use. Reading it ends the child, for good, once all kernels are compiled.

        Where no other process compiles, the child ends `ALONE_S` seconds after the start.
        """
        if self._left_s() <= 0.0 if self._is_alone else self._warming.are_ready():
            self.close()
        return self._child is not None

    def wait(self) -> Ended:
        ended = self._plain(self._job) if self.is_plain and not self._is_compiled(self._job) else None
        if ended is None:
            return super().wait()
        self._job, self.made = None, self.made + 1
        return replace(ended, seconds=0.0)  # it does not say how long the next one takes

    def close(self) -> None:
        if self._child is not None:
            self._child.end()
            self._child = None

    def _is_compiled(self, job: Any) -> bool:
        return not self._is_alone and self._warming.is_ready(self._kind(job))

    def _plain(self, job: Any) -> Ended | None:
        """The run in plain Python; None = it is to be made here, since its kernels are there, or it did not work."""
        assert self._child is not None
        try:
            self._child.pipe.send(job)
            while True:
                found = connection.wait([self._child.pipe, *self._warming.pipes], self._left_s() or None)
                self._warming.note(found)
                if self._child.pipe in found:
                    ended: Ended = self._child.pipe.recv()
                    if ended.error is None or isinstance(ended.error, EvenstepError):
                        return ended
                    break
                if self._is_compiled(job) or (self._is_alone and self._left_s() <= 0.0):
                    break
                if self._left_s() <= 0.0:
                    self._child.give_way()
        except (EOFError, OSError):  # it died
            pass
        self.close()
        return None

    def _left_s(self) -> float:
        return max(0.0, self._until_s - time.monotonic())


def begin(cold: Sequence[Sequence[str]], processes: int, policies: list[Any]) -> tuple[Warming, bool]:
    """Start the processes that compile kernels; returns them, and whether runs begin in plain Python (`PlainFirst`).

    Runs begin plain if a kernel is missing and `may_begin_plain`. At least one other process compiles then; without a cache
    on disk none does. `cold` are the modules to compile (`cold_kernels`), `policies` each contender's, as it was asked for;
    `processes` may compile in parallel to this one.
    """
    if not (any(cold) and may_begin_plain(policies)):
        return Warming(cold, processes), False
    kernel_cache.announce.meanwhile(MEANWHILE)
    return Warming(cold, max(1, processes) if kernel_cache.place().is_kept else 0, all_elsewhere=True), True


def may_begin_plain(policies: list[Any]) -> bool:
    """Whether another process can make the runs of these policies: all are specs (mappings), and `can_start`.

    A policy object may have memory of its own, which another process would lose.
    """
    return can_start() and all(isinstance(policy, Mapping) for policy in policies)
