"""Makes runs of a sweep or leaderboard, in this process, in several, or on Ray; caches each result at once."""

from __future__ import annotations

from collections.abc import Sequence

from evenstep.experiments.crew import Crew, Kernels, Places
from evenstep.experiments.progress import Progress
from evenstep.experiments.sweep.cache import Cache
from evenstep.experiments.sweep.task import KEPT, Task, Workloads, at


class Interrupted(KeyboardInterrupt):
    """Ctrl-C while a sweep ran: `made` runs are finished and cached, `left` of the present `make` are not in the cache."""

    def __init__(self, made: int, left: int) -> None:
        super().__init__(f"{made} runs are kept, {left} are left")
        self.made, self.left = made, left


class Runs:
    """Carries out tasks and caches their results. Started processes stay for further tasks until `close`.

    Args:
        cache: gets every result at once.
        workloads: workloads that were read already; handed to each process.
        places: where runs are made.
        watch: receives messages.
    """

    def __init__(self, cache: Cache, workloads: Workloads, places: Places, watch: Progress) -> None:
        self.cache, self._watch, self._crew = cache, watch, Crew(workloads, places, watch)
        self.made = 0  # runs made so far, over all calls of `make`

    def make(self, tasks: Sequence[Task], *, may_begin_plain: bool = True) -> None:
        """Carry out all tasks, started as `_by_replicates` orders them, and cache each result under its task's key.

        Args:
            tasks: the runs; they are made even if the cache has them.
            may_begin_plain: allow runs in plain Python until their kernels are compiled, with the same bits.

        Raises:
            InputError, PolicyError: from the first run that fails, with the point it failed at.
            Interrupted: Ctrl-C; finished runs are in the cache.
        """
        if not tasks:
            return
        tasks = _by_replicates(tasks)
        asked = {(task.contender.name, task.loop): task.contender for task in tasks}
        places = {kind: place for place, kind in enumerate(asked)}
        kernels = Kernels(
            [*asked.values()],
            [loop for _, loop in asked],
            lambda task: places[task.contender.name, task.loop],
            may_begin_plain,
        )
        self._watch.begin(len(tasks))
        try:
            for ended in self._crew.carry_out(tasks, kernels, longest_first=False):
                if ended.error is not None:
                    raise at(ended.job.label, ended.error)
                self.cache.put(ended.job.key, ended.result)
                self.made += 1
                self._watch.advance(ended.job.contender.name)
        except KeyboardInterrupt:
            left = sum(self.cache.get(task.key) is None for task in tasks)
            raise Interrupted(self.made, left) from None
        finally:
            self._watch.end()

    def close(self) -> None:
        """End the processes that were started, if any."""
        self._crew.close()


def _by_replicates(tasks: Sequence[Task]) -> list[Task]:
    """The tasks in their order, but at each point all policies run `KEPT` replicates before any runs the next ones.

    So a process finds a replicate that it made for one policy when the others need it.
    """
    points = {id(task.settings): place for place, task in reversed([*enumerate(tasks)])}
    return sorted(tasks, key=lambda task: (points[id(task.settings)], task.index // KEPT))
