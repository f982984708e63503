"""The leaderboard: policies on the workloads of a board, with the same requests and random draws, ranked.

Runs are cached and shared as in a sweep (`sweep.runs`), so a stopped board continues where it stopped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

from evenstep import names
from evenstep.errors import InputError, check_known
from evenstep.experiments.contenders import Contender, contender
from evenstep.experiments.crew import Places
from evenstep.experiments.leaderboard.file import Workload, read_board
from evenstep.experiments.leaderboard.table import Cell, Origin, Table, WorkloadLine, cell_of
from evenstep.experiments.progress import Progress
from evenstep.experiments.sweep.cache import Cache
from evenstep.experiments.sweep.key import key_of
from evenstep.experiments.sweep.runs import Runs
from evenstep.experiments.sweep.task import Task, Workloads
from evenstep.measure.comparison import check_replicates
from evenstep.routing.view import horizon_of
from evenstep.sim.cluster.host import loop_of

_LIVE = "predictor=live"


@dataclass(frozen=True, slots=True)
class _EmptyCell:
    """A cell to be filled: a workload, a policy as the board lists it, the contender it means there, and its replicates."""

    workload: Workload
    policy: str
    contender: Contender
    seeds: int


class Board:
    """A board, read and checked before the first run: workloads are read, policies are built.

    It ranks every built-in routing policy at its defaults, then the policies that the file adds. Other packages add none.

    Args:
        path: the BOARD.yaml.
        workloads, policies: only these; all when empty. A policy's name alone selects all its entries.
        cache: folder for finished runs; None = they are kept in memory only.
        progress: receives messages; None = silent.

    Attributes:
        file: the content of the file.
        made: number of runs that `run` made so far; all others came from the cache.

    Raises:
        InputError: a bad board, workload or policy.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        workloads: Sequence[str] = (),
        policies: Sequence[str] = (),
        cache: str | Path | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.file, every, document = read_board(path)
        defaults = _defaults()
        listed = list(dict.fromkeys([*defaults, *self.file.policies]))
        slow = [one for one in self.file.slow if one not in names.built_in("routing")]
        for text, kind in ((self.file.policies, "policies"), (slow, "slow")):
            for one in text:
                _check_policy(document.where(kind), kind, one)
        wanted = _chosen("--workload", workloads, {one.name: [one.name] for one in every})
        self._workloads = [one for one in every if one.name in wanted]
        by_name: dict[str, list[str]] = {}
        for text in listed:
            by_name.setdefault(text.partition(":")[0], []).append(text)
        self._policies = _chosen("--policy", policies, {**{text: [text] for text in listed}, **by_name})
        self._cache = Cache(Path(cache) if cache is not None else None)
        self._read = Workloads()
        self._watch = progress if progress is not None else Progress()
        self._plans = {one.name: self._read.checked_plan(one.name, one.settled, one.settings) for one in self._workloads}
        self.made = 0
        self._asked: list[_EmptyCell] = []
        for workload, policy in product(self._workloads, self._policies):
            slow = self.file.slow.get(policy) or self.file.slow.get(policy.partition(":")[0])
            if slow is None or workload.name not in slow.leave_out:
                one = contender(policy.replace(_LIVE, f"predictor={workload.line.predictor}"))
                if policy in defaults:
                    one = replace(one, policy=defaults[policy])
                one.build()  # as a check
                self._asked.append(_EmptyCell(workload, policy, one, self.file.seeds if slow is None else slow.seeds))

    @property
    def cells(self) -> list[tuple[str, str]]:
        """(workload, policy) of every selected cell, workload by workload; cells left out for a slow policy are absent."""
        return [(one.workload.name, one.policy) for one in self._asked]

    @property
    def lines(self) -> tuple[WorkloadLine, ...]:
        """The description of each selected workload for a page, in the file's order."""
        return tuple(one.line for one in self._workloads)

    def run(self, places: Places, only: Sequence[tuple[str, str]] | None = None) -> list[Cell]:
        """Make the runs of the cells that the cache lacks, end the processes started, and return the filled cells in order.

        `only` has the (workload, policy) of the cells to fill; None = all of `cells`. Unknown ones are ignored.

        Raises:
            InputError: two replicates of a cell are copies.
            InputError, PolicyError: from the first run that fails, with its place on the board.
            Interrupted: Ctrl-C; finished runs are in the cache.
        """
        chosen = [one for one in self._asked if only is None or (one.workload.name, one.policy) in only]
        tasks = [[self._task(one, index) for index in range(one.seeds)] for one in chosen]
        runs = Runs(self._cache, self._read, places, self._watch)
        try:
            needed = {task.key: task for row in tasks for task in row if self._cache.get(task.key) is None}
            runs.make([*needed.values()])
        finally:
            self.made += runs.made
            runs.close()
        filled: list[Cell] = []
        for one, row in zip(chosen, tasks, strict=True):
            found = [self._cache.kept(task.key) for task in row]
            check_replicates(f"{one.workload.name}, {one.policy}", [run["digest"] for run in found])
            named = {"workload": one.workload.name, "policy": one.policy}
            filled.append(cell_of([{**run["summary"], **run, **named} for run in found]))
        return filled

    def table(self, cells: Sequence[Cell], origin: Origin) -> Table:
        """The leaderboard of these cells. Its picture shows selected workloads of the file's `picture`, else the first."""
        shown = {one.name for one in self._workloads}
        picture = [name for name in self.file.picture if name in shown] or [self._workloads[0].name]
        return Table(self.lines, tuple(cells), tuple(picture), origin)

    def _task(self, asked: _EmptyCell, index: int) -> Task:
        settings = asked.workload.settings
        plan = self._plans[asked.workload.name]
        printed = self._read.print_of(plan, settings, index)
        loop = loop_of(asked.contender.build()[0], plan.cluster, plan.step_time)
        key = key_of(plan, asked.contender, printed, index)
        label = f"{asked.workload.name}, {asked.policy}, replicate {index}"
        return Task(key, settings, asked.contender, index, label, loop)


def _defaults() -> dict[str, dict[str, str]]:
    """Specs of the built-in policies at their defaults (``predictor=live`` if they look ahead), with their full names."""
    found = {name: {"name": full} for name, full in names.built_in("routing").items()}
    return {
        f"{name}:{_LIVE}" if horizon_of(names.build("routing", full)) > 0 else name: full for name, full in found.items()
    }


def _check_policy(where: str, field: str, text: str) -> None:
    """Raise an `InputError` that names file and line if a policy cannot be built; under ``slow`` it needs no predictor."""
    try:
        contender(text.replace(_LIVE, "predictor=survival")).build()
    except InputError as error:
        if field == "slow" and error.field == "predictor":
            return  # a name alone stands for all listed entries of the policy, which have predictors
        raise InputError(f"{where}: {error.where}", error.field, error.value, error.expected, error.hint) from None


def _chosen(flag: str, asked: Sequence[str], known: Mapping[str, list[str]]) -> list[str]:
    """The items that the names `asked` select, in the order of the board; all if it is empty. `known` has a name's items."""
    for name in asked:
        check_known("evenstep leaderboard", flag, name, known, "one on the board")
    every = list(dict.fromkeys(one for found in known.values() for one in found))
    wanted = [one for name in asked for one in known[name]]
    return [one for one in every if one in wanted] if asked else every
