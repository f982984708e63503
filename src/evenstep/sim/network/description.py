"""NETWORK.yaml: engines, tasks made of calls, and how calls are ordered.

```yaml
version: 1
until_s: 1000
engines:
  pool: {count: 4, routing: jsq, engine: "token-budget=512"}
tasks:
  chat:
    arrivals: {process: poisson, requests_per_s: 50}
    calls:
      answer: {engine: pool, prompt: {law: constant, tokens: 129}, output: {law: constant, tokens: 112}}
```
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from evenstep import names
from evenstep.config.number import integers
from evenstep.config.yaml_file import read_yaml
from evenstep.cost.batch import BatchTime, batch_law_of
from evenstep.errors import MOST, InputError, check_known, check_range, check_range_if_given
from evenstep.request import Trace
from evenstep.routing.view import check_simulated
from evenstep.scheduling.view import SchedulingPolicy
from evenstep.sim.engine.settings import Engine
from evenstep.sim.network.graph import endless, uneven
from evenstep.workload.synthetic import arrivals, laws
from evenstep.workload.synthetic.yaml_file import Reading, TraceFile, beside

Order = Literal["fcfs", "oldest-task", "least-attained", "critical-path", "longest-path"]
#: The name in `then` under which a task ends.
END = "end"
#: Most tasks of one type; more would not fit the memory of most machines.
MOST_TASKS = 10_000_000


@dataclass(frozen=True, slots=True)
class EngineSection:
    """One engine, or a group of equal engines among which a routing policy chooses.

    Args:
        engine: as `compare --engine`: token-budget=512,kv-tokens=20000,...; each engine runs alone, so data-parallel is 1.
        batch_time: a batch-time law, NAME:key=value.
        policy: the scheduling policy inside, NAME:key=value; None = class-first with priorities, else sarathi.
        count: engines of the group.
        routing: the routing policy in front of a group, NAME:key=value; not used with one engine.
        priority: calls in order of priority, each as TASK.CALL, and as TASK.call where the calls are recorded; calls that
            are not listed come last.
    """

    engine: str = ""
    batch_time: str = "token-budget"
    policy: str | None = None
    count: int = 1
    routing: str = "jsq"
    priority: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        check_range("engine", "an integer >= 1", low=1, count=self.count)
        for part, made in (("engine", "server"), ("batch_time", "law"), ("policy", "scheduling"), ("routing", "balancer")):
            try:
                getattr(self, made)
            except InputError as error:  # the text of the field is invalid
                own = part if error.field in ("name", part) else f"{part}.{error.field}"
                raise InputError("engine", own, error.value, error.expected, error.hint) from None
        for k, call in enumerate(self.priority):
            if call in self.priority[:k]:
                raise InputError("engine", f"priority[{k}]", call, "each call once")

    @property
    def server(self) -> Engine:
        """The settings that the text `engine` gives; all others have the defaults of `Engine`."""
        return _server(self.engine)

    @property
    def law(self) -> BatchTime:
        """A new batch-time law, as `batch_time` names it."""
        return batch_law_of(self.batch_time)

    @property
    def scheduling(self) -> SchedulingPolicy:
        """A new scheduling policy; without `policy`, ``class-first`` if there are priorities, else ``sarathi``."""
        default = "class-first" if self.priority else "sarathi"
        return names.build("scheduling", names.parse(self.policy or default))

    @property
    def balancer(self) -> Any:
        """A new routing policy, as `routing` names it; an InputError if it looks ahead, or needs expected outputs."""
        policy = names.build("routing", names.parse(self.routing))
        if getattr(policy, "horizon", 0):
            raise InputError("engine", "name", self.routing, "a routing policy that does not look ahead")
        check_simulated(policy, "engine")
        return policy


@lru_cache(maxsize=256)
def _server(text: str) -> Engine:
    """The engine of the settings in `text`; an InputError for several ranks (data_parallel)."""
    made: Engine = names.make(Engine, names.options(text, "engine"), where="engine")
    if made.data_parallel != 1:
        raise InputError("engine", "data_parallel", made.data_parallel, "1", "Use count for several engines.")
    return made


@dataclass(frozen=True, slots=True)
class CallSection:
    """One call of a task.

    Args:
        engine: name of the engine or group that runs it.
        prompt, output: laws from which its lengths, in tokens, are drawn.
        after: calls that have to be done before it starts, and run equally often in every task. Empty = it starts where
            `then` leads to it, else with the task. If every call of a task follows another, the first one listed begins it.
        then: calls that may follow it by chance, call -> probability, which sum to 1. ``end`` = none of them. A call may
            lead back, which makes a loop. Calls named here have no `after`. Empty = only calls with it in `after` follow.
        delay_s: seconds from the end of the last call before it, or the task's arrival, until it is sent: a tool, a person.
    """

    engine: str
    prompt: laws.Law
    output: laws.Law
    after: list[str] = field(default_factory=list[str])
    then: dict[str, float] = field(default_factory=dict[str, float])
    delay_s: float = 0.0

    def __post_init__(self) -> None:
        check_range("call", "a finite number of seconds >= 0", low=0, finite=True, delay_s=self.delay_s)


@dataclass(frozen=True, slots=True)
class TaskSection:
    """Tasks of one type: drawn from a graph of calls, or recorded ones.

    Args:
        calls: the calls by name; not together with `trace`.
        arrivals: when tasks arrive; with `trace` it replaces the recorded times.
        count: tasks at most, of those that arrive before the network's `until_s`; left out = all of these. `calls` need it
            if all tasks arrive at once or there is no `until_s`.
        trace: recorded requests, the calls: each session is a task. A request follows the one named by its `after`; one
            without comes as long after the session's first as recorded.
        engine: the engine or group that runs the calls of `trace`.
        one_key: a call shows routing policies one key in all tasks, as if they shared its prompt; else each task has one.
    """

    calls: dict[str, CallSection] = field(default_factory=dict[str, CallSection])
    arrivals: arrivals.Arrivals | None = None
    count: int | None = None
    trace: TraceFile | None = None
    engine: str | None = None
    one_key: bool = False

    def __post_init__(self) -> None:
        check_range_if_given("task", f"an integer from 1 to {MOST_TASKS:,}", low=1, high=MOST_TASKS, count=self.count)
        if bool(self.calls) == (self.trace is not None):
            found = "both" if self.calls else "neither"
            raise InputError("task", "calls and trace", found, "one of the two")
        if self.trace is None and (self.arrivals is None or self.engine is not None):
            where = "arrivals" if self.arrivals is None else "engine"
            raise InputError("task", where, getattr(self, where) or "missing", "arrivals, and an engine of each call")
        if self.trace is not None and self.engine is None:
            raise InputError("task", "engine", "missing", "the engine that runs the recorded calls")


@dataclass(frozen=True, slots=True)
class Network:
    """Engines on one clock, and the tasks whose calls they run.

    Args:
        engines: engines and groups by name.
        tasks: types of tasks by name.
        until_s: seconds after the start at which the run stops, with tasks left over; None = when all tasks are done.
        order: of the calls that wait at an engine, within a priority: ``fcfs``, the scheduling policy's own order;
            ``oldest-task`` by the task's arrival; ``least-attained`` by the tokens of the task's finished calls;
            ``critical-path``, calls with the least slack to their task's longest path; ``longest-path``, calls with the
            longest path still before them.
        seed: key of every draw.
        name, description: for reports.
    """

    engines: dict[str, EngineSection]
    tasks: dict[str, TaskSection]
    until_s: float | None = None
    order: Order = "fcfs"
    seed: int = 0
    name: str = ""
    description: str = ""

    def __post_init__(self) -> None:
        check_range_if_given("network", "a finite number of seconds > 0", above=0, finite=True, until_s=self.until_s)
        if not 0 <= self.seed <= MOST:
            raise InputError("network", "seed", self.seed, integers(0, self.seed))
        for which in ("engines", "tasks"):
            if not getattr(self, which):
                raise InputError("network", which, "empty", "at least one")
        for name, task in self.tasks.items():
            check_task(self, name, task)
        self._check_names()
        self._check_priorities()
        for name, task in self.tasks.items():
            if task.trace is None and task.count is None:
                hint = "Or say when the run stops, by until_s."
                if isinstance(task.arrivals, arrivals.AtOnce):
                    hint = "All of them arrive at 0 s, so until_s cannot limit them."
                elif self.until_s is not None:
                    continue
                raise InputError("network", f"tasks.{name}.count", "missing", "a number of tasks", hint)

    def _check_names(self) -> None:
        """Raise an InputError if an engine has the name of a group's engine (NAME-0, NAME-1 ...), or two calls share one."""
        for name, one in self.engines.items():
            group, _, number = name.rpartition("-")
            count = self.engines[group].count if group in self.engines else 1
            if one.count == 1 < count and number.isdecimal() and float(number) < count and number == str(int(number)):
                hint = f"The engines of group {group} are named {group}-0 to {group}-{count - 1}."
                raise InputError("network", f"engines.{name}", name, "another name of an engine", hint)
        known: dict[str, tuple[str, str]] = {}
        for task, call in ((task, call) for task, one in self.tasks.items() for call in one.calls or ("call",)):
            name = f"{task}.{call}"
            if name in known:
                other, same = known[name]
                hint = f"Call {same} of task {other} has it, as TASK.CALL."
                raise InputError("network", f"tasks.{task}.calls.{call}", name, "another name", hint)
            known[name] = task, call

    def _check_priorities(self) -> None:
        """Raise an InputError if a `priority` names an unknown call or a call of another engine."""
        known = {f"{task}.{call}": made.engine for task, one in self.tasks.items() for call, made in one.calls.items()}
        known |= {f"{name}.call": task.engine for name, task in self.tasks.items() if task.engine is not None}
        for name, engine in self.engines.items():
            for k, call in enumerate(engine.priority):
                place = f"engines.{name}.priority[{k}]"
                check_known("network", place, call, known, "TASK.CALL")
                if known[call] != name:
                    raise InputError("network", place, call, f"a call of engine {name}", f"It runs on {known[call]}.")


def load(path: str | Path) -> Network:
    """Read a network from a YAML file; without a ``name`` in it, it is named after the file, without suffix.

    Raises:
        InputError: an unreadable file, a value that does not fit, an unknown engine or call, probabilities that do not sum
            to one, or another fault of a task (`check_task`); each names its place.
    """
    place = Path(path)
    file = read_yaml(place)
    return Reading(place, file).made(Network, {"name": place.stem, **file.values}, "")


def read_traces(path: str | Path, network: Network) -> dict[str, Trace]:
    """Read the trace of each task type that names one; returns type -> trace. `path` is the network's YAML file.

    Trace paths are relative to its folder; ``sample:NAME`` is a bundled sample. Traces have no block ids unless options
    ask for them (``prefix_blocks``). Errors are those of `workload.reading.read_trace`.
    """
    from evenstep.workload import reading

    found: dict[str, Trace] = {}
    for name, task in network.tasks.items():
        if task.trace is not None:
            options = {"prefix_blocks": False, **task.trace.options}
            file = beside(Path(path), task.trace.file)
            skip, limit = task.trace.skip_bad_rows, task.trace.limit
            found[name] = reading.read_trace(file, task.trace.format, limit=limit, skip_bad_rows=skip, **options)
    return found


def check_task(network: Network, name: str, task: TaskSection) -> None:
    """Check a type of tasks, `name` of the network: its engines, the means of its lengths, and that its calls begin and end.

    Raises:
        InputError: an unknown engine or call, a call named ``end``, a length with an infinite mean, a `then` that leads to a
            call with `after`, a probability outside 0..1, probabilities that do not sum to one, an `after` that names a call
            twice or calls that do not run equally often, a call that can never run, or a cycle without exit.
    """
    place = f"tasks.{name}"
    if END in task.calls:
        hint = f"In `then`, {END} means that the task ends."
        raise InputError("network", f"{place}.calls.{END}", END, "another name of a call", hint)
    if task.engine is not None:
        check_known("network", f"{place}.engine", task.engine, network.engines, "a known engine")
    for which, call in task.calls.items():
        at = f"{place}.calls.{which}"
        check_known("network", f"{at}.engine", call.engine, network.engines, "a known engine")
        for part, law in (("prompt", call.prompt), ("output", call.output)):
            laws.check_mean("network", law, f"{at}.{part}")
        for before in call.after:
            check_known("network", f"{at}.after", before, task.calls, "a call of the task")
        for follows, chance in call.then.items():
            if follows != END:
                check_known("network", f"{at}.then", follows, task.calls, f"a call of the task, or {END}")
            if not 0 <= chance <= 1:
                raise InputError("network", f"{at}.then.{follows}", chance, "a probability, 0 to 1")
            if follows != END and task.calls[follows].after:
                raise InputError("network", f"{at}.then.{follows}", chance, "a call without `after`")
        if call.then and abs(sum(call.then.values()) - 1) > 1e-9:
            total = round(sum(call.then.values()), 9)
            raise InputError("network", f"{at}.then", total, "probabilities that sum to 1", f"Add {END}: to stop there.")
    if task.calls:
        _check_cycles(place, task)
        _check_flow(place, task)


def _check_flow(place: str, task: TaskSection) -> None:
    """Raise an InputError if calls of an `after` are not distinct and equally frequent, or a loop does not end (`graph`)."""
    for name, call in task.calls.items():
        if len(set(call.after)) < len(call.after):
            raise InputError("network", f"{place}.calls.{name}.after", ", ".join(call.after), "each call once")
    name = uneven(task.calls, first_calls(task))
    if name is not None:
        hint = f"Where a task may run only some of them, or one more often, lead to {name} by `then` instead."
        waits = ", ".join(task.calls[name].after)
        raise InputError("network", f"{place}.calls.{name}.after", waits, "calls that run equally often in every task", hint)
    name = endless(task.calls)
    if name is not None:
        then = task.calls[name].then
        what = max(then, key=lambda one: (one != END, then[one]))
        hint = f"Each run of the loop leads to at least one more on average: give {END} or a call outside it a larger share."
        raise InputError("network", f"{place}.calls.{name}.then", what, "no cycle without exit", hint)


def _check_cycles(place: str, task: TaskSection) -> None:
    """Raise an InputError if a call can never begin, or a task can never end; the call of the cycle is named."""
    calls, begun = task.calls, first_calls(task)
    if calls[begun[0]].after:
        waits, hint = calls[begun[0]].after[0], "The call that a task begins with comes first among its calls."
        raise InputError("network", f"{place}.calls.{begun[0]}.after", waits, "a cycle with a beginning", hint)

    def is_reached(name: str, reached: set[str]) -> bool:
        after = calls[name].after
        waits = bool(after) and all(before in reached for before in after)
        return waits or any(calls[one].then.get(name, 0) > 0 for one in reached)

    reached = _spread(calls, begun, is_reached)
    lost = [name for name in calls if name not in reached]
    if lost:  # it waits in a cycle, or is in a loop that nothing leads to
        at, after = f"{place}.calls.{lost[0]}", calls[lost[0]].after
        if after:
            raise InputError("network", f"{at}.after", after[0], "no cycle without exit", "The calls wait for each other.")
        leads = ", ".join(one for one, call in calls.items() if call.then.get(lost[0], 0) > 0)
        expected = "a call that a task begins with or is led to"
        raise InputError("network", at, "never reached", expected, f"Only {leads} leads to it: a loop that nothing begins.")
    last = [name for name, call in calls.items() if not call.then or call.then.get(END, 0) > 0]
    exits = _spread(calls, last, lambda name, found: any(calls[name].then.get(one, 0) > 0 for one in found))
    stuck = [name for name in calls if name not in exits]
    if stuck:
        what = next(iter(calls[stuck[0]].then))
        hint = f"Give {END} or a call outside the cycle a probability above 0."
        raise InputError("network", f"{place}.calls.{stuck[0]}.then", what, "no cycle without exit", hint)


def _spread(calls: Iterable[str], start: Iterable[str], joins: Callable[[str, set[str]], bool]) -> set[str]:
    """The calls of `start`, and repeatedly each further call for which `joins(call, found so far)` is true."""
    found = set(start)
    while more := {name for name in calls if name not in found and joins(name, found)}:
        found |= more
    return found


def first_calls(task: TaskSection) -> list[str]:
    """Calls that start with the task: all that follow no other call; if every call follows one, the first."""
    led_to = {follows for call in task.calls.values() for follows, chance in call.then.items() if chance > 0}
    found = [name for name, call in task.calls.items() if not call.after and name not in led_to]
    return found or [next(iter(task.calls))]
