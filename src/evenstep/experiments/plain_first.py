"""Makes the first runs of a comparison in plain Python on a machine without compiled kernels, with equal bits.

One child process makes runs in plain Python while others compile. A run whose kernels are compiled when it starts is made
compiled, in this process. If the kernels are ready during a plain run, that run is stopped and made anew, compiled. If no
other process compiles, plain runs end `ALONE_S` seconds after the start.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from multiprocessing import connection
from typing import Any

from evenstep.errors import EvenstepError
from evenstep.experiments.children import Child, can_start
from evenstep.experiments.executors import Ended, Here
from evenstep.experiments.warming import Warming

#: Seconds in which plain runs may take processor time from the processes that compile.
EAGER_S = 20.0
#: Seconds after the start at which a plain run is given up if no other process compiles.
ALONE_S = 10.0
MEANWHILE = "until kernels are compiled, runs are made in plain Python, with the same results"


class PlainFirst(Here):
    """An executor of one job at a time: in a child in plain Python until kernels are compiled, then in this process.

    Both give the same bits. A plain run ends with ``seconds = 0``, because its time does not predict that of others.

    Args:
        shared, before: the object that all jobs need, and a call before each job in this process, with the job.
        warming: the processes that compile. Without any, the child ends `ALONE_S` seconds after the start, and this process
            compiles.
        kind: returns the index of a job's contender in `warming`.

    Attributes:
        made: number of runs made in plain Python.
    """

    def __init__(self, shared: Any, before: Callable[[Any], None], warming: Warming, kind: Callable[[Any], int]) -> None:
        super().__init__(shared, before)
        self._warming, self._kind = warming, kind
        self._is_alone = warming.are_ready()
        self._child: Child | None = None
        with suppress(pickle.PicklingError, AttributeError, TypeError):  # such an object cannot be sent to a child
            self._child = Child(shared, is_plain=True)
        self._until_s = time.monotonic() + (ALONE_S if self._is_alone else EAGER_S)
        self.made = 0

    @property
    def is_plain(self) -> bool:
        """True while plain Python is in use. Reading this ends the child for good once all kernels are compiled.

        If no other process compiles, reading this ends the child as soon as `ALONE_S` seconds have passed since the start.
        """
        if self._left_s() <= 0.0 if self._is_alone else self._warming.are_ready():
            self.close()
        return self._child is not None

    def wait(self) -> Ended:
        ended = self._plain(self._job) if self.is_plain and not self._is_compiled(self._job) else None
        if ended is None:
            return super().wait()
        self._job, self.made = None, self.made + 1
        return replace(ended, seconds=0.0)  # a plain run does not tell the cost of later ones

    def close(self) -> None:
        if self._child is not None:
            self._child.end()
            self._child = None

    def _is_compiled(self, job: Any) -> bool:
        """True if other processes have compiled all kernels that the job needs."""
        return not self._is_alone and self._warming.is_ready(self._kind(job))

    def _plain(self, job: Any) -> Ended | None:
        """Make the run in the child. None = the child was ended, so the run has to be made here.

        The child is ended if it failed, if the job's kernels are ready, or, where no other process compiles, if its time is
        over. Where others compile, it gets the lowest priority when its time is over (`_left_s`).
        """
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
        """Seconds, >= 0, until the child gets the lowest priority, or ends if no other process compiles."""
        return max(0.0, self._until_s - time.monotonic())


def may_begin_plain(policies: list[Any]) -> bool:
    """True if another process can make the runs of these policies: all are specs (mappings), and `can_start`.

    A policy object may have memory of its own, which another process would lose.
    """
    return can_start() and all(isinstance(policy, Mapping) for policy in policies)
