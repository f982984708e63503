"""Carries out the jobs of comparisons, sweeps, leaderboards and bisections, in this process or in others.

A crew begins in this process, in plain Python where kernels still have to be compiled, and goes on in several processes or
on a Ray cluster. A job is a pure function, so its result has the same bits wherever it was made. Where processes cannot be
forked, more than one needs the usual ``if __name__ == "__main__"`` guard in a script.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evenstep import compiled
from evenstep.experiments.contenders import Contender
from evenstep.experiments.executors import Ended, Executor, Here, Job, Processes, can_fork, cores, is_worthwhile, work_off
from evenstep.experiments.plain_first import PlainFirst, begin
from evenstep.experiments.progress import Progress
from evenstep.experiments.warming import Warming, cold_kernels, compile_notice


@dataclass(frozen=True, slots=True)
class Places:
    """Where to carry out jobs: this process, other processes, or machines.

    Args:
        executor: ``processes`` or ``ray``.
        processes: how many; None = start in this one, and use all cores if it takes long.
        ray_address: the Ray cluster; None = one on this machine.
    """

    executor: str = "processes"
    processes: int | None = 1
    ray_address: str | None = None

    @property
    def most(self) -> int:
        """Number of processes of this machine that may run: all cores if `processes` is None, and with Ray."""
        return cores() if self.processes is None or self.executor == "ray" else self.processes

    @property
    def are_asked(self) -> bool:
        """Whether the user wants other processes, however short the jobs are: Ray, or more than one process."""
        return self.executor == "ray" or (self.processes or 0) > 1


@dataclass(frozen=True, slots=True)
class Kernels:
    """The kernels that jobs need.

    Args:
        asked: the contenders that differ in their kernels; empty = nothing is compiled ahead.
        loops: for each the module of the loop its runs take (`cluster.host.loop_of`).
        kind: the index of a job's contender in `asked`.
        may_begin_plain: make runs in plain Python until their kernels are compiled, with the same bits.
        rehearse: makes a short run of a contender by its index in `asked`, so that all it needs is loaded.
    """

    asked: Sequence[Contender] = ()
    loops: Sequence[str] = ()
    kind: Callable[[Any], int] = lambda job: 0
    may_begin_plain: bool = True
    rehearse: Callable[[int], object] = lambda place: None

    def begin(self, places: Places) -> tuple[Warming, bool]:
        """Start compiling the kernels that the disk cache lacks, in other processes; each contender is built once.

        Returns the compilation under way, which the caller must end (it is a context manager), and whether runs begin in
        plain Python. With Ray they never do.
        """
        cold = cold_kernels([one.build()[0] for one in self.asked], self.loops)
        if self.may_begin_plain and places.executor != "ray":
            return begin(cold, places.most - 1, [one.policy for one in self.asked])
        return Warming(cold, places.most - 1), False

    def load(self, warming: Warming, places: Places) -> None:
        """Wait until all kernels are compiled; where processes are forked, also load them here, so that children have them.

        Contenders are then rehearsed, but not a policy of the user's: it may do more than decide.
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
    """Carries jobs out, in this process or in others; processes that it started stay for the next jobs until `close`.

    Args:
        shared: what all jobs need; handed to each process once.
        places: where they are carried out; ``Places()`` = in this process, in their order.
        watch: told of retries and of kernels that cannot be compiled; None = silent.
    """

    def __init__(self, shared: Any, places: Places, watch: Progress | None = None) -> None:
        self._shared, self._places, self._watch = shared, places, watch or Progress()
        self._away: Executor | None = None

    def carry_out(self, jobs: Sequence[Job], kernels: Kernels, *, longest_first: bool = True) -> Iterator[Ended]:
        """Carry out the jobs, and yield each as it ends, with its result or error; an error does not stop the others.

        In one process jobs are carried out in their order. In several, the first job of each kind tells what the others
        cost. The longest start first, so that no process is left with a long job at the end; without `longest_first` they
        start in their order, so that jobs next to each other share what they read. The time it takes to compile does not
        count as a job's.

        Raises:
            InputError: a job whose process died twice, or a Ray cluster that cannot be used.
        """
        places, cost, loaded = self._places, dict[int, float](), False
        allowed = min(places.most, len(jobs))
        if places.executor == "ray":  # a cluster that does not answer is known before kernels are compiled
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
            pays = places.processes is None and is_worthwhile(spent, done, left)
            if not loaded and allowed > 1 and (places.are_asked or pays):
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
        """End the processes that were started, even in the midst of a job."""
        if self._away is not None:
            self._away.close()
            self._away = None

    def _move(self, count: int) -> None:
        """Start the processes, if they are not there yet."""
        if self._away is None and self._places.executor == "ray":
            from evenstep.experiments.on_ray import OnRay

            self._away = OnRay(self._shared, self._places.ray_address)
        elif self._away is None:
            self._away = Processes(count, self._shared)


def longest(kinds: Sequence[int], cost: Mapping[int, float]) -> int:
    """The index of the next job by the kinds of those that wait: of an unknown cost first, else of the costliest kind.

    `cost` has the seconds of a job by kind, where known.
    """
    places = {kind: place for place, kind in reversed([*enumerate(kinds)])}
    unknown = [place for kind, place in places.items() if kind not in cost]
    return min(unknown) if unknown else places[max(places, key=lambda kind: cost[kind])]
