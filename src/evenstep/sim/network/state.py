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
from evenstep.routing.view import FREE_SLOTS, KV_FREE, SECONDS_PER_TOKEN, memory_size_of
from evenstep.scheduling.order import BY_CLASS, order_of
from evenstep.scheduling.view import LIMITS, whole_blocks
from evenstep.sim.cluster import ask as ask_route
from evenstep.sim.engine import ask as ask_batch
from evenstep.sim.engine.input import shown
from evenstep.sim.engine.model import Fixed, Kept, Now
from evenstep.sim.engine.state import Task, fixed_of, iterations, records_over, unsent
from evenstep.sim.network import model
from evenstep.sim.network.description import EngineSection, Network
from evenstep.sim.network.loop import MOST_POLICIES
from evenstep.sim.network.model import Net
from evenstep.sim.network.paths import static_keys
from evenstep.sim.network.sending import BLOCK
from evenstep.sim.network.tasks import Calls, taken

#: Slots of an engine that takes every call and lets it wait itself.
_ANY = 1 << 40
#: Calls whose columns are made at a time: temporary arrays then stay in the processor's caches.
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
    """A group of engines, as its section of NETWORK.yaml asks for it.

    Args:
        name: of the section.
        first: number of its first engine; engines are numbered over all groups.
        section: its settings.
        routing: the policy in front of it; None for a single engine.
        task: what each of its engines is asked to do, as the engine simulator takes it.
    """

    name: str
    first: int
    section: EngineSection
    routing: Any
    task: Task

    @property
    def policy(self) -> Any:
        """The scheduling policy of the group's engines."""
        return self.task.policy


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A network ready to run: its state, its groups, and the kernels of their policies.

    Args:
        net: the state.
        places: the groups.
        kernels, routes: compiled doors of the policies, `MOST_POLICIES` each.
        number: int64[C], for each row of `net` its call's row in `Calls`. In `net` calls of an island stand together.
    """

    net: Net
    places: list[Place]
    kernels: tuple[Any, ...]
    routes: tuple[Any, ...]
    number: I8


def prepared(network: Network, calls: Calls, seed: int, samples: int) -> Prepared:
    """Make the state before the first event.

    Args:
        network, calls: the engines, and the calls of all tasks.
        seed: key of the policies' draws.
        samples: sampling times, rows of the table of samples.

    Raises:
        InputError: more policies than a network may have, or a call that its engine's memory cannot hold.
    """
    places, first = list[Place](), 0
    check_memory(network, calls)
    order = np.argsort(_islands(network, calls)[calls.kind], kind="stable")
    calls = taken(calls, order)
    trace = Trace(calls.prompt, calls.output, request_class=calls.request_class)
    for name, section in network.engines.items():
        places.append(
            Place(name, first, section, section.balancer if section.count > 1 else None, _task(name, section, trace, seed))
        )
        first += section.count
    kernels = [compiled.kernel_of(one.policy) for one in places]
    routes = [compiled.kernel_of(one.routing) if one.section.count > 1 else None for one in places]
    forms = [(one or ask_batch).form_batch_into for one in kernels]
    ways = [(one or ask_route).route_into for one in routes]
    net = _net(network, places, calls, trace, seed, samples, (kernels, forms), (routes, ways))
    fill(net.calls, request_id=order)
    return Prepared(net, places, _several("policy", forms), _several("routing", ways), order)


def _different(kernels: Sequence[Any]) -> list[Any]:
    found: list[Any] = []
    for kernel in kernels:
        if not any(kernel is known for known in found):
            found.append(kernel)
    return found


def _several(field: str, kernels: Sequence[Any]) -> tuple[Any, ...]:
    found = _different(kernels)
    if len(found) > MOST_POLICIES:
        raise InputError("network", field, f"{len(found)} policies", f"at most {MOST_POLICIES} different ones")
    return tuple(found + [found[0]] * (MOST_POLICIES - len(found)))


def check_memory(network: Network, calls: Calls) -> None:
    """Check that each call fits the memory of its engine.

    Raises:
        InputError: naming the call, its engine and the tokens.
    """
    for kind, (which, name) in enumerate(zip(calls.kinds, calls.engine_of(network), strict=True)):
        server = network.engines[name].server
        rows = np.flatnonzero(calls.kind == kind)
        if not server.kv_tokens or not rows.size:
            continue
        last = 0 if server.hold_produced or server.first_token == "decode" else 1
        needed = calls.prompt[rows] + calls.output[rows] - last
        row = rows[int(np.argmax(needed))]
        capacity = server.kv_tokens // server.block_tokens * server.block_tokens
        least = whole_blocks(int(needed.max()), server.block_tokens)
        if least > capacity:
            is_drawn = bool(network.tasks[which[0]].calls)
            shorter = "cut its lengths off with high=N" if is_drawn else "leave the request out of the trace"
            raise InputError(
                "network",
                f"tasks.{which[0]}.calls.{which[1]}" if is_drawn else f"tasks.{which[0]}.trace",
                f"{calls.prompt[row]} + {calls.output[row]} tokens",
                f"at most the {capacity} KV tokens of engine {name}",
                f"Give engines.{name}.engine kv-tokens={least}, or {shorter}.",
            )


class _Flat:
    """Pieces of different length, one after the other, and where each begins."""

    def __init__(self, kind: Any) -> None:
        self.kind, self.parts, self.begins = kind, dict[int, Any](), [0]

    def add(self, part: Any) -> None:
        """Append a piece with these numbers."""
        self.parts[self.begins[-1]] = part
        self.skip(part.size)

    def skip(self, size: int) -> None:
        """Append a piece of `size` zeros."""
        self.begins.append(self.begins[-1] + size)

    def joined(self) -> Any:
        """All pieces in one array."""
        whole = np.zeros(self.begins[-1], self.kind)
        for begin, part in self.parts.items():
            whole[begin : begin + part.size] = part
        return whole


class _Spaces:
    """What the policies keep and work with: memory, parameters and scratch, each in one array, policy after policy."""

    def __init__(self) -> None:
        self.memory, self.parameters = _Flat(np.int64), _Flat(np.float64)
        self.scratch_i, self.scratch_f = _Flat(np.int64), _Flat(np.float64)

    def begin(self, record: Any) -> None:
        """Write down in a record where the next policy's part of each array begins."""
        for name in ("memory", "parameters", "scratch_i", "scratch_f"):
            setattr(record, name, getattr(self, name).begins[-1])

    def add(self, record: Any, memory: int, parameters: F8, scratch: tuple[int, int]) -> None:
        """Append a policy's part to each array, and write down in `record` where it begins."""
        self.begin(record)
        self.memory.skip(memory)
        self.parameters.add(parameters)
        self.scratch_i.skip(int(scratch[0]))
        self.scratch_f.skip(int(scratch[1]))

    def joined(self) -> model.Flat:
        """The arrays."""
        return model.Flat(*(one.joined() for one in (self.memory, self.parameters, self.scratch_i, self.scratch_f)))


def _net(
    network: Network,
    places: list[Place],
    calls: Calls,
    trace: Trace,
    seed: int,
    samples: int,
    batch: tuple[list[Any], list[Any]],
    route: tuple[list[Any], list[Any]],
) -> Net:
    engines, count = sum(one.section.count for one in places), calls.task.size
    horizon_s = network.until_s or float(calls.arrival_s.max(initial=1.0))
    clock = one(model.Clock)
    clock.until_s, clock.then_s = network.until_s or math.inf, math.inf
    clock.order, clock.seed = _ORDERS[network.order], seed
    clock.every_s = max(horizon_s, 1e-9) / max(samples, 1)
    islands, roots, root_s = _roots(network, places, calls)
    try:
        sites, fixed, now, small, laws, flat = _sites(places, network, trace, *batch)
    except MemoryError:
        most = max(places, key=lambda place: place.section.count)
        field, hint = f"engines.{most.name}.count", f"Each takes {8 * BINS / 1e6:.2f} MB or more."
        raise InputError("network", field, most.section.count, "engines that fit the memory", hint) from None
    groups, routing, route_flat = _groups(places, network, *route)
    kept = records_over(np.zeros((int(sites[engines].kept), 2), np.int64), Kept)
    requests = unsent(count + BLOCK * engines)
    return Net(
        clock=clock,
        islands=islands,
        sites=sites,
        groups=groups,
        calls=_calls(network, places, calls),
        nodes=_nodes(network, calls),
        roots=roots,
        root_s=root_s,
        heap_s=np.zeros(count),
        heap_row=np.zeros(count, np.int64),
        attained=np.zeros(calls.arrival_s.size, np.int64),
        due_s=np.full(int(islands[len(islands) - 1].tree), math.inf),
        fixed=fixed,
        now=now,
        requests=requests,
        call_of=np.zeros(len(requests.table), np.int64),
        lists=_lists(places, network, calls, engines),
        kept=kept,
        small=small,
        laws=laws,
        flat=flat,
        routing=routing,
        route_flat=route_flat,
        table=iterations(0),
        samples=model.Samples(*(np.zeros((samples, engines), np.int64) for _ in range(2))),
    )


def _lists(places: list[Place], network: Network, calls: Calls, engines: int) -> model.Lists:
    """Twice as wide as equal shares need: narrow rows keep engines near each other in memory, and few grow."""
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

    With priorities a call's class is its priority. It weighs more than twice the largest key that the other terms can
    reach in 2^31 seconds, so calls of two priorities never change places.
    """
    weights = order_of(place.policy).weights
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
    """int64[kinds], the island of each kind of call: groups in a row, so that no task has calls in two of them."""
    group, linked = _groups_of(network, calls), np.zeros(len(network.engines), np.bool_)  # to the group before it
    for task in network.tasks:
        own = [int(g) for g, (name, _) in zip(group, calls.kinds, strict=True) if name == task]
        linked[min(own) + 1 : max(own) + 1] = True
    return (np.cumsum(~linked) - 1)[group]


def _roots(network: Network, places: list[Place], calls: Calls) -> tuple[Any, I8, F8]:
    """The islands; calls that wait for nothing by island, time of release and row; and the times."""
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
    engines = places[-1].first + places[-1].section.count
    ends = np.searchsorted(own[order], used).tolist()
    leaves = [1 << (after - before - 1).bit_length() for before, after in pairwise([*first, engines])]
    trees = np.cumsum([0, *(2 * one for one in leaves)])
    fill(islands, first_engine=[*first, engines], first_root=[*ends, found.size], tree=trees, leaves=[*leaves, 0])
    return islands, found[order], at_s[order]


def _task(name: str, section: EngineSection, trace: Trace, seed: int) -> Task:
    """An engine's settings as the engine simulator takes them."""
    policy = section.scheduling
    return Task(trace, policy, section.server, section.law, shown(trace, policy, None), seed, False, "auto", math.inf, name)


def _calls(network: Network, places: list[Place], calls: Calls) -> Rows[model.Call]:
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
    places: list[Place], network: Network, trace: Trace, kernels: list[Any], forms: list[Any]
) -> tuple[Any, Any, Any, model.Small, F8, model.Flat]:
    engines, count = sum(one.section.count for one in places), len(trace)
    sites, fixed, now = rows(model.Site, engines + 1), rows(Fixed, engines), rows(Now, engines)
    spaces, laws = _Spaces(), _Flat(np.float64)
    orders, kept = np.zeros((engines, order_of(object()).weights.size)), 0
    different = _different(forms)
    for g, place in enumerate(places):
        task, kernel = place.task, kernels[g]
        given = compiled.parameters(place.policy) if kernel is not None else np.zeros(0)
        words = (0, 0)
        if kernel is not None and hasattr(kernel, "scratch"):
            words = kernel.scratch(min(count, 1 << 30), min(count, 1 << 30), given)
        settings: Any = fixed_of(task)
        settings.is_rank, settings.asks, settings.is_keyed = 1, 0, int(network.order != "fcfs")
        table, end = task.batch_time.table(), place.first + place.section.count
        fill(cut(fixed, place.first, end), **{name: getattr(settings, name) for name in Fixed.__annotations__})
        orders[place.first : end] = _order(place, trace)
        for e in range(place.first, end):
            site = sites[e]
            site.group = g
            site.policy = next(k for k, known in enumerate(different) if known is forms[g])
            now[e].kv_free = settings.kv_capacity
            now[e].unused_blocks = settings.kv_capacity // settings.block_tokens
            now[e].wake_s = math.inf
            site.kept, kept = kept, kept + (count if task.engine.keeps_evicted else 0)
            spaces.add(site, int(getattr(place.policy, "memory_size", 0)), given, words)
            site.law = laws.begins[-1]
            laws.add(table)
    last = sites[engines]
    last.kept, last.law = kept, laws.begins[-1]
    spaces.begin(last)
    small = model.Small(
        orders,
        np.zeros((engines, LIMITS), np.int64),
        np.zeros((engines, 4), np.int64),
        np.zeros((engines, classes_of(places, trace)), np.int64),
        np.zeros((engines, FEATURES)),
        np.zeros((engines, BINS), np.int64),
    )
    return sites, fixed, now, small, laws.joined(), spaces.joined()


def classes_of(places: list[Place], trace: Trace) -> int:
    """The number of request classes that engines may see: of the calls' classes, or of a group's priorities + 1 if more."""
    most = int(trace.column("request_class").max(initial=0)) + 1
    return max(most, *(len(one.section.priority) + 1 for one in places))


def _groups(
    places: list[Place], network: Network, kernels: list[Any], ways: list[Any]
) -> tuple[Any, model.Routing, model.Flat]:
    groups, workers, different = rows(model.Group, len(places) + 1), 0, _different(ways)
    spaces = _Spaces()
    for g, place in enumerate(places):
        group, section, kernel = groups[g], place.section, kernels[g]
        group.first, group.count, group.workers = place.first, section.count, workers
        group.policy = next(k for k, known in enumerate(different) if known is ways[g])
        group.capacity = float(section.server.kv_tokens) if section.server.kv_tokens else math.inf
        workers += 4 * section.count
        given, words = np.zeros(0), (0, 1)
        if kernel is not None:
            given = compiled.parameters(place.routing)
            if hasattr(kernel, "scratch"):
                words = kernel.scratch(section.count, 1, 0, given)
        spaces.add(group, memory_size_of(place.routing), given, words)
    spaces.begin(groups[len(places)])
    seen_i, seen_f = _before_the_first_call(places)
    routing = model.Routing(
        seen_i,
        seen_f,
        np.zeros((3, 1), np.int64),
        np.zeros((3, 1)),
        np.zeros((max(place.section.count for place in places), 0)),
        np.zeros((0, 0)),
        np.zeros(1),
        np.zeros(1, np.int64),
    )
    return groups, routing, spaces.joined()


def _before_the_first_call(places: list[Place]) -> tuple[I8, F8]:
    """What routing policies see of idle engines: the rows of `routing.view`'s tables of workers, group after group."""
    ints, floats = list[Any](), list[Any]()
    for place in places:
        own_i, own_f = np.zeros((4, place.section.count), np.int64), np.zeros((4, place.section.count))
        own_i[FREE_SLOTS], own_f[KV_FREE], own_f[SECONDS_PER_TOKEN] = _ANY, math.inf, 1.0
        ints.append(own_i.ravel())
        floats.append(own_f.ravel())
    return np.concatenate(ints), np.concatenate(floats)


def _nodes(network: Network, calls: Calls) -> model.Nodes:
    count = calls.task.size
    order = np.argsort(calls.parent, kind="stable")
    begins = np.zeros(count + 1, np.int64)
    if calls.parent.size:
        begins = np.searchsorted(calls.parent[order], np.arange(count + 1))
    keys = static_keys(network, calls) if _ORDERS[network.order] == model.STATIC else np.zeros(count)
    ranks, pending = _ranks(network, calls)[calls.kind], np.bincount(calls.child, minlength=count)
    return model.Nodes(calls.task, ranks, keys, calls.delay_s, pending, begins, calls.child[order])


def _ranks(network: Network, calls: Calls) -> I8:
    """int64[kinds], the priority of each kind of call at its engines; 0 goes first."""
    found: list[int] = []
    for engine, kind in zip(calls.engine_of(network), calls.kinds, strict=True):
        priority, name = network.engines[engine].priority, ".".join(kind)
        found.append(priority.index(name) if name in priority else len(priority))
    return np.array(found, np.int64)
