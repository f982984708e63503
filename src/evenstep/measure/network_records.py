"""The records of a run of a network of engines that serve agent tasks, and every figure computed from them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from evenstep.errors import InputError, check_known
from evenstep.measure.comparison import Interval, mean_interval, paired
from evenstep.measure.digest import combined
from evenstep.measure.engine_records import EngineRun, latencies
from evenstep.measure.frames import Tabular
from evenstep.measure.records import RecordTable
from evenstep.measure.stability import Stability, Verdict, in_system, judged, moments_of
from evenstep.request import F8, I8
from evenstep.wording import counted

#: Figures that a live run and a simulated one show next to each other.
LIVE = ("task_mean_s", "task_p95_s", "call_mean_s")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TaskTable(RecordTable):
    """One row for each agent task, in order of arrival; T rows."""

    task_type: I8  # index of its type in `NetworkRun.types`
    arrival_s: F8  # clock at its arrival
    finished_s: F8  # clock at the end of its last call; nan if a call is not done
    calls: I8  # number of all its calls
    tokens: I8  # tokens (prompt and output) that engines ran for the calls done


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CallTable(RecordTable):
    """One row for each call, in order of task; C rows, including calls that were never sent."""

    task: I8  # its row in `TaskTable`
    kind: I8  # its index in `NetworkRun.kinds`
    engine: I8  # index of the engine that it was sent to; -1 if not sent
    released_s: F8  # clock when it was sent, after the calls before it and its delay; inf if not sent
    finished_s: F8  # clock at its end; nan if it is not done


@dataclass(frozen=True, eq=False)
class NetworkRun(Tabular):
    """One run of a network of engines that serve agent tasks.

    ``print(run)`` shows its tables, and a notebook shows them as HTML.

    Args:
        name, order: the network's name, and the order in which calls wait at an engine, as in the network file.
        seed: key of every random draw.
        types: names of the types of tasks.
        kinds: for each kind of call, the names of its task type and of the call.
        engines: E runs by name of the engine; their order gives an engine's index. A request id is a row of `calls`.
        groups: section of the network file -> names of its engines; a single engine has the name of its section.
        times_s: float64[S], clock at regular samples from 0 on, seconds.
        requests, tokens: int64[S, E], calls in each engine at a sample, waiting ones included, and tokens these have to run.
        left: int64[E], tokens that the calls in each engine still had to run when the run ended.
        until_s: clock at the stop of the run, or at its last event if that is earlier, seconds.
        counted_s: clock until which tasks arrived; stability is judged over its second half. 0 = all tasks came at once, and
            stability is not judged.
    """

    name: str
    order: str
    seed: int
    types: tuple[str, ...]
    kinds: tuple[tuple[str, str], ...]
    engines: dict[str, EngineRun]
    groups: Mapping[str, tuple[str, ...]]
    tasks: TaskTable
    calls: CallTable
    times_s: F8
    requests: I8
    tokens: I8
    left: I8
    until_s: float
    counted_s: float

    def __repr__(self) -> str:
        return f"<run of {self.name or 'a network'} in order {self.order}, {counted(self.tasks.calls.size, 'task')}>"

    def __str__(self) -> str:
        """The tables that `evenstep network run` prints."""
        return str(self._alone())

    def _repr_html_(self) -> str:
        """The tables of the report, for a notebook."""
        return self._alone()._repr_html_()

    def _alone(self) -> Any:
        """The run as the only one of its order, which can be shown."""
        import evenstep  # by its name there, since this file may not import reports

        return evenstep.NetworkOrders((Ordered(self.order, (self,), None),))

    def to_arrow(self) -> Any:
        """A `pyarrow.Table` with a row a task, in order of arrival. `TaskTable` and `CallTable` have a `to_arrow`, too.

        Columns are order, seed, task_type (its name), arrival_s, finished_s, latency_s, calls and tokens. ``finished_s`` and
        ``latency_s`` are null if the task is not done by `until_s`.
        """
        import pyarrow as pa

        table, rows = self.tasks, self.tasks.rows
        done_s = np.where(table.finished_s <= self.until_s, table.finished_s, np.nan)
        return pa.table(
            {
                "order": pa.array([self.order] * rows, pa.string()),
                "seed": np.full(rows, self.seed),
                "task_type": pa.array([self.types[k] for k in table.task_type], pa.string()),
                "arrival_s": table.arrival_s,
                "finished_s": pa.array(done_s, from_pandas=True),
                "latency_s": pa.array(done_s - table.arrival_s, from_pandas=True),
                "calls": table.calls,
                "tokens": table.tokens,
            }
        )

    def plot(self, metric: str = "tokens", *, axes: Any = None) -> Any:
        """Draw a line over time for each of the first 16 engines.

        Args:
            metric: ``tokens`` that its calls still have to run, or ``requests``, the calls in it.
            axes: matplotlib axes to draw on, which are returned. None = return a new picture: a notebook shows it,
                ``save("tokens.svg")`` writes it.

        Raises:
            InputError: no such metric, or no axes.
        """
        import evenstep

        return evenstep.network_lines(self, metric).on(axes)

    def report(self, path: str | Path) -> Path:
        """Write the HTML report that ``evenstep network run --report`` writes, without loads; returns its path.

        An existing file is replaced.

        Raises:
            InputError: a name that does not end in ``.html``, or a file that cannot be written.
        """
        return self._alone().report(path)

    @cached_property
    def digest(self) -> str:
        """SHA-256 over all engines' digests in their order (`digest.combined`); with one engine, its own digest."""
        return combined(tuple(run.digest for run in self.engines.values()))

    def stability(self, engine: int | str | None = None) -> Stability:
        """Judge stability by the growth of the number of calls in the engines over the second half of `counted_s`.

        A call counts from its release to its end. `engine` is the name or index of an engine to judge by its own calls; None
        = all together. If all tasks came at once, the verdict is ``undecided`` with nan figures.

        Raises:
            InputError: no such engine.
        """
        if isinstance(engine, str):
            check_known("stability", "engine", engine, self.engines, "a name of an engine")
            engine = list(self.engines).index(engine)
        if engine is not None and engine not in range(len(self.engines)):
            hint = f"Known: {', '.join(self.engines)}."
            raise InputError("stability", "engine", engine, f"an index from 0 to {len(self.engines) - 1}, or a name", hint)
        if self.counted_s <= 0:
            return Stability("undecided", Interval(math.nan, math.nan, math.nan), math.nan)
        came = self.calls.released_s < np.inf
        if engine is not None:
            came &= self.calls.engine == engine
        released, finished = np.sort(self.calls.released_s[came]), np.sort(self.calls.finished_s[came])
        end_s, moments = self.counted_s, moments_of(self.counted_s)
        arrived = np.searchsorted(released, end_s, side="right") - np.searchsorted(released, moments[0])
        return judged(in_system(released, finished, moments), end_s, float(arrived) / (end_s - float(moments[0])))

    def _verdict(self, engine: int | None = None) -> Verdict | None:
        """The verdict of `stability`; None if all tasks came at once."""
        return self.stability(engine).verdict if self.counted_s > 0 else None

    def _busy_share(self, run: EngineRun) -> float:
        """Share of the time up to `until_s` that an engine spent in iterations."""
        after_s = max(run.totals.makespan_s - self.until_s, 0.0)
        return (run.totals.busy_s - after_s) / self.until_s if self.until_s else 0.0

    @cached_property
    def summary(self) -> dict[str, Any]:
        """Every figure by name (`docs/reference/metrics.md`, "A network of engines"); computed on first use and kept.

        Tasks and calls, and their latencies (seconds, nan without a value), are those done by `until_s`. ``types`` and
        ``engines`` hold a dict of further figures for each name. A verdict is None if all tasks came at once.
        """
        done = self.tasks.finished_s <= self.until_s  # a stopped run still finishes its running batches, which do not count
        span = self.tasks.finished_s - self.tasks.arrival_s
        ran = self.calls.finished_s <= self.until_s
        types = {
            name: {"tasks": int((own := done & (self.tasks.task_type == k)).sum()), **latencies("task", span[own])}
            for k, name in enumerate(self.types)
        }
        engines = {
            name: {
                "verdict": self._verdict(e),
                "requests": run.totals.requests,
                "unfinished": run.totals.unfinished,
                "busy_share": self._busy_share(run),
                "tokens_left": int(self.left[e]),
                "iterations": run.totals.iterations,
                "evictions": run.totals.evictions,
            }
            for e, (name, run) in enumerate(self.engines.items())
        }
        return {
            "tasks": int(done.sum()),
            "unfinished_tasks": int((~done).sum()),
            "calls": int(ran.sum()),
            "tasks_per_s": float(done.sum()) / self.until_s if self.until_s else 0.0,
            **latencies("task", span[done]),
            **latencies("call", (self.calls.finished_s - self.calls.released_s)[ran]),
            "makespan_s": self.until_s,
            "tokens_left": int(self.left.sum()),
            "verdict": self._verdict(),
            "types": types,
            "engines": engines,
        }


@dataclass(frozen=True, slots=True, eq=False)
class Ordered:
    """Runs with one order in which calls wait at engines, one for each replicate.

    Args:
        runs: one run for each seed; all orders have the same seeds in the same order.
        versus: paired differences by figure, this order minus the first one; None for the first itself.
    """

    order: str
    runs: tuple[NetworkRun, ...]
    versus: Mapping[str, Interval] | None

    def mean(self, figure: str) -> Interval:
        """A numeric field of the summaries averaged over the runs, with its 95 % t-interval; one run gives no ends."""
        return mean_interval([float(run.summary[figure]) for run in self.runs])


@dataclass(frozen=True, slots=True, eq=False)
class Live:
    """The figures of one live run of a network's tasks, sent through a gateway to emulated engines."""

    order: str  # in which calls wait at an engine
    seed: int  # key of every random draw
    tasks: int  # number of all tasks that came
    unfinished: int  # number of those not done when the run stopped
    failed: int  # number of calls that ended with an error
    #: of tasks and calls that were done, by name as in a simulated summary, such as ``task_p95_s``; in seconds on the time
    #: scale of the network file
    latencies: Mapping[str, float]


@dataclass(frozen=True, slots=True, eq=False)
class LiveOrdered:
    """The figures of one order of calls over all replicates, either simulated or live."""

    order: str
    way: str  # ``simulated`` or ``live``
    means: Mapping[str, Interval]  # mean and 95 % interval over replicates, by figure of `LIVE`
    #: paired differences by figure to the first order in the same `way`, this minus first; None for the first
    versus: Mapping[str, Interval] | None


def live_orders(pairs: Sequence[tuple[NetworkRun, Live]]) -> list[LiveOrdered]:
    """Average and compare orders of calls: a ``simulated`` and a ``live`` result for each, in order of first appearance.

    `pairs` has a simulated run and its live counterpart for each order and seed, at least one; every order has the same
    seeds in the same sequence. Differences are taken to the first order, simulated to simulated and live to live.
    """
    values: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for run, live in pairs:
        values.setdefault((run.order, "simulated"), []).append(run.summary)
        values.setdefault((run.order, "live"), []).append(live.latencies)
    found: list[LiveOrdered] = []
    for (order, way), own in values.items():
        first = values[pairs[0][0].order, way]
        means = {name: mean_interval([one[name] for one in own]) for name in LIVE}
        found.append(LiveOrdered(order, way, means, None if own is first else paired(own, first, LIVE)))
    return found
