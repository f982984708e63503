"""Making the runs of a sweep that are not there yet: in this process, in several, or on Ray; each is kept at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evenstep.errors import InputError, PolicyError
from evenstep.experiments.executors import Ended, Executor, Here, Processes, cores, is_worthwhile, work_off
from evenstep.experiments.plain_first import PlainFirst, begin
from evenstep.experiments.progress import Progress, cold_kernels, compile_notice
from evenstep.experiments.sweep.cache import Cache
from evenstep.experiments.sweep.task import Task, Workloads
from evenstep.experiments.warming import Warming


@dataclass(frozen=True, slots=True)
class Places:
    """Where runs are made.

    Args:
        executor: ``processes`` or ``ray``.
        processes: how many; None = start in this one, and use all cores if it takes long.
        ray_address: the Ray cluster; None = one on this machine.
    """

    executor: str = "processes"
    processes: int | None = 1
    ray_address: str | None = None


class Interrupted(KeyboardInterrupt):
    """Ctrl-C while a sweep ran.

    Args:
        made: runs of this call that are finished and kept.
        left: runs that were not.
    """

    def __init__(self, made: int, left: int) -> None:
        super().__init__(f"{made} runs are kept, {left} are left")
        self.made, self.left = made, left


class Runs:
    """Carries tasks out and keeps what they find; processes that were started stay for the next tasks until `close`.

    Args:
        cache: takes every result as soon as it is there.
        workloads: what was read already.
        places: where runs are made.
        watch: told what happens.
    """

    def __init__(self, cache: Cache, workloads: Workloads, places: Places, watch: Progress) -> None:
        self.cache, self._workloads, self._places, self._watch = cache, workloads, places, watch
        self._away: Executor | None = None
        self.made = 0

    def make(self, tasks: Sequence[Task], *, may_begin_plain: bool = True) -> None:
        """Carry the tasks out.

        Args:
            tasks: the runs.
            may_begin_plain: make runs in plain Python until their kernels are compiled, with the same bits.

        Raises:
            InputError, PolicyError: from the first run that fails, with the point it failed at.
            Interrupted: Ctrl-C.
        """
        if not tasks:
            return
        asked = {(task.contender.name, task.loop): task.contender for task in tasks}
        kinds, policies = list(asked), [one.build()[0] for one in asked.values()]
        loops = [loop for _, loop in kinds]
        if self._places.executor == "ray":  # a cluster that does not answer is known before kernels are compiled
            self._move(len(tasks))
        notice = compile_notice()
        if notice:
            self._watch.say(notice)
        beside = cores() - 1 if self._allowed(len(tasks)) > 1 else 0
        cold = cold_kernels(policies, loops)
        if self._places.executor == "ray" or not may_begin_plain:
            warming, begins_plain = Warming(cold, beside), False
        else:
            warming, begins_plain = begin(cold, beside, [one.policy for one in asked.values()])
        self._watch.begin(len(tasks))

        def kind(task: Task) -> int:
            return kinds.index((task.contender.name, task.loop))

        here = Here(self._workloads, lambda task: warming.ready(kind(task)))
        plain = PlainFirst(here, self._workloads, warming, kind) if begins_plain else None

        def away(spent: float, done: int, left: int) -> Executor | None:
            if plain is not None and plain.is_plain:
                return None
            return self._elsewhere(warming, len(kinds), (spent, done - (plain.made if plain else 0), left))

        try:
            for ended in work_off(tasks, plain or here, away, say=self._watch.say):
                self._take(ended)
        except KeyboardInterrupt:
            left = sum(self.cache.get(task.key) is None for task in tasks)
            raise Interrupted(self.made, left) from None
        finally:
            (plain or here).close()
            warming.end()
            self._watch.end()

    def close(self) -> None:
        """Let the processes go."""
        if self._away is not None:
            self._away.close()
            self._away = None

    def _allowed(self, tasks: int) -> int:
        return min(self._places.processes if self._places.processes is not None else cores(), tasks)

    def _move(self, tasks: int) -> None:
        """Start the processes, if they are not there yet."""
        if self._away is not None:
            return
        if self._places.executor == "ray":
            from evenstep.experiments.on_ray import OnRay

            self._away = OnRay(self._workloads, self._places.ray_address)
        elif self._places.processes is not None or self._allowed(tasks) > 1:
            self._away = Processes(self._allowed(tasks), self._workloads)

    def _elsewhere(self, warming: Warming, kinds: int, state: tuple[float, int, int]) -> Executor | None:
        """The processes, if they are there already or now worth their start.

        Args:
            warming: compiles the kernels, those of so many `kinds`.
            state: seconds spent, compiled runs done, and runs left.
        """
        is_asked = self._places.executor == "ray" or (self._places.processes or 0) > 1
        if is_asked or (self._places.processes is None and is_worthwhile(*state)):
            for number in range(kinds if is_asked else 0):  # children that are forked have them at once
                warming.ready(number)
            self._move(state[2])
        return self._away

    def _take(self, ended: Ended) -> None:
        """Keep what a task found, or raise what it raised, with the point it happened at."""
        task: Task = ended.job
        if ended.error is not None:
            raise at(task.label, ended.error)
        self.cache.put(task.key, ended.result)
        self.made += 1
        self._watch.advance(task.contender.name)


def at(label: str, error: Exception) -> Exception:
    """The error with the point at which it came up."""
    if isinstance(error, InputError):
        if error.where.startswith(label):
            return error
        return InputError(f"{label}: {error.where}", error.field, error.value, error.expected, error.hint)
    if isinstance(error, PolicyError):
        return PolicyError(f"{label}: {error}")
    return error
