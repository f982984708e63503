"""Analyses networks of engines: verdicts from their loads, simulations, and comparisons of orders of service."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import get_args

import numpy as np

from evenstep.config.number import integers
from evenstep.config.yaml_file import in_file
from evenstep.errors import MOST, InputError, check_known
from evenstep.experiments.compare.engine_compare import belief_note
from evenstep.measure.comparison import check_replicates, paired
from evenstep.measure.network_records import NetworkRun, Ordered
from evenstep.report.network_orders import NetworkOrders
from evenstep.request import Trace
from evenstep.scheduling.policies.class_first import ClassFirst
from evenstep.scheduling.policies.sarathi import Sarathi
from evenstep.scheduling.policies.sjf import Sjf
from evenstep.scheduling.policies.vllm import Vllm
from evenstep.scheduling.policies.work_conserving import WorkConserving
from evenstep.scheduling.view import SchedulingPolicy
from evenstep.sim.network.description import END, EngineSection, Network, Order, load, read_traces
from evenstep.sim.network.paths import ancestors, mean_tokens, visits
from evenstep.sim.network.simulation import simulate_network
from evenstep.sim.network.tasks import draw
from evenstep.theory.capacity import NO_BUDGET, busiest, by_tokens, conserves
from evenstep.theory.stations import Checked, Flow, Judged, Station, engine_loads, virtual_stations
from evenstep.workload.synthetic.arrivals import mean_rate

#: Routing policies of Proposition 1, which keep equal engines equally busy.
EVEN = frozenset({"random", "round-robin", "jsq", "least-load"})
#: Figures in which orders are compared.
FIGURES = ("task_mean_s", "task_p95_s", "call_mean_s", "tasks_per_s", "tokens_left")


def tokens_per_s(section: EngineSection) -> float:
    """The most tokens a second that one engine of a section can run, with batches of any size up to the token budget b.

    It is b / t_b if full batches run the most. It is nan if the batch time depends on more than tokens, and inf if some
    batch takes no time. Without a budget, b is 2^24. Each engine of a group has this rate.
    """
    return _busiest(section)[1] if by_tokens(section.law) else math.nan


def _busiest(section: EngineSection) -> tuple[int, float]:
    """(tokens, tokens a second) of the batch within the budget that runs the most tokens a second."""
    return busiest(section.law, section.server.token_budget or NO_BUDGET, section.server.overhead_s)


def flows(network: Network, traces: Mapping[str, Trace] | None = None) -> list[Flow]:
    """The load of every call: the share of its engine's capacity that it takes. A recorded trace counts as one call.

    Returns a `Flow` for each call, task by task in the file's order. An engine cannot keep up if its loads sum to more than
    1. A load is nan if `tokens_per_s` is nan, or if all tasks arrive at once, so that they have no rate. The rank is the
    call's place in the engine's priority list; calls that it lacks come last. All ranks but a recorded trace's are equal if
    the policy does not serve by priority. `traces` are the recorded traces by task (`settled`).
    """
    found: list[Flow] = []
    for name, task in network.tasks.items():
        if task.trace is not None:
            found.append(_recorded_flow(network, name, (traces or {})[name]))
            continue
        assert task.arrivals is not None
        rate = mean_rate(task.arrivals) or math.nan
        runs, tokens, earlier = visits(task), mean_tokens(task), ancestors(task)
        for call, section in task.calls.items():
            engine = network.engines[section.engine]
            work = _work(engine, tokens[call])
            listed = engine.priority if _by_priority(engine.scheduling) else []
            rank = listed.index(f"{name}.{call}") if f"{name}.{call}" in listed else len(listed)
            share = rate * runs[call] * work / (tokens_per_s(engine) * engine.count)
            before = frozenset(f"{name}.{one}" for one in earlier[call])
            found.append(Flow(f"{name}.{call}", section.engine, share, rank, before))
    return found


def _by_priority(policy: SchedulingPolicy) -> bool:
    """True if priorities hold under a policy: it runs what it has begun before it admits, and admits in order."""
    return isinstance(policy, ClassFirst | Sarathi | Sjf | Vllm) or policy == WorkConserving()


def _work(engine: EngineSection, tokens: tuple[float, float], calls: int = 1) -> float:
    """Tokens that an engine runs for `calls` calls with these total (prompt, output) tokens.

    It is one less a call if a prefill gives the first output token.
    """
    return sum(tokens) - calls * (engine.server.first_token != "decode")


def _recorded_flow(network: Network, name: str, trace: Trace) -> Flow:
    """The `Flow` of a task with a recorded trace, which counts as one call, ``TASK.call``."""
    engine = network.tasks[name].engine or ""
    section, process = network.engines[engine], network.tasks[name].arrivals
    calls = draw(Network({engine: EngineSection()}, {name: network.tasks[name]}, seed=network.seed), {name: trace})
    tasks, span_s = calls.arrival_s.size, float(np.ptp(calls.arrival_s))
    tokens = _work(section, (float(calls.prompt.sum()), float(calls.output.sum())), calls.prompt.size)
    rate = mean_rate(process) if process is not None else (tasks - 1) / (span_s or math.nan)
    load = (rate or math.nan) * tokens / tasks / (tokens_per_s(section) * section.count)
    return Flow(f"{name}.call", engine, load, len(section.priority))


def judge(network: Network, traces: Mapping[str, Trace] | None = None) -> Judged:
    """The analytical verdict on a network: ``unstable``, ``stable`` or ``unknown``, with the reason; `traces` are by task.

    The verdict is unstable if an engine, a virtual station or a hashed key has a load above 1. It is stable if all loads are
    below 1 and a theorem covers the network. Theorems need work-conserving policies without limits, full batches that run
    the most tokens a second, even routing, and no call that follows another. Tasks without a rate leave the verdict unknown,
    unless the other tasks already make it unstable.
    """
    found = flows(network, traces)
    engines, stations = tuple(engine_loads(found)), tuple(virtual_stations(found))
    drawn = [call for task in network.tasks.values() for call in task.calls.values()]
    in_sequence = any(call.after or any(one != END and call.then[one] > 0 for one in call.then) for call in drawn)
    in_sequence |= any(bool((trace.column("after") >= 0).any()) for trace in (traces or {}).values())
    verdict, why = _verdict(network, found, engines, stations, in_sequence)
    return Judged(engines, stations, verdict, why)


def _verdict(
    network: Network, found: Sequence[Flow], engines: Sequence[Station], stations: Sequence[Station], in_sequence: bool
) -> tuple[str, str]:
    """(verdict, reason) as in `judge`; `found` are all loads, `in_sequence` is True if a call follows another."""
    known = [one for one in found if not math.isnan(one.load)]
    over = [one for one in engine_loads(known) if one.load > 1]
    if over:
        return "unstable", f"engine {over[0].engines[0]} has load {over[0].load:.3f}"
    heavy = [one for one in virtual_stations(known) if one.load > 1]
    if heavy:
        return "unstable", f"{' and '.join(heavy[0].calls)} form a virtual station of load {heavy[0].load:.3f}"
    hot = hot_keys(network, known)
    if hot:
        return "unstable", hot
    full = [one.engines[0] for one in engines if one.load == 1]
    full += [" and ".join(one.calls) for one in stations if one.load == 1]
    if full:
        return "unknown", f"the load of {full[0]} is 1, at which no theorem decides"
    unknown = next((one for one in found if math.isnan(one.load)), None)
    if unknown is not None and not by_tokens(network.engines[unknown.engine].law):
        return "unknown", f"no closed form: the batch time of {unknown.engine} depends on more than tokens"
    if unknown is not None:
        return "unknown", f"{unknown.name} has no load: its tasks all arrive at once, so they have no rate"
    for name, section in network.engines.items():
        if section.priority and not _by_priority(section.scheduling):
            return "unknown", f"loads are below 1; no theorem covers priorities with {section.policy}, the policy of {name}"
    for one in engines:
        section = network.engines[one.engines[0]]
        if not conserves(section.scheduling) or section.server.kv_tokens or section.server.seats:
            needs = "work-conserving policies without limits"
            return "unknown", f"loads are below 1; the theorem needs {needs}, {one.engines[0]} differs"
        if _busiest(section)[0] < (section.server.token_budget or NO_BUDGET):
            most = f"full batches of {one.engines[0]} run fewer tokens a second than smaller ones"
            return "unknown", f"loads are below 1; no theorem covers this: {most}"
        if section.count > 1 and section.routing.partition(":")[0] not in EVEN:
            return "unknown", f"loads are below 1; no theorem covers {section.routing} in front of {one.engines[0]}"
    if in_sequence:
        reason = "priorities can break it" if any(e.priority for e in network.engines.values()) else "a conjecture for FCFS"
        return "unknown", f"loads are below 1, which is necessary; that it suffices is unproved for networks ({reason})"
    return "stable", "loads are below 1 and policies work-conserving (Theorem 1, Proposition 1)"


def notes(network: Network) -> list[str]:
    """A sentence for each engine whose policy is shown true output lengths, or plans with bounds that calls lack."""
    found = (
        belief_note(f"{one.policy}, the policy of {name},", one.scheduling, bounded=False)
        for name, one in network.engines.items()
    )
    return [note for note in found if note]


def hot_keys(network: Network, found: Sequence[Flow]) -> str:
    """A sentence on the first call whose key is the same in all tasks and whose load is too much for one engine; else empty.

    Only groups with ``consistent-hash`` routing count. A group is skipped if its bound is below the number of engines,
    because requests above the bound then go to other engines. `found` are the loads of all calls (`flows`).
    """
    for name, section in network.engines.items():
        is_hash = section.routing.partition(":")[0] == "consistent-hash"
        if section.count == 1 or not is_hash or section.balancer.bound < section.count:
            continue
        for task, one in network.tasks.items():
            names = [f"{task}.{call}" for call in one.calls or ("call",)]
            own = [(section.count * flow.load, flow.name) for flow in found if flow.engine == name and flow.name in names]
            load, call = max(own, default=(0.0, ""))
            if one.one_key and load > 1:
                who = f"calls {call}" if len(one.calls) > 1 else f"tasks {task}"
                return f"{who} share one key, and {section.routing} sends them to one engine of {name}: load {load:.3f}"
    return ""


def settled(path: str | Path, until_s: float | None = None) -> tuple[Network, dict[str, Trace]]:
    """Read a network file and its recorded traces, and return (network, traces by task); `InputError` for a bad file.

    `until_s`, the second at which simulations end, replaces the file's value unless it is None.
    """
    network = load(path)
    if until_s is not None:
        network = replace(network, until_s=until_s)
    return network, read_traces(path, network)


def check(path: str | Path, *, until_s: float | None = None, seed: int = 0) -> Checked:
    """Judge a network file analytically (`judge`), and simulate it once under `seed`, up to `until_s` (None = the file's).

    The result also has the growth of each virtual station with a load above 1 (`grown`), unless the run counts no time.
    `InputError` for a bad file; it names the file.
    """
    network, traces = settled(path, until_s)
    with in_file(path, "network"):
        judged, run = judge(network, traces), simulate_network(network, traces=traces, seed=seed)
    over = [one for one in judged.stations if one.load > 1] if run.counted_s > 0 else []
    growth = {" and ".join(one.calls): (one.load - 1, grown(network, run, one.calls)) for one in over}
    return Checked(judged, run, growth)


def grown(network: Network, run: NetworkRun, calls: Sequence[str]) -> float:
    """Growth of the work of calls named ``TASK.CALL``, in engine seconds a second, over the second half of the counted time.

    The work of a call is the seconds that its engine or group needs for the call's mean tokens. It counts from the arrival
    of the task until the call is finished. The run must have ``counted_s > 0``.
    """
    seconds = np.zeros(len(run.kinds))
    for k, (task, call) in enumerate(run.kinds):
        if f"{task}.{call}" in calls:
            section = network.engines[network.tasks[task].calls[call].engine]
            tokens = _work(section, mean_tokens(network.tasks[task])[call])
            seconds[k] = tokens / (tokens_per_s(section) * section.count)
    work, came_s = seconds[run.calls.kind], run.tasks.arrival_s[run.calls.task]
    ends = np.where(np.isnan(run.calls.finished_s), np.inf, run.calls.finished_s)
    half_s, end_s = 0.5 * run.counted_s, run.counted_s

    def held(at_s: float) -> float:
        return float(work[(came_s <= at_s) & (ends > at_s)].sum())

    return (held(end_s) - held(half_s)) / (end_s - half_s)


def compare(
    path: str | Path, *, orders: Sequence[str] = (), seeds: int | None = None, seed: int = 0, until_s: float | None = None
) -> NetworkOrders:
    """Simulate a network file under each order of service, with the same seeds, so that every order sees the same tasks.

    Args:
        orders: empty = the file's own order.
        seeds: replicates of each order, under `seed`, ``seed + 1`` and so on; None = 3, or 1 if two are equal under the
            first order.
        until_s: the second at which each simulation ends; None = as in the file.

    Returns:
        One result an order, in the order asked: its runs, and paired differences of `FIGURES` to the first (None for it).

    Raises:
        InputError: an unknown or repeated order, less than one seed, a bad file, or two equal replicates although `seeds` is
            given.
    """
    if seeds is not None and not 1 <= seeds <= MOST:
        raise InputError("evenstep network", "--seeds", seeds, integers(1, seeds))
    network, traces = settled(path, until_s)
    found: list[Ordered] = []
    count = 3 if seeds is None else seeds
    for one in in_orders(network, orders):
        with in_file(path, "network"):
            runs = tuple(simulate_network(one, traces=traces, seed=seed + k) for k in range(count))
        digests = [run.digest for run in runs]
        if seeds is None and not found and len(set(digests)) < count:
            runs, count = runs[:1], 1
        elif seeds is not None:
            check_replicates(one.order, digests)
        first = found[0].runs if found else ()
        versus = paired([run.summary for run in runs], [run.summary for run in first], FIGURES) if first else None
        found.append(Ordered(one.order, runs, versus))
    return NetworkOrders(tuple(found), partial(judge, network, traces))


def in_orders(network: Network, orders: Sequence[str] = ()) -> list[Network]:
    """Copies of the network, one under each order (empty = its own); `InputError` for an unknown or repeated order."""
    known = get_args(Order)
    for k, order in enumerate(orders):
        check_known("evenstep network", "--orders", order, known, "a known order")
        if order in orders[:k]:
            raise InputError("evenstep network", "--orders", order, "each order once")
    return [replace(network, order=order) for order in orders or (network.order,)]  # type: ignore[arg-type]
