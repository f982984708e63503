"""The tasks of a network, drawn: every call with its lengths, and which calls wait for which.

Draws for a call are keyed by (seed, stream of the call, task, visit): a task has the same calls in every network with it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evenstep import streams
from evenstep.errors import InputError
from evenstep.request import F8, I8, Trace
from evenstep.sim.engine.input import check_columns
from evenstep.sim.network.description import END, MOST_TASKS, CallSection, Network, TaskSection, first_calls
from evenstep.workload.synthetic.arrivals import Arrivals, LikeTrace

#: First number of arrivals to draw if only `until_s` limits them.
_FIRST = 1024
#: Most visits of one call by one task; more are an error, an endless loop.
MOST_VISITS = 100_000
#: Columns of `Calls` that do not depend on the order of the calls.
_COLUMNS = ("kind", "prompt", "output", "request_class", "delay_s")


@dataclass(frozen=True, slots=True, eq=False)
class Calls:
    """The calls of T tasks: C rows, in order of task and of beginning.

    A lone type of tasks whose calls follow no other has them as drawn, or in order of its trace.
    """

    arrival_s: F8  # float64[T], when tasks arrive, seconds from the start, ascending
    task_type: I8  # int64[T], place of each task's type in `Network.tasks`
    task: I8  # int64[C], the task of a call, 0..T-1
    kind: I8  # int64[C], place of its call in `kinds`
    prompt: I8  # int64[C], tokens
    output: I8  # int64[C], tokens
    #: int64[C], its class: that of the trace, or of a drawn call the number of its task type. An engine with priorities uses
    #: the priority instead.
    request_class: I8
    delay_s: F8  # float64[C], seconds from the end of its last parent, or its task's arrival, to its release
    parent: I8  # int64[P], rows: the call `child[k]` waits until `parent[k]` is done
    child: I8  # int64[P], rows; pairs with `parent`
    kinds: tuple[tuple[str, str], ...]  # (task type, call) by name

    def task_ends(self, ended_s: F8) -> F8:
        """float64[T], seconds, the end of each task's last call: inf if one has not ended, -inf for a task without calls.

        `ended_s` is float64[C], nan for a call that has not ended.
        """
        end_s = np.full(self.arrival_s.size, -math.inf)
        np.maximum.at(end_s, self.task, np.where(np.isnan(ended_s), math.inf, ended_s))
        return end_s

    def engine_of(self, network: Network) -> list[str]:
        """The name of the engine or group that runs each kind of call, in the order of `kinds`."""
        found: list[str] = []
        for task, call in self.kinds:
            section = network.tasks[task]
            found.append(section.calls[call].engine if section.calls else section.engine or "")
        return found


def draw(network: Network, traces: Mapping[str, Trace] | None = None, seed: int = 0) -> Calls:
    """Draw the tasks of a network, with the key `seed` plus the network's own; recorded tasks are taken from `traces`.

    Args:
        traces: type -> its trace, for each type with one; a session, or requests linked by `after`, is one task.

    Raises:
        InputError: a process without times, too many tasks, a task that runs one call more than 100,000 times, or a recorded
            length or class that engines cannot run.
    """
    # all pairs of task type and call, in the network's order; a recorded type has one call, ``call``
    kinds = tuple((name, call) for name, task in network.tasks.items() for call in (task.calls or ("call",)))
    parts: list[Calls] = []
    for place, (name, task) in enumerate(network.tasks.items()):
        if task.trace is not None:
            parts.append(_recorded(network, name, place, (traces or {})[name], kinds, seed + network.seed))
        else:
            parts.append(_drawn(network, name, place, kinds, seed + network.seed))
    return _merged(parts, kinds)


def _times(process: Arrivals, count: int, seed: int, name: str) -> F8:
    """float64[count], when tasks of the type `name` arrive, independent of other types; an InputError without times."""
    replicate = int(isinstance(process, LikeTrace))  # its replicate 0 begins with the same gap under every key
    times = process.times(count, seed ^ streams.stream_number(f"network-{name}"), replicate)
    if times is None:
        raise InputError("network", f"tasks.{name}.arrivals", "saturated", "a process with times")
    return times


def _arrivals(network: Network, name: str, task: TaskSection, seed: int) -> F8:
    """float64[N], when tasks of the type `name` arrive, seconds: those before `until_s`, at most `count`."""
    assert task.arrivals is not None
    until_s, count, place = network.until_s or math.inf, task.count or _FIRST, f"tasks.{name}.arrivals"
    while True:
        if count > MOST_TASKS:
            more = f"over {MOST_TASKS:,} tasks in {until_s:g} s"
            raise InputError("network", place, more, f"at most {MOST_TASKS:,}", "Lower the rate or until_s, or give count.")
        times = _times(task.arrivals, count, seed, name)
        if task.count is not None or times[-1] >= until_s:
            return times[times < until_s]
        count *= 2


def _drawn(network: Network, name: str, place: int, kinds: tuple[tuple[str, str], ...], seed: int) -> Calls:
    """The drawn tasks of the type `name`, whose place in `Network.tasks` is `place`."""
    task = network.tasks[name]
    arrival_s = _arrivals(network, name, task, seed)
    walk = _Walk(name, task, seed, kinds.index((name, next(iter(task.calls)))), arrival_s.size)
    walk.run()
    empty: dict[str, Any] = dict.fromkeys(("task", "kind", "prompt", "output", "parent", "child"), np.zeros(0, np.int64))
    empty["delay_s"] = np.zeros(0)
    drawn = {column: np.concatenate([none, *walk.drawn[column]]) for column, none in empty.items()}
    types, classes = np.full(arrival_s.size, place), np.full(walk.rows, place)
    return Calls(arrival_s=arrival_s, task_type=types, request_class=classes, kinds=kinds, **drawn)


#: A call, the tasks that come to it, the row that each follows (-1 = no row), and the number of the visit (-1 = not known).
_Step = tuple[str, I8, I8, int]


class _Walk:
    """Follows all tasks of a type through their graph, those at the same visit of the same call together.

    `drawn` has the columns of `Calls` in pieces, one for each group of tasks at the same call; `rows` counts the calls.
    """

    def __init__(self, name: str, task: TaskSection, seed: int, first_kind: int, count: int) -> None:
        self.name, self.calls, self.seed, self.count = name, task.calls, seed, count
        self.kind = {call: first_kind + k for k, call in enumerate(task.calls)}
        self.begin = first_calls(task)
        self.visits = {call: np.zeros(count, np.int64) for call in task.calls}
        self.waits: dict[tuple[str, int], I8] = {}  # rows of a join's parents: [tasks, parents], -1 = not there yet
        self.drawn, self.rows = defaultdict[str, list[Any]](list), 0
        self.children = {call: [c for c, one in task.calls.items() if call in one.after] for call in task.calls}

    def run(self) -> None:
        """Follow all tasks until each has come to its end, and draw their calls into `drawn`."""
        ids = np.arange(self.count)
        front = [(call, ids, np.full(self.count, -1), -1) for call in self.begin if self.count]
        while front:
            following: list[_Step] = []
            for call, tasks, parent, join_visit in front:
                if join_visit >= 0:  # the number of its parents' visit: they may be at a later one by now
                    following += self.visit(call, join_visit, tasks, parent)
                    continue
                for visit in np.unique(self.visits[call][tasks]):
                    at = self.visits[call][tasks] == visit
                    following += self.visit(call, int(visit), tasks[at], parent[at])
                self.visits[call][tasks] += 1
            front = following

    def visit(self, call: str, visit: int, tasks: I8, parent: I8) -> list[_Step]:
        """Draw the `visit`-th run (from 0) of a call for `tasks`; returns the next steps, each with the row that it follows.

        `parent` is the row that each of the tasks comes from, or -1. An InputError if `visit` reaches `MOST_VISITS`.
        """
        if visit >= MOST_VISITS:
            where, many = f"tasks.{self.name}.calls.{call}.then", f"over {MOST_VISITS} visits of one task"
            raise InputError("network", where, many, "a loop that ends", "Give the way out a larger share.")
        rows = self.add(call, visit, tasks)
        has_parent = parent >= 0
        self.drawn["parent"].append(parent[has_parent])
        self.drawn["child"].append(rows[has_parent])
        section, found = self.calls[call], list[_Step]()
        if section.then:
            ends = np.cumsum(list(section.then.values()))
            u = streams.uniform(self.seed, f"network-{self.name}.{call}-then", tasks, visit)
            chosen = np.minimum(np.searchsorted(ends / ends[-1], u, side="right"), ends.size - 1)
            for k, follows in enumerate(section.then):
                if follows != END and (at := chosen == k).any():
                    found.append((follows, tasks[at], rows[at], -1))
        for join in self.children[call]:
            found += self.arrive(join, call, visit, tasks, rows)
        return found

    def arrive(self, join: str, call: str, visit: int, tasks: I8, rows: I8) -> list[_Step]:
        """Record that `call`, a parent of `join`, has run; returns the join's step for tasks whose last parent this was."""
        after = self.calls[join].after
        waits = self.waits.setdefault((join, visit), np.full((self.count, len(after)), -1))
        waits[tasks, after.index(call)] = rows
        ready = tasks[(waits[tasks] >= 0).all(axis=1)]
        return [(join, ready, np.full(ready.size, -1), visit)] if ready.size else []

    def add(self, call: str, visit: int, tasks: I8) -> I8:
        """Add a row of the call for each task, with its lengths, and link a join to its parents; returns the rows."""
        section: CallSection = self.calls[call]
        rows = np.arange(self.rows, self.rows + tasks.size)
        self.rows += tasks.size
        stream = f"network-{self.name}.{call}"
        self.drawn["task"].append(tasks)
        self.drawn["kind"].append(np.full(tasks.size, self.kind[call]))
        self.drawn["prompt"].append(section.prompt.quantile(streams.uniform(self.seed, f"{stream}-prompt", tasks, visit)))
        self.drawn["output"].append(section.output.quantile(streams.uniform(self.seed, f"{stream}-output", tasks, visit)))
        self.drawn["delay_s"].append(np.full(tasks.size, section.delay_s))
        if section.after:
            parents = self.waits[call, visit][tasks]
            self.drawn["parent"].append(parents.ravel())
            self.drawn["child"].append(np.repeat(rows, parents.shape[1]))
        return rows


def _recorded(network: Network, name: str, place: int, trace: Trace, kinds: tuple[tuple[str, str], ...], seed: int) -> Calls:
    """Tasks of a trace, before `until_s`, `count` at most: a session, requests linked by `after`, or a request by itself."""
    check_columns(trace)
    task = network.tasks[name]
    count, after = len(trace), trace.column("after")
    root = np.arange(count)
    for row in np.flatnonzero(after >= 0).tolist():  # a predecessor stands above
        root[row] = root[after[row]]
    session = trace.column("session")
    in_session = np.flatnonzero(session >= 0)
    _, first, which = np.unique(session[in_session], return_index=True, return_inverse=True)
    root[in_session] = root[in_session[first]][which.reshape(-1)]
    roots, number = root, root
    if np.any(root != np.arange(count)):
        roots, number = np.unique(root, return_inverse=True)
    arrival_s = trace.column("arrival_s")[roots]
    if task.arrivals is not None:
        arrival_s = _times(task.arrivals, roots.size, seed, name)
    linked = np.flatnonzero(after >= 0)
    think_s = np.where(after >= 0, trace.column("think_s"), 0.0)
    alone = np.flatnonzero((after < 0) & (root != np.arange(count)))  # of a session, but linked to nothing: by its time
    think_s[alone] = np.maximum(trace.column("arrival_s")[alone] - trace.column("arrival_s")[root[alone]], 0.0)
    kept = arrival_s < (network.until_s or math.inf)
    if task.count is not None:
        kept &= np.arange(roots.size) < task.count
    calls = Calls(
        arrival_s=arrival_s,
        task_type=np.full(roots.size, place),
        task=number.reshape(-1),
        kind=np.full(count, kinds.index((name, "call"))),
        prompt=trace.prompt_tokens,
        output=trace.output_tokens,
        request_class=trace.column("request_class"),
        delay_s=think_s,
        parent=after[linked],
        child=linked,
        kinds=kinds,
    )
    if kept.all():
        return calls
    found = taken(calls, np.flatnonzero(kept[calls.task]))
    left = np.cumsum(kept) - 1
    return replace(found, arrival_s=arrival_s[kept], task_type=calls.task_type[kept], task=left[found.task])


def taken(calls: Calls, rows: I8) -> Calls:
    """The calls of these rows, in this order; tasks stay as they are. Pairs with a call left out are left out, too."""
    if np.array_equal(rows, np.arange(calls.task.size)):
        return calls
    place = np.full(calls.task.size, -1)
    place[rows] = np.arange(rows.size)
    kept = (place[calls.parent] >= 0) & (place[calls.child] >= 0)
    return replace(
        calls,
        task=calls.task[rows],
        parent=place[calls.parent[kept]],
        child=place[calls.child[kept]],
        **{name: getattr(calls, name)[rows] for name in _COLUMNS},
    )


def _merged(parts: list[Calls], kinds: tuple[tuple[str, str], ...]) -> Calls:
    """Join tasks of several types in order of arrival, renumbered, with their calls (see `Calls`)."""
    are_apart = len(parts) == 1 and parts[0].parent.size == 0  # no call follows another: they may stay where they are
    if are_apart and np.all(np.diff(parts[0].arrival_s) >= 0):
        return parts[0]
    arrival_s = np.concatenate([one.arrival_s for one in parts])
    order = np.argsort(arrival_s, kind="stable")
    number = np.empty(order.size, np.int64)
    number[order] = np.arange(order.size)
    tasks, rows = np.cumsum([0, *(one.arrival_s.size for one in parts)]), np.cumsum([0, *(one.task.size for one in parts)])
    found = Calls(
        arrival_s=arrival_s[order],
        task_type=np.concatenate([one.task_type for one in parts])[order],
        task=np.concatenate([number[one.task + tasks[k]] for k, one in enumerate(parts)]),
        parent=np.concatenate([one.parent + rows[k] for k, one in enumerate(parts)]),
        child=np.concatenate([one.child + rows[k] for k, one in enumerate(parts)]),
        kinds=kinds,
        **{name: np.concatenate([getattr(one, name) for one in parts]) for name in _COLUMNS},
    )
    return found if are_apart else taken(found, np.argsort(found.task, kind="stable"))
