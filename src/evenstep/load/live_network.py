"""Runs the agent tasks of a network file live: its calls go through a gateway to emulated engines.

Each engine or group of the file becomes emulated engines that serve a model of its name and share one pool of the gateway.
Calls send their task and their priority, and wait in the gateway's pool until an engine has a free slot.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from evenstep.errors import InputError, check_range
from evenstep.load.processes import HOST, beside, emulator, free_ports, gateway
from evenstep.load.run import Outcome, drive
from evenstep.load.schedule import Workflow
from evenstep.load.settings import LoadSettings
from evenstep.measure.engine_records import latencies
from evenstep.measure.network_records import Live
from evenstep.request import F8, Trace
from evenstep.sim.network.description import EngineSection, Network, Order
from evenstep.sim.network.paths import static_keys
from evenstep.sim.network.tasks import Calls, draw

_START_S = 600.0  # longest wait for the start; kernels may have to be compiled
_WAIT_S = 3600.0  # longest wait of a call, at the client and in the gateway's pool
#: Slots of an engine that has no limit of its own.
_SLOTS = 256
#: KV tokens of an engine whose memory the file does not limit: more than its calls can hold.
_KV_TOKENS = 1 << 30
#: Distance between places in an engine's list; larger than any key, so that the place decides before the key.
_RANK = float(1 << 44)
#: The gateway's order for each order of a network. Calls send the keys of static orders as their priority; among equal ones
#: the oldest task is first, as in the simulator.
_ORDERS: dict[Order, str] = {
    "fcfs": "priority",
    "oldest-task": "oldest-task",
    "least-attained": "least-attained",
    "critical-path": "oldest-task",
    "longest-path": "oldest-task",
}


def run_live(network: Network, *, traces: Mapping[str, Trace] | None = None, seed: int = 0, speed: float = 1.0) -> Live:
    """Run a network's tasks once, until all are done or the network's `until_s` has passed; returns its figures.

    Emulated engines and a gateway are started for the run, and stopped after it.

    Args:
        traces: recorded tasks by name of their task type.
        seed: seed of every draw; the tasks are those of `simulate_network` with the same seed.
        speed: how many times faster time passes than in the network; times in the result are on the network's scale.

    Raises:
        InputError: groups have different routing policies, or the speed is not a finite number > 0.
        EngineError: engines or gateway do not start.
    """
    check_range("evenstep network", "a finite number > 0", above=0, finite=True, **{"--speed": speed})
    calls = draw(network, traces, seed)
    routing = routing_of(network)
    ports = dict(zip(network.engines, free_ports(len(network.engines)), strict=True))
    listen, admin = free_ports(2)
    with contextlib.ExitStack() as stack:
        for name, section in network.engines.items():
            stack.enter_context(beside(emulated(name, section, ports[name], speed), ports[name], "/health", _START_S))
        stack.enter_context(gateway(gateway_config(network, routing, ports), listen, admin, _START_S))
        url = f"http://{HOST}:{listen}"
        settings = LoadSettings(source=network.name, url=url, model="any", seed=seed, timeout_s=_WAIT_S)
        trace = Trace(calls.prompt, calls.output, name=network.name)
        outcome = drive(trace, settings, workflow=workflow(network, calls, speed))
    return _measured(network, calls, outcome, seed, speed)


def workflow(network: Network, calls: Calls, speed: float = 1.0) -> Workflow:
    """Build the workflow for `run.drive`: all calls, with their models and priorities, `speed` times as fast."""
    models = np.array(calls.engine_of(network))[calls.kind].tolist()
    return Workflow(calls, models, priorities(network, calls), network.until_s, speed)


def priorities(network: Network, calls: Calls) -> F8:
    """float64[C], priority of each call; a smaller value is served first.

    Priorities differ first by the call's place in its engine's list `priority` (calls not listed come last). In one place,
    they differ by the call's key if the network's order is critical-path or longest-path, else they are equal.
    """
    keys = static_keys(network, calls) if network.order in ("critical-path", "longest-path") else np.zeros(calls.task.size)
    ranks: list[int] = []
    for name, kind in zip(calls.engine_of(network), calls.kinds, strict=True):
        listed = network.engines[name].priority
        ranks.append(listed.index(".".join(kind)) if ".".join(kind) in listed else len(listed))
    return np.array(ranks, np.float64)[calls.kind] * _RANK + keys


def routing_of(network: Network) -> str:
    """Name of the routing policy that all groups (several engines of one kind) share; ``jsq`` if there are no groups.

    Groups with different policies raise `InputError`, because a gateway has one policy.
    """
    found = list(dict.fromkeys(one.routing for one in network.engines.values() if one.count > 1))
    if len(found) > 1:
        raise InputError("network", "routing", ", ".join(found), "one routing policy for all groups with --live")
    return found[0] if found else "jsq"


def slots_of(section: EngineSection) -> int:
    """Number of calls that an emulated engine runs at a time: its seats, else its token budget, else 256."""
    return section.server.seats or section.server.token_budget or _SLOTS


def emulated(name: str, section: EngineSection, port: int, speed: float = 1.0) -> list[str]:
    """The command-line words after ``evenstep`` that start the emulated engines of an engine or group.

    They serve a model called `name` and are ranks on one port, each a barrier group of its own. Time passes `speed` times
    as fast as in the network.
    """
    server = section.server
    found: dict[str, Any] = {
        "model": name,
        "ranks": section.count,
        "groups": ",".join(["1"] * section.count),
        "slots": slots_of(section),
        "overhead-s": server.overhead_s,
        "batch-time": section.batch_time,
        "token-budget": server.token_budget,
        "kv-tokens": server.kv_tokens or _KV_TOKENS,
        "speed": speed,
    }
    if server.kv_tokens:
        found["block-size"] = server.block_tokens
    return emulator(port, found)


def gateway_config(network: Network, routing: str, ports: Mapping[str, int]) -> dict[str, Any]:
    """The gateway's config (for `processes.gateway`), with one pool for each engine or group.

    `routing` is the policy's name; `ports` has the port of each engine or group, by name.
    """
    workers: list[dict[str, Any]] = []
    for name, section in network.engines.items():
        for rank in range(section.count):
            own = f"{name}-{rank}" if section.count > 1 else name
            one = {"url": f"http://{HOST}:{ports[name]}", "name": own, "group": own, "models": [name]}
            workers.append(one | {"slots": slots_of(section)} | ({"rank": rank} if section.count > 1 else {}))
    dispatch = {"order": _ORDERS[network.order], "gather_ms": 0.0, "ttl_s": _WAIT_S, "pool_limit": 1_000_000}
    return {"policy": routing, "workers": workers, "dispatch": dispatch}


def _measured(network: Network, calls: Calls, outcome: Outcome, seed: int, speed: float) -> Live:
    """The results of a run, with times converted from clock seconds to the network's seconds."""
    ended_s, due_s = outcome.records.ended_s * speed, outcome.records.due_s * speed
    end_s = calls.task_ends(ended_s)
    done, ran = np.isfinite(end_s), ~np.isnan(ended_s)
    spans = latencies("task", (end_s - calls.arrival_s)[done]) | latencies("call", (ended_s - due_s)[ran])
    failed = sum(bool(error) and over for error, over in zip(outcome.records.error, ran.tolist(), strict=True))
    return Live(network.order, seed, done.size, int((~done).sum()), failed, spans)
