"""Runs a network of engines: several on one clock, not in lock-step, each with its own batches.

A task is a small graph of calls. A call waits for its parents, goes to an engine of its group, and runs there as a request
of one engine does (`sim.engine`). `network.loop` gives the order of events. A network of one engine gives, bit by bit, the
run that `simulate_engine` gives with the requests that arrive before the stop.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import numpy as np

from evenstep import compiled
from evenstep.compiled import column
from evenstep.config.number import check_integers
from evenstep.errors import PolicyError
from evenstep.measure.engine_records import EngineConditions, EngineRequestTable, EngineRun
from evenstep.measure.network_records import CallTable, NetworkRun, TaskTable
from evenstep.request import Trace
from evenstep.routing.view import broken_rule
from evenstep.sim.cluster import ask as ask_route
from evenstep.sim.engine import model as engine_model
from evenstep.sim.engine import plain_door
from evenstep.sim.engine.balancing import view_of_one
from evenstep.sim.engine.host import conditions_of, counted, made, said
from evenstep.sim.engine.model import Run
from evenstep.sim.in_one_piece import in_one_piece
from evenstep.sim.network import loop, model
from evenstep.sim.network.description import Network
from evenstep.sim.network.model import Net
from evenstep.sim.network.paths import check_visits
from evenstep.sim.network.state import Place, Prepared, prepared, widened
from evenstep.sim.network.tasks import Calls, draw

#: Default number of sampling times over the time in which tasks arrive.
SAMPLES = 2000


def simulate_network(
    network: Network, *, traces: Mapping[str, Trace] | None = None, seed: int = 0, samples: int = SAMPLES
) -> NetworkRun:
    """Run a network until its tasks are done, or its time is up.

    Args:
        network: engines and tasks.
        traces: type of task -> its recorded tasks, for each type with a trace (`description.read_traces`).
        seed: key of every draw, added to the network's own.
        samples: number of times, equally spaced from 0 to `until_s` or the last arrival (1 s at least), at which each
            engine's unfinished calls and tokens left to run are recorded.

    Returns:
        The run: its engines' runs, tables of tasks and calls, and the samples.

    Raises:
        InputError: tasks that cannot be drawn, a call that its engine cannot hold, too many policies or engines, or a `seed`
            or `samples` that is no integer >= 0.
        PolicyError: a policy broke its contract, raised, or holds for ever.
    """
    check_integers("simulate_network", 0, seed=seed, samples=samples)
    check_visits(network)
    calls = draw(network, traces, seed)
    ready = prepared(network, calls, seed + network.seed, samples)
    while (code := _run(ready)) == model.LISTS_FULL:
        ready = replace(ready, net=ready.net._replace(lists=widened(ready.net.lists)))
    net = ready.net
    if code == model.BAD_ROUTE:
        place = ready.places[int(net.clock.group)]
        what = f"gave no engine of {place.name} for call {ready.number[net.clock.detail]}; engines take calls as they come"
        raise PolicyError(f"{place.section.routing}: {what}")
    if code not in (engine_model.DONE, engine_model.STOPPED):
        e = int(net.clock.engine)
        raise PolicyError(f"{ready.engines[e][0]}: {said(code, run_of(net, e))}")
    return _recorded(network, ready, calls, seed)


def _run(ready: Prepared) -> int:
    """Run the loop until the host is needed; returns its code. A PolicyError tells which Python policy raised."""
    doors = _Doors(ready)
    go_on: Any = compiled.entry(loop.advance)
    batches, routes = plain_door.answering(doors.form_batch, doors.stop_engine), ask_route.answering(doors.route, doors.stop)
    with batches, routes, in_one_piece(has_kernel=all(place.has_kernels for place in ready.places)) as call:
        code = int(call(go_on, ready.kernels, ready.routes, ready.net))
    error = doors.error
    if isinstance(error, PolicyError):
        raise PolicyError(f"{doors.asked}: {error}") from None
    if isinstance(error, Exception):
        raise PolicyError(f"{doors.asked}: the policy raised {type(error).__name__}: {error}") from error
    if error is not None:
        raise error
    return code


def run_of(net: Net, e: int) -> Run:
    """The state of engine e, counted over all groups from 0, in the form of the engine simulator; views, not copies."""
    text: Any = loop.run_of
    return getattr(text, "py_func", text)(net, e)


class _Doors:
    """Asks policies without a kernel. `error` is the last error, which stops the loop, and `asked` names its policy."""

    def __init__(self, ready: Prepared) -> None:
        self.ready, self.net, self.engines = ready, ready.net, ready.engines
        self.doors: dict[int, plain_door.PlainDoor] = {}
        self.error: BaseException | None = None
        self.asked = ""

    def form_batch(self, iteration: int, now_s: float) -> float:
        """Ask the scheduling policy of `Clock.engine`, and write its batch for the loop; returns its `wake_s`, seconds."""
        e = int(self.net.clock.engine)
        _, place = self.engines[e]
        if e not in self.doors:
            self.doors[e] = plain_door.PlainDoor(place.task.policy, run_of(self.net, e))
        return self.doors[e].answer(iteration, now_s)

    def stop_engine(self, error: BaseException) -> None:
        """Keep an error of the scheduling policy of `Clock.engine`, and stop the loop."""
        e = int(self.net.clock.engine)
        self.error, self.asked = error, self.engines[e][0]
        run_of(self.net, e).now.raised = 1

    def stop(self, error: BaseException) -> None:
        """Keep an error of the routing policy of `Clock.group`, and stop the loop."""
        self.error, self.asked = error, self.ready.places[int(self.net.clock.group)].section.routing
        self.net.clock.raised = 1

    def route(self, decision: int, now_s: float, mean_wait_s: float, first: int, waiting: int) -> float:
        """Ask the routing policy of `Clock.group`, check its answer, and write it for the loop; returns 0."""
        net, g = self.net, int(self.net.clock.group)
        group, ends, routing = net.groups[g], net.groups[g + 1], net.routing
        n = int(group.count)
        window = slice(int(group.workers), int(group.workers) + 4 * n)
        ints, floats = routing.workers_i[window].reshape(4, n).copy(), routing.workers_f[window].reshape(4, n).copy()
        memory = net.route_flat.memory[int(group.memory) : int(ends.memory)]
        view = view_of_one(
            decision=decision,
            seed=int(net.clock.seed),
            now_s=now_s,
            memory=memory.copy(),
            **dict(zip(("group", "queued", "free_slots", "running"), ints, strict=True)),
            **dict(zip(("load", "queued_load", "kv_free", "seconds_per_token"), floats, strict=True)),
            **dict(zip(("waiting_id", "waiting_class", "waiting_key"), routing.waiting_i.copy(), strict=True)),
            waiting_load=routing.waiting_f[0].copy(),
        )
        found = self.ready.places[g].routing.route(view)
        wrong = broken_rule(view, found)
        if wrong:
            raise PolicyError(wrong)
        routing.worker[0] = found.worker[0]
        if found.memory is not None:
            memory[:] = found.memory
        return 0.0


def _recorded(network: Network, ready: Prepared, calls: Calls, seed: int) -> NetworkRun:
    """Make the run's record from the state in which the loop ended."""
    net, places = ready.net, ready.places
    conditions = {place.name: conditions_of(place.task) for place in places}
    engines = {name: _engine_run(ready, place, e, conditions[place.name]) for e, (name, place) in enumerate(ready.engines)}
    names = list(engines)
    count, tasks = calls.task.size, calls.arrival_s.size
    arrival, finished, owner = np.full(count, np.inf), np.full(count, np.nan), np.full(count, -1)
    tokens, work = np.zeros(tasks, np.int64), column(net.calls, "work")
    for e, run in enumerate(engines.values()):
        sent = net.lists.coming[e, : int(net.now[e].known)]
        which = ready.number[net.call_of[sent]]
        arrival[which], owner[which] = net.requests.arrival_s[sent], e
        finished[run.requests.request_id] = run.requests.finished_s
        done = net.call_of[net.lists.finished[e, : int(net.now[e].finished)]]
        np.add.at(tokens, net.nodes.task[done], work[done])
    end_s = calls.task_ends(finished)
    end_s[np.isinf(end_s)] = np.nan
    until_s = max((run.totals.makespan_s for run in engines.values()), default=0.0)
    if network.until_s is not None:
        until_s = min(until_s, network.until_s)
    seen = int(net.clock.samples)
    ran = sum(np.array(column(net.now, name)) for name in ("prefill_tokens", "decode_tokens"))
    return NetworkRun(
        name=network.name,
        order=network.order,
        seed=seed,
        types=tuple(network.tasks),
        kinds=calls.kinds,
        engines=engines,
        groups={place.name: tuple(names[place.engines.start : place.engines.stop]) for place in places},
        tasks=TaskTable(calls.task_type, calls.arrival_s, end_s, np.bincount(calls.task, minlength=tasks), tokens),
        calls=CallTable(calls.task, calls.kind, owner, arrival, finished),
        times_s=np.cumsum(np.full(seen, float(net.clock.every_s))) - float(net.clock.every_s),
        requests=net.samples.requests[:seen],
        tokens=net.samples.tokens[:seen],
        left=np.array(column(net.sites, "work"))[:-1] + np.array(column(net.now, "wasted_tokens")) - ran,
        until_s=until_s,
        counted_s=_arriving_s(network, calls),
    )


def _arriving_s(network: Network, calls: Calls) -> float:
    """Seconds over which tasks arrive: up to the stop if a process goes on until then, else up to the last arrival."""
    stop_s = network.until_s or math.inf
    for k, task in enumerate(network.tasks.values()):
        if task.trace is None and task.count is None and calls.arrival_s[calls.task_type == k].any():
            return stop_s
    return min(float(calls.arrival_s.max(initial=0.0)), stop_s)


def _engine_run(ready: Prepared, place: Place, e: int, conditions: EngineConditions) -> EngineRun:
    """The run of engine e as the engine simulator records it, with rows of `Calls` as request ids."""
    run = run_of(ready.net, e)
    found = made(conditions, run, None, counted([run], place.task.policy))
    left = int(run.now.known) - found.totals.requests
    ids = ready.number[ready.net.call_of[found.requests.request_id]]
    requests = replace(found.requests, request_id=ids)
    if np.any(ids[1:] < ids[:-1]):
        order = np.argsort(ids)
        requests = EngineRequestTable(*(getattr(requests, field.name)[order] for field in fields(requests)))
    return replace(found, totals=replace(found.totals, unfinished=left), requests=requests)
