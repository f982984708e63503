"""What a network of 64 engines costs, compared with 64 single engines, and how long Rybko-Stolyar's network takes.

Both sides run the same requests on the same engines in one process, without tables of iterations, and give the same batches.
In the first network the engines share no task, so they run one after the other. The second has the same engines as one group
behind a routing policy, on one clock: single engines then get the requests that the policy sent to each. Rounds alternate;
brackets hold the least and most.

    python benchmarks/bench_network.py [--rounds 5] [--engines 64] [--calls 100000]
"""

from __future__ import annotations

import argparse
import functools
import platform
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from evenstep import Trace, __version__, compiled
from evenstep.measure.network_records import NetworkRun
from evenstep.sim.engine.simulation import simulate_engine
from evenstep.sim.network.description import EngineSection, Network, TaskSection, load
from evenstep.sim.network.simulation import simulate_network
from evenstep.workload.synthetic.arrivals import Poisson
from evenstep.workload.synthetic.yaml_file import TraceFile

EXAMPLES = Path(__file__).parents[1] / "examples" / "networks"
#: Requests of 129 and 112 tokens at 0.87 of b / t_b.
RATE, PROMPT, OUTPUT = 22.0, 129, 112
#: Policies in front of the group: one that looks at no engine, and one that looks at all of them.
ROUTING = ("round-robin", "jsq")
SECTION = EngineSection(
    engine="token-budget=512,batch-limit=0,first-token=decode",
    batch_time="token-budget:fit=codellama-34b-tp2",
    policy="sarathi",
)


def traces_of(engines: int, calls: int) -> list[Trace]:
    """The requests of each engine."""
    each = calls // engines
    sizes = np.full(each, PROMPT), np.full(each, OUTPUT)
    return [Trace(*sizes, arrival_s=Poisson(RATE).times(each, seed, 0)) for seed in range(engines)]


def singly(traces: list[Trace]) -> list[tuple[float, int]]:
    """Each engine by itself; all runs are kept to the end, as a network keeps those of its engines."""
    runs = [
        simulate_engine(trace, SECTION.scheduling, engine=SECTION.server, batch_time=SECTION.law, records=False)
        for trace in traces
    ]
    return [(run.totals.makespan_s, run.totals.iterations) for run in runs]


def together(traces: list[Trace]) -> list[tuple[float, int]]:
    """All on one clock."""
    names = [f"e{k}" for k in range(len(traces))]
    tasks = {name: TaskSection(trace=TraceFile(name), engine=name) for name in names}
    network = Network(dict.fromkeys(names, SECTION), tasks)
    return batches(simulate_network(network, traces=dict(zip(names, traces, strict=True))))


def joined(traces: list[Trace]) -> Trace:
    """All requests in one trace."""
    arrival_s = np.sort(np.concatenate([trace.column("arrival_s") for trace in traces]))
    return Trace(np.full(arrival_s.size, PROMPT), np.full(arrival_s.size, OUTPUT), arrival_s=arrival_s)


def grouped(whole: Trace, engines: int, routing: str) -> NetworkRun:
    """One group of engines behind a routing policy."""
    sections = {"pool": replace(SECTION, count=engines, routing=routing)}
    tasks = {"task": TaskSection(trace=TraceFile("task"), engine="pool")}
    return simulate_network(Network(sections, tasks), traces={"task": whole})


def divided(run: NetworkRun) -> list[Trace]:
    """The requests that each engine of a group was sent."""
    times = [run.calls.released_s[run.calls.engine == e] for e in range(len(run.engines))]
    return [Trace(np.full(own.size, PROMPT), np.full(own.size, OUTPUT), arrival_s=own) for own in times]


def batches(run: NetworkRun) -> list[tuple[float, int]]:
    """When each engine was done, and how many batches it ran."""
    return [(one.totals.makespan_s, one.totals.iterations) for one in run.engines.values()]


def cpu_s(run: Callable[[], object]) -> float:
    """CPU seconds of a call."""
    begin_s = time.process_time()
    run()
    return time.process_time() - begin_s


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--engines", type=int, default=64)
    parser.add_argument("--calls", type=int, default=100_000)
    args = parser.parse_args()
    traces = traces_of(args.engines, args.calls)
    sides: dict[str, tuple[list[Trace], Callable[[], list[tuple[float, int]]]]] = {
        "engines apart": (traces, lambda: together(traces))
    }
    whole = joined(traces)
    for routing in ROUTING:
        run = functools.partial(grouped, whole, args.engines, routing)
        sides[f"one group behind {routing}"] = divided(run()), lambda run=run: batches(run())
    for name, (own, run) in sides.items():
        if singly(own) != run():
            raise SystemExit(f"{name}: the two sides do not run the same batches")
    print(f"evenstep {__version__} ({compiled.mode()}), Python {platform.python_version()}, {platform.machine()}")
    print(f"{args.engines} engines, {args.calls:,} calls; CPU of the network / of single engines; aim 1.3")
    for name, (own, run) in sides.items():
        rounds = [(cpu_s(lambda own=own: singly(own)), cpu_s(run)) for _ in range(args.rounds)]
        ratios = sorted(network / single for single, network in rounds)
        middle = ratios[len(ratios) // 2]
        print(f"{name}: {middle:.2f} [{ratios[0]:.2f}, {ratios[-1]:.2f}]; single {min(rounds)[0]:.3f} s at best")
    network = load(EXAMPLES / "rybko-stolyar.yaml")
    times = sorted(cpu_s(lambda: simulate_network(network)) for _ in range(args.rounds))
    print(f"Rybko-Stolyar to 100,000 slots: {times[len(times) // 2]:.2f} [{times[0]:.2f}, {times[-1]:.2f}] s CPU; aim 5")


if __name__ == "__main__":
    main()
