"""Carries out the jobs of comparisons, sweeps, leaderboards and bisections, in this process or in others.

A crew may begin in this process, and in plain Python if kernels still have to be compiled. It may go on in several processes
or on a Ray cluster. A job is a pure function, so its result has the same bits wherever it runs. Where processes cannot be
forked, using more than one needs the usual ``if __name__ == "__main__"`` guard in a script.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from evenstep import compiled, kernel_cache
from evenstep.experiments.executors import Ended, Executor, Here, Job, Processes, can_fork, cores, is_worthwhile, work_off
from evenstep.experiments.plain_first import MEANWHILE, PlainFirst, may_begin_plain
from evenstep.experiments.progress import Progress
from evenstep.experiments.warming import Warming, cold_kernels, compile_notice


@dataclass(frozen=True, slots=True)
class Places:
    """Where to carry out jobs: in this process, in other processes, or on a Ray cluster."""

    executor: str = "processes"  # ``processes`` or ``ray``
    processes: int | None = 1  # number of processes; None = begin in this one, and use all cores if the jobs take long
    #: address of the Ray cluster; None = the connected one, else RAY_ADDRESS, else a temporary one
    ray_address: str | None = None

    @property
    def most(self) -> int:
        """Most processes of this machine that may run: one a core if `processes` is None, and with Ray."""
        return cores() if self.processes is None or self.executor == "ray" else self.processes


class Asked(Protocol):
    """A policy as the user asked for it: `policy` is a spec or an object; `build` returns the policy and its predictor."""

    @property
    def policy(self) -> Any: ...
    def build(self) -> tuple[Any, Any]: ...


@dataclass(frozen=True, slots=True)
class Kernels:
    """The kernels that jobs need."""

    asked: Sequence[Asked] = ()  # contenders whose kernels the jobs need; empty = nothing is compiled ahead
    #: for each contender, the module of the simulator loop that its runs use (`cluster.host.loop_of`)
    loops: Sequence[str] = ()
    kind: Callable[[Any], int] = lambda job: 0  # returns the index in `asked` of a job's contender
    may_begin_plain: bool = True  # allow runs in plain Python until their kernels are compiled, with the same bits
    #: makes a short run of the contender with this index, so that everything it needs is loaded
    rehearse: Callable[[int], object] = lambda place: None

    def begin(self, places: Places) -> tuple[Warming, bool]:
        """Start processes that compile the kernels missing in the disk cache; each contender is built once to find them.

        Returns the `Warming`, which the caller must end, and True if runs begin in plain Python (`PlainFirst`). They do so
        if `may_begin_plain` is set, a kernel is missing, and another process can make the runs; never with Ray. Then at
        least one other process compiles, unless kernels are not kept on disk.
        """
        cold, beside = cold_kernels([one.build()[0] for one in self.asked], self.loops), places.most - 1
        is_plain = any(cold) and self.may_begin_plain and places.executor != "ray"
        if not (is_plain and may_begin_plain([one.policy for one in self.asked])):
            return Warming(cold, beside), False
        kernel_cache.announce.meanwhile(MEANWHILE)
        return Warming(cold, max(1, beside) if kernel_cache.place().is_kept else 0, all_elsewhere=True), True

    def load(self, warming: Warming, places: Places) -> None:
        """Block until all kernels are compiled. If processes will be forked, load them here, too, for children to inherit.

        In that case a short run of each contender follows (`rehearse`), but not of a user's policy, which may have side
        effects.
        """
        for place, (one, loop) in enumerate(zip(self.asked, self.loops, strict=True)):
            warming.ready(place)
            if can_fork() and places.executor != "ray":
                policy = one.build()[0]
                importlib.import_module(loop)
                compiled.kernel_of(policy)
                if type(policy).__module__.startswith("evenstep."):
                    self.rehearse(place)


class Crew:
    """Carries out jobs, in this process or in others. Processes that it started stay for further jobs until `close`.

    Args:
        shared: object that all jobs need; each process gets it once.
        places: where to carry out jobs; ``Places()`` = one at a time, in their order.
        watch: receives messages on retries and on kernels that cannot be compiled; None = silent.
    """

    def __init__(self, shared: Any, places: Places, watch: Progress | None = None) -> None:
        self._shared, self._places, self._watch = shared, places, watch or Progress()
        self._away: Executor | None = None

    def carry_out(self, jobs: Sequence[Job], kernels: Kernels, *, longest_first: bool = True) -> Iterator[Ended]:
        """Carry out the jobs and yield an `Ended` for each as it ends, with its result or error, which stops no other.

        Jobs are made in this process, or in others if `places` asks for others or once that saves time. In this process, or
        without `longest_first`, they start in their order. In other processes, one job of each kind starts first, then jobs
        of the kind that took longest. `InputError` for a process that died twice over one job, or an unusable cluster.
        """
        places, cost, loaded = self._places, dict[int, float](), False
        allowed = min(places.most, len(jobs))
        if places.executor == "ray":  # find out if the cluster answers before kernels are compiled
            self._move(allowed)
        notice = compile_notice()
        if notice:
            self._watch.say(notice)
        warming, begins_plain = kernels.begin(places)

        def before(job: Any) -> None:
            if kernels.asked:
                warming.ready(kernels.kind(job))

        plain = PlainFirst(self._shared, before, warming, kernels.kind) if begins_plain else None
        here = plain or Here(self._shared, before)

        def away(spent: float, done: int, left: int) -> Executor | None:
            nonlocal loaded
            if plain is not None:
                if plain.is_plain:
                    return None
                done -= plain.made
            asked = places.executor == "ray" or (places.processes or 0) > 1  # by the user, however short the jobs are
            pays = places.processes is None and is_worthwhile(spent, done, left) and warming.are_ready()
            if not loaded and allowed > 1 and (asked or pays):
                kernels.load(warming, places)
                self._move(min(allowed, left))
                loaded = True
            return self._away

        def choose(waiting: Sequence[Any]) -> int:
            if self._away is None or not longest_first:
                return 0
            return longest([kernels.kind(job) for job in waiting], cost)

        with warming:
            try:
                for ended in work_off(jobs, here, away, choose=choose, say=self._watch.say):
                    if ended.seconds > 0.0:
                        cost[kernels.kind(ended.job)] = ended.seconds
                    yield ended
            finally:
                here.close()

    def close(self) -> None:
        """Kill the processes that were started, even in the middle of a job."""
        if self._away is not None:
            self._away.close()
            self._away = None

    def _move(self, count: int) -> None:
        """Prepare an executor of up to `count` processes, or connect to Ray, unless that was done before."""
        if self._away is None and self._places.executor == "ray":
            from evenstep.experiments.on_ray import OnRay

            self._away = OnRay(self._shared, self._places.ray_address)
        elif self._away is None:
            self._away = Processes(count, self._shared)


def longest(kinds: Sequence[int], cost: Mapping[int, float]) -> int:
    """The index of the next job to start: the first of a kind with unknown cost, else the first of the costliest kind.

    `kinds` has the kind of each waiting job. `cost` has the seconds of a job by kind, where known.
    """
    places = {kind: place for place, kind in reversed([*enumerate(kinds)])}
    unknown = [place for kind, place in places.items() if kind not in cost]
    return min(unknown) if unknown else places[max(places, key=lambda kind: cost[kind])]
