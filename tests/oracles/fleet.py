"""What the reference simulator keeps: requests, workers and barrier groups as plain objects."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from evenstep.request import Trace
from evenstep.sim.cluster.drift import rounded
from evenstep.sim.cluster.simulation import Cluster


@dataclass(slots=True, eq=False)
class Job:
    """One request on its way: `done` of its `steps` decode steps are behind it.

    Args:
        row: row of the trace.
        steps: decode steps it takes in all.
        visible_s: origin of waiting in the records: arrival, revelation or becoming visible.
        since_s: when it entered the pool for the first time; the pool is kept in order of (since_s, row).
        done: decode steps behind it; kept when it goes back to the pool.
        sent: whether a decision has sent it to a worker before.
        worker, admitted_step: where and at which step of that group it started last.
        admitted_s, first_token_s: clock at the start and end of its first decode step; nan before.
        finished_s, finished_step: clock after, and number of, its last decode step.
        restarts: times it went back to the pool.
    """

    row: int
    steps: int
    visible_s: float
    since_s: float
    done: int = 0
    sent: bool = False
    worker: int = -1
    admitted_step: int = -1
    admitted_s: float = math.nan
    first_token_s: float = math.nan
    finished_s: float = math.nan
    finished_step: int = -1
    restarts: int = 0


@dataclass(slots=True, eq=False)
class Worker:
    """One rank: what decodes in its slots, and what queues for them, first in first out."""

    index: int
    slots: int
    running: list[Job] = field(default_factory=list[Job])
    queue: list[Job] = field(default_factory=list[Job])
    lost: bool = False


@dataclass(slots=True, eq=False)
class Group:
    """Workers behind one barrier: `step` steps are done; `end_s` is the end of the one under way, None when idle."""

    index: int
    workers: list[Worker]
    step: int = 0
    end_s: float | None = None


def build(cluster: Cluster) -> list[Group]:
    """The barrier groups of a fleet, workers numbered through."""
    workers = [Worker(g, slots) for g, slots in enumerate(cluster.slots_of)]
    groups: list[Group] = []
    first = 0
    for size in cluster.group_sizes:
        groups.append(Group(len(groups), workers[first : first + size]))
        first += size
    return groups


class Loads:
    """KV load of every request at every step, from the fleet's drift; sums of these are exact in any order."""

    def __init__(self, trace: Trace, cluster: Cluster) -> None:
        self._prompts = [int(s) for s in trace.prompt_tokens]
        self._outputs = [int(o) for o in trace.output_tokens]
        self._drift = cluster.drift
        self._gained = [0.0]  # of a sequence, before step j

    def at(self, row: int, step: int) -> float:
        """KV tokens of a request in its decode step number `step`, from 0; a profile's last load goes on."""
        drift = self._drift
        if drift.profiles is not None:
            first, end = int(drift.profiles.offsets[row]), int(drift.profiles.offsets[row + 1])
            return rounded(float(drift.profiles.values[min(first + step, end - 1)]))
        if drift.sequence:
            while len(self._gained) <= step:
                delta = drift.sequence[min(len(self._gained), len(drift.sequence)) - 1]
                self._gained.append(self._gained[-1] + rounded(delta))
            return max(0.0, self._prompts[row] + self._gained[step])
        return self._prompts[row] + step * rounded(drift.growth)

    def age(self, job: Job) -> int:
        """Output tokens a running request has produced, as a predictor is told; steps where it has a profile."""
        return job.done * self.tokens_per_step

    def length(self, row: int) -> int:
        """What a request has produced at its end, counted as in `age`."""
        profiles = self._drift.profiles
        return self._outputs[row] if profiles is None else int(profiles.offsets[row + 1] - profiles.offsets[row])

    @property
    def has_profiles(self) -> bool:
        return self._drift.profiles is not None

    @property
    def tokens_per_step(self) -> int:
        """What a predictor counts for a step."""
        return 1 if self.has_profiles else self._drift.tokens_per_step

    def tokens(self, job: Job, done: int) -> int:
        """Output tokens produced in the first `done` steps; whatever its profile, the last step yields the rest."""
        output = self._outputs[job.row]
        return output if done == job.steps else min(output, done * self._drift.tokens_per_step)
