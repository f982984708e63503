"""One run of a sweep as a task for any process, with a check that its inputs are the same there."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from evenstep.config.layers import Settled
from evenstep.cost.linear import Linear
from evenstep.errors import InputError, PolicyError
from evenstep.experiments.contenders import Contender
from evenstep.experiments.jobs import Plan, fingerprint
from evenstep.experiments.settings import CompareSettings, check_fits
from evenstep.experiments.sources import Reading, plan_of
from evenstep.experiments.sweep.key import key_of
from evenstep.request import Trace
from evenstep.workload.synthetic.yaml_file import Workload

#: Replicates a process keeps, so that the policies of a point share them.
KEPT = 8


@dataclass(frozen=True, slots=True)
class Task:
    """One run of a sweep (`executors.Job`)."""

    key: str  # SHA-256 of all its inputs (`sweep.key.key_of`)
    settings: CompareSettings  # the point's settings
    contender: Contender  # policy and predictor
    index: int  # the replicate, from 0
    label: str  # its name in messages
    loop: str  # module of the compiled loop that it uses (`cluster.host.loop_of`)

    def carry_out(self, shared: Workloads) -> dict[str, Any]:
        """Make the run, on a replicate that `shared` reads or has cached.

        Returns JSON values: ``replicate``, ``seed``, ``digest``, ``trace`` (SHA-256 of its requests), ``predictor`` (text),
        ``oracle`` (bool), ``summary`` (metrics by name), and ``seconds`` that the run took.

        Raises:
            InputError: this process would make another run than the one asked for: other files, code or versions.
            PolicyError: the policy broke its contract.
        """
        plan = shared.plan(self.settings)
        trace, printed = shared.replicate(plan, self.settings, self.index)
        if key_of(plan, self.contender, printed, self.index) != self.key:
            hint = "Use one version of evenstep, NumPy and all files everywhere, and leave them alone while a sweep runs."
            expected = "the one that was asked for, from the same files and code"
            raise InputError(self.label, "run", "another one here", expected, hint)
        started = time.perf_counter()
        run = plan.run(self.contender, self.index, trace)
        summary = run.summary
        return {
            "replicate": self.index,
            "seed": run.conditions.seed,
            "digest": run.digest,
            "trace": printed,
            "predictor": run.conditions.predictor,
            "oracle": run.conditions.oracle,
            "summary": summary,
            "seconds": time.perf_counter() - started,
        }


class Workloads:
    """Caches workloads, each read once, the last `KEPT` replicates, and the SHA-256 of every replicate.

    `sources` are workloads that were read already, for instance in another process; the mapping is copied.
    """

    def __init__(self, sources: Mapping[Reading, Workload] | None = None) -> None:
        self.sources: dict[Reading, Workload] = dict(sources or {})
        self._traces: OrderedDict[tuple[Any, ...], tuple[Trace, str]] = OrderedDict()
        self._prints: dict[tuple[Any, ...], str] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle only the workloads that were read; the receiving process makes replicates anew."""
        return Workloads, (self.sources,)

    def plan(self, settings: CompareSettings) -> Plan:
        """The plan that the runs of a point share, made anew at each call; its workload is read if it is not cached."""
        key = Reading.of(settings)
        if key not in self.sources:
            self.sources[key] = key.workload()
        return plan_of(settings, self.sources[key])

    def checked_plan(self, label: str, settled: Settled[CompareSettings], settings: CompareSettings) -> Plan:
        """The point's plan, as `plan`, after a check that its trace has the columns that its arrivals need (`check_fits`).

        `settings` are the settled ones after `settings.checked`. An `InputError` names the point by its label.
        """
        try:
            plan = self.plan(settings)
            check_fits(settled, plan.source)
        except InputError as error:
            raise at(label, error) from None
        return plan

    def replicate(self, plan: Plan, settings: CompareSettings, index: int) -> tuple[Trace, str]:
        """The requests of a point's replicate `index`, and their SHA-256 (`jobs.fingerprint`); made if they are not cached.

        Call `plan` with these settings first: it reads the workload.
        """
        place = self._place(plan, settings, index)
        if place not in self._traces:
            trace = plan.replicate(index)
            self._prints[place] = fingerprint(trace)
            self._traces[place] = trace, self._prints[place]
            if len(self._traces) > KEPT:
                self._traces.popitem(last=False)
        self._traces.move_to_end(place)
        return self._traces[place]

    def print_of(self, plan: Plan, settings: CompareSettings, index: int) -> str:
        """The SHA-256 of a replicate's requests, which are made only if it is unknown; `plan` must have been called."""
        place = self._place(plan, settings, index)
        return self._prints[place] if place in self._prints else self.replicate(plan, settings, index)[1]

    def _place(self, plan: Plan, settings: CompareSettings, index: int) -> tuple[Any, ...]:
        """The cache key of a replicate: points with the same key have the same replicate."""
        key = Reading.of(settings)
        if plan.source is self.sources[key].source:
            return key, index
        fleet = plan.cluster.workers, plan.cluster.slots_of, plan.cluster.group_sizes
        law = repr(plan.step_time) if isinstance(plan.step_time, Linear) else ""  # scaling to a load needs a linear law
        return key, index, settings.rate, settings.load, fleet, law


def at(label: str, error: Exception) -> Exception:
    """A copy of an `InputError` or `PolicyError` that begins with the point's label; any other error itself.

    An `InputError` that begins with the label already is returned itself.
    """
    if isinstance(error, InputError):
        if error.where.startswith(label):
            return error
        return InputError(f"{label}: {error.where}", error.field, error.value, error.expected, error.hint)
    if isinstance(error, PolicyError):
        return PolicyError(f"{label}: {error}")
    return error
