"""The network simulator's state before the first event."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from evenstep import compiled
from evenstep.compiled import Rows, cut, fill, one, rows
from evenstep.cost.batch import FEATURES
from evenstep.errors import InputError
from evenstep.measure.quantiles import BINS
from evenstep.request import F8, I8, Trace
from evenstep.routing.policies.vllm import VLLM
from evenstep.routing.view import FREE_SLOTS, KV_FREE, SECONDS_PER_TOKEN, memory_size_of, plain_only
from evenstep.scheduling.order import BY_CLASS, order_of
from evenstep.scheduling.view import LIMITS, UNLIMITED
from evenstep.sim.cluster import ask as ask_route
from evenstep.sim.cluster.model import Coming
from evenstep.sim.engine import plain_door
from evenstep.sim.engine.input import largest, shown
from evenstep.sim.engine.model import Fixed, Kept, Now
from evenstep.sim.engine.state import Task, fixed_of, iterations, records_over, unsent
from evenstep.sim.network import model
from evenstep.sim.network.description import EngineSection, Network
from evenstep.sim.network.loop import MOST_POLICIES
from evenstep.sim.network.model import Net
from evenstep.sim.network.paths import static_keys
from evenstep.sim.network.sending import BLOCK
from evenstep.sim.network.tasks import Calls, taken

#: Calls worked on at a time, so that temporary arrays stay in the processor's caches.
_CHUNK = 8192
_ORDERS = {
    "fcfs": model.FCFS,
    "oldest-task": model.OLDEST_TASK,
    "least-attained": model.LEAST_ATTAINED,
    "critical-path": model.STATIC,
    "longest-path": model.STATIC,
}


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """A group of engines, as described by its section of NETWORK.yaml."""

    name: str  # of the section
    first: int  # number of its first engine; engines are numbered over all groups
    section: EngineSection  # its settings
    routing: Any  # the policy in front of it; None for a single engine
    task: Task  # the run of each of its engines, in the engine simulator's terms

    @property
    def engines(self) -> range:
        """Numbers of its engines."""
        return range(self.first, self.first + self.section.count)

    @property
    def form_batch(self) -> Any:
        """The kernel by which the loop asks the scheduling policy of its engines."""
        return (self.task.kernel or plain_door).form_batch_into

    @property
    def routing_kernel(self) -> Any:
        """The compiled door of its routing policy; None if the policy has no rule, or is `plain_only`."""
        return None if plain_only(self.routing) else compiled.kernel_of(self.routing)

    @property
    def route(self) -> Any:
        """The kernel by which the loop asks the routing policy; one that is never called for a single engine."""
        return (self.routing_kernel or ask_route).route_into

    @property
    def has_kernels(self) -> bool:
        """Whether the loop asks no policy of this group in Python."""
        return self.task.kernel is not None and (self.routing is None or self.routing_kernel is not None)


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A network ready to run: its state, its groups, and the kernels of their policies."""

    net: Net
    places: list[Place]
    kernels: tuple[Any, ...]  # compiled doors of scheduling policies, `MOST_POLICIES` of them
    routes: tuple[Any, ...]  # compiled doors of routing policies, `MOST_POLICIES` of them
    number: I8  # int64[C], for each row of `net` its call's row in `Calls`. In `net` calls of an island stand together.

    @property
    def engines(self) -> list[tuple[str, Place]]:
        """Name and group of each engine, by number. Of a group of several, the name is the group's with a number from 0."""
        found: list[tuple[str, Place]] = []
        for place in self.places:
            count = place.section.count
            found += [(f"{place.name}-{k}" if count > 1 else place.name, place) for k in range(count)]
        return found


def prepared(network: Network, calls: Calls, seed: int, samples: int) -> Prepared:
    """Make the state before the first event.

    Args:
        network, calls: the engines, and the calls of all tasks.
        seed: key of the policies' draws.
        samples: sampling times, rows of the table of samples.

    Raises:
        InputError: over `MOST_POLICIES` different policies, a call that its engine's KV memory cannot hold, or engines that
            this machine's memory cannot hold.
    """
    places, first = list[Place](), 0
    check_memory(network, calls)
    order = np.argsort(_islands(network, calls)[calls.kind], kind="stable")
    calls = taken(calls, order)
    trace = Trace(calls.prompt, calls.output, request_class=calls.request_class)
    for name, section in network.engines.items():
        routing, policy = section.balancer if section.count > 1 else None, section.scheduling
        bounds = shown(trace, policy, None)
        task = Task(trace, policy, section.server, section.law, bounds, seed, False, "auto", math.inf, name)
        places.append(Place(name, first, section, routing, task))
        first += section.count
    kernels = list(dict.fromkeys(place.form_batch for place in places))
    routes = list(dict.fromkeys(place.route for place in places))
    net = _net(network, places, calls, trace, seed, samples, kernels, routes)
    fill(net.calls, request_id=order)
    return Prepared(net, places, _several("policy", kernels), _several("routing", routes), order)


def _several(field: str, found: list[Any]) -> tuple[Any, ...]:
    """The kernels `found`, filled up to `MOST_POLICIES` with the first one; an InputError if there are more."""
    if len(found) > MOST_POLICIES:
        raise InputError("network", field, f"{len(found)} policies", f"at most {MOST_POLICIES} different ones")
    return tuple(found + [found[0]] * (MOST_POLICIES - len(found)))


def check_memory(network: Network, calls: Calls) -> None:
    """Check that each call fits the memory of its engine; an InputError names the call, its engine and the tokens."""
    for kind, (which, name) in enumerate(zip(calls.kinds, calls.engine_of(network), strict=True)):
        rows = np.flatnonzero(calls.kind == kind)
        k, least, capacity = largest(network.engines[name].server, calls.prompt[rows], calls.output[rows])
        if least > capacity:
            field, shorter = f"tasks.{which[0]}.trace", "leave the request out of the trace"
            if network.tasks[which[0]].calls:
                field, shorter = f"tasks.{which[0]}.calls.{which[1]}", "cut its lengths off with the law capped"
            found, expected = calls.prompt[rows[k]], f"at most the {capacity} KV tokens of engine {name}"
            hint = f"Give engines.{name}.engine kv-tokens={least}, or {shorter}."
            raise InputError("network", field, f"{found} + {calls.output[rows[k]]} tokens", expected, hint)


class _Spaces:
    """Lays out memory, parameters and scratch space of several policies: each in one array, policy after policy."""

    def __init__(self) -> None:
        self.ends, self.parameters = dict.fromkeys(model.Flat._fields, 0), [np.zeros(0)]

    def begin(self, record: Any) -> None:
        """Set in `record` where the next policy's part of each array begins."""
        for name, end in self.ends.items():
            setattr(record, name, end)

    def add(self, record: Any, memory: int, parameters: F8, scratch: Sequence[int]) -> None:
        """Append a policy's part to each array, and set in `record` where it begins. Sizes are numbers of entries."""
        self.begin(record)
        self.parameters.append(parameters)
        for name, size in zip(self.ends, (memory, parameters.size, *scratch), strict=True):
            self.ends[name] += size

    def joined(self) -> model.Flat:
        """The arrays: the parameters as added, all else 0."""
        memory, _, ints, floats = self.ends.values()
        kept, scratch = np.zeros(memory, np.int64), np.zeros(ints, np.int64)
        return model.Flat(kept, np.concatenate(self.parameters), scratch, np.zeros(floats))


def _net(
    network: Network,
    places: list[Place],
    calls: Calls,
    trace: Trace,
    seed: int,
    samples: int,
    kernels: list[Any],
    routes: list[Any],
) -> Net:
    """The whole state before the first event; arguments as of `prepared`, and the kernels of both sorts of policies."""
    engines, count = places[-1].engines.stop, calls.task.size
    horizon_s = network.until_s or float(calls.arrival_s.max(initial=1.0))
    clock = one(model.Clock)
    clock.until_s, clock.then_s = network.until_s or math.inf, math.inf
    clock.order, clock.seed = _ORDERS[network.order], seed
    clock.every_s = max(horizon_s, 1e-9) / max(samples, 1)
    islands, roots, root_s = _roots(network, places, calls)
    try:
        sites, fixed, now, small, laws, flat = _sites(places, network, trace, kernels)
    except MemoryError:
        most = max(places, key=lambda place: place.section.count)
        field, hint = f"engines.{most.name}.count", f"Each takes {8 * BINS / 1e6:.2f} MB or more."
        raise InputError("network", field, most.section.count, "engines that fit the memory", hint) from None
    groups, routing, route_flat = _groups(places, routes)
    requests = unsent(count + BLOCK * engines)
    return Net(
        clock=clock,
        islands=islands,
        sites=sites,
        groups=groups,
        calls=_calls(network, places, calls),
        nodes=_nodes(network, places, calls),
        roots=roots,
        root_s=root_s,
        heap=rows(Coming, count),
        attained=np.zeros(calls.arrival_s.size, np.int64),
        due_s=np.full(int(islands[len(islands) - 1].tree), math.inf),
        fixed=fixed,
        now=now,
        requests=requests,
        call_of=np.zeros(len(requests.table), np.int64),
        lists=_lists(places, network, calls, engines),
        kept=records_over(np.zeros((int(sites[engines].kept), 2), np.int64), Kept),
        small=small,
        laws=laws,
        flat=flat,
        routing=routing,
        route_flat=route_flat,
        table=iterations(0),
        samples=model.Samples(*(np.zeros((samples, engines), np.int64) for _ in range(2))),
    )


def _lists(places: list[Place], network: Network, calls: Calls, engines: int) -> model.Lists:
    """Empty lists, for groups twice as wide as equal shares need: narrow rows keep engines near in memory, and few grow."""
    sent = np.bincount(_groups_of(network, calls)[calls.kind], minlength=len(places))
    count = np.array([place.section.count for place in places])
    width = 1 + int(np.where(count > 1, 2 * sent // count, sent).max())
    own = np.zeros((4, engines, width), np.int64)
    return model.Lists(*own, evicted=np.zeros((1, width), np.int64), picked=np.zeros((2, width), np.int64))


def widened(lists: model.Lists) -> model.Lists:
    """New lists with room for twice as many calls an engine, the old entries first; the old lists stay as they are."""
    return model.Lists(*(np.concatenate([one, np.zeros_like(one)], axis=1) for one in lists))


def _order(place: Place, trace: Trace) -> F8:
    """Weights of the key by which calls wait under ``fcfs``: the scheduling policy's, within a priority if there are any.

    With priorities a call's class is its priority. It weighs more than twice the largest key that the other terms can reach
    in 2^31 seconds, so calls of two priorities never change places.
    """
    weights = order_of(place.task.policy).weights
    if place.section.priority:
        prompt, output = (float(one.max(initial=0)) for one in (trace.prompt_tokens, trace.output_tokens))
        levels = 2048.0  # more than any quantum has
        most = np.array([float(1 << 31), prompt, *[output] * 6, 1.0, levels, 0.0, levels, 0.0])
        weights[BY_CLASS] = 1 + 2 * float(np.abs(weights) @ most)
    return weights


def _groups_of(network: Network, calls: Calls) -> I8:
    """int64[kinds], the group of each kind of call."""
    names = list(network.engines)
    return np.array([names.index(name) for name in calls.engine_of(network)], np.int64)


def _islands(network: Network, calls: Calls) -> I8:
    """int64[kinds], the island of each kind of call: consecutive groups, chosen so that no task has calls in two islands."""
    group = _groups_of(network, calls)
    linked = np.zeros(len(network.engines), np.bool_)  # to the group before
    for task in network.tasks:
        own = [int(g) for g, (name, _) in zip(group, calls.kinds, strict=True) if name == task]
        linked[min(own) + 1 : max(own) + 1] = True
    return (np.cumsum(~linked) - 1)[group]


def _roots(network: Network, places: list[Place], calls: Calls) -> tuple[Any, I8, F8]:
    """The islands; rows of the calls without parents, by island, release time and row; and their release times, seconds."""
    island, group = _islands(network, calls), _groups_of(network, calls)
    has_parent = np.zeros(calls.task.size, np.bool_)
    has_parent[calls.child] = True
    found = np.flatnonzero(~has_parent)
    at_s = calls.arrival_s[calls.task[found]] + calls.delay_s[found]
    own = island[calls.kind[found]]
    is_sorted = np.all((own[1:] > own[:-1]) | ((own[1:] == own[:-1]) & (at_s[1:] >= at_s[:-1])))
    order = slice(None) if is_sorted else np.lexsort((at_s, own))
    used = np.unique(island)
    first = [0, *(places[int(group[island == k].min())].first for k in used[1:])]
    islands = rows(model.Island, used.size + 1)
    engines = places[-1].engines.stop
    ends = np.searchsorted(own[order], used).tolist()
    leaves = [1 << (after - before - 1).bit_length() for before, after in pairwise([*first, engines])]
    trees = np.cumsum([0, *(2 * one for one in leaves)])
    fill(islands, first_engine=[*first, engines], first_root=[*ends, found.size], tree=trees, leaves=[*leaves, 0])
    return islands, found[order], at_s[order]


def _calls(network: Network, places: list[Place], calls: Calls) -> Rows[model.Call]:
    """The calls as engines and policies see them, by row."""
    found = rows(model.Call, calls.task.size)
    groups, ranks = _groups_of(network, calls), _ranks(network, calls)
    has_rank = np.array([bool(network.engines[name].priority) for name in calls.engine_of(network)])
    shares = np.array([network.tasks[task].one_key for task, _ in calls.kinds])
    # the prefill produces the first token, or the first decode does
    saved = np.array([int(place.section.server.first_token != "decode") for place in places])[groups]
    knows = np.array([place.task.bounds is not None for place in places])[groups]
    for first in range(0, len(found), _CHUNK):
        some = slice(first, first + _CHUNK)
        kind, prompt, output = calls.kind[some], calls.prompt[some], calls.output[some]
        believed = np.where(knows[kind], output, 0)
        fill(
            cut(found, first, first + _CHUNK),
            request_class=np.where(has_rank[kind], ranks[kind], calls.request_class[some]),
            prompt_tokens=prompt,
            output_low=believed,
            output_high=believed,
            output_tokens=output,
            group=groups[kind],
            work=prompt + output - saved[kind],
            affinity=np.where(shares[kind], (1 << 40) + kind, calls.task[some]),
        )
    return found


def _sites(
    places: list[Place], network: Network, trace: Trace, kernels: list[Any]
) -> tuple[Any, Any, Any, model.Small, F8, model.Flat]:
    """For each engine its site, settings, progress and short rows; then the numbers of all laws, and policies' space."""
    engines, count = places[-1].engines.stop, len(trace)
    sites, fixed, now = rows(model.Site, engines + 1), rows(Fixed, engines), rows(Now, engines)
    spaces, laws = _Spaces(), list[F8]()
    orders, kept, law = np.zeros((engines, order_of(object()).weights.size)), 0, 0
    for g, place in enumerate(places):
        task, (given, *words) = place.task, place.task.needs(count)
        settings: Any = fixed_of(task)
        settings.is_rank, settings.asks, settings.is_keyed = 1, 0, int(network.order != "fcfs")
        table, start, end = task.batch_time.table(), place.first, place.engines.stop
        fill(cut(fixed, start, end), **{name: getattr(settings, name) for name in Fixed.__annotations__})
        orders[start:end], policy = _order(place, trace), kernels.index(place.form_batch)
        for e in place.engines:
            site = sites[e]
            site.group, site.policy = g, policy
            now[e].kv_free = settings.kv_capacity
            now[e].unused_blocks = settings.kv_capacity // settings.block_tokens
            now[e].wake_s = math.inf
            site.kept, kept = kept, kept + (count if task.engine.keeps_evicted else 0)
            spaces.add(site, int(getattr(task.policy, "memory_size", 0)), given, words)
            site.law, law = law, law + table.size
            laws.append(table)
    last = sites[engines]
    last.kept, last.law = kept, law
    spaces.begin(last)
    # as many as the classes of calls, or as a group's priorities plus one for calls without, if these are more
    classes = 1 + max(int(trace.column("request_class").max(initial=0)), *(len(one.section.priority) for one in places))
    small = model.Small(
        orders,
        np.zeros((engines, LIMITS), np.int64),
        np.zeros((engines, 4), np.int64),
        np.zeros((engines, classes), np.int64),
        np.zeros((engines, FEATURES)),
        np.zeros((engines, BINS), np.int64),
    )
    return sites, fixed, now, small, np.concatenate(laws, dtype=np.float64), spaces.joined()


def _groups(places: list[Place], routes: list[Any]) -> tuple[Any, model.Routing, model.Flat]:
    """The groups, the routing policies' arguments for idle engines, and these policies' space."""
    groups, workers, spaces = rows(model.Group, len(places) + 1), 0, _Spaces()
    seen_i, seen_f = list[I8](), list[F8]()  # the tables of workers of `routing.view`, here of idle engines
    for g, place in enumerate(places):
        group, section, kernel = groups[g], place.section, place.routing_kernel
        group.first, group.count, group.workers = place.first, section.count, workers
        group.policy = routes.index(place.route)
        tokens, block = section.server.kv_tokens, section.server.block_tokens
        group.capacity = float(tokens // block * block) if tokens else math.inf
        group.reads_usage = int(isinstance(place.routing, VLLM))
        workers += 4 * section.count
        ints, floats = np.zeros((4, section.count), np.int64), np.zeros((4, section.count))
        ints[FREE_SLOTS] = UNLIMITED  # an engine accepts every call and queues it
        floats[KV_FREE], floats[SECONDS_PER_TOKEN] = math.inf, 1.0
        seen_i.append(ints.ravel())
        seen_f.append(floats.ravel())
        given, words = np.zeros(0), (0, 1)
        if kernel is not None:
            given = compiled.parameters(place.routing)
            words = kernel.scratch(section.count, 1, 0, given)
        spaces.add(group, memory_size_of(place.routing), given, words)
    spaces.begin(groups[len(places)])
    routing = model.Routing(
        np.concatenate(seen_i),
        np.concatenate(seen_f),
        np.zeros((3, 1), np.int64),
        np.zeros((3, 1)),
        np.zeros((max(place.section.count for place in places), 0)),
        np.zeros((0, 0)),
        np.zeros(1),
        np.zeros(1, np.int64),
    )
    return groups, routing, spaces.joined()


def _nodes(network: Network, places: list[Place], calls: Calls) -> model.Nodes:
    """The graphs of the tasks before the first event.

    Without a list of priorities, the class of a call is its priority at engines whose scheduling policy orders by class.
    """
    count = calls.task.size
    order = np.argsort(calls.parent, kind="stable")
    begins = np.zeros(count + 1, np.int64)
    if calls.parent.size:
        begins = np.searchsorted(calls.parent[order], np.arange(count + 1))
    keys = static_keys(network, calls) if _ORDERS[network.order] == model.STATIC else np.zeros(count)
    ranks, pending = _ranks(network, calls)[calls.kind], np.bincount(calls.child, minlength=count)
    own = [not one.section.priority and order_of(one.task.policy).weights[BY_CLASS] > 0 for one in places]
    if any(own):
        classes = np.unique(calls.request_class, return_inverse=True)[1].reshape(-1)
        ranks = np.where(np.array(own)[_groups_of(network, calls)][calls.kind], classes, ranks)
    return model.Nodes(calls.task, ranks, keys, calls.delay_s, pending, begins, calls.child[order])


def _ranks(network: Network, calls: Calls) -> I8:
    """int64[kinds], the priority of each kind of call at its engines; 0 goes first."""
    found: list[int] = []
    for engine, kind in zip(calls.engine_of(network), calls.kinds, strict=True):
        priority, name = network.engines[engine].priority, ".".join(kind)
        found.append(priority.index(name) if name in priority else len(priority))
    return np.array(found, np.int64)
