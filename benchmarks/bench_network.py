"""What a network of 64 engines costs, compared with 64 single engines, and how long Rybko-Stolyar's network takes.

Both sides run the same requests on the same engines in one process, without tables of iterations, and give the same batches.
These engines share no task, so they run one after the other. A second network has the same engines as one group behind
round robin, on one clock: about as many batches, in another order. Rounds alternate; brackets hold the least and most.

    python benchmarks/bench_network.py [--rounds 5] [--engines 64] [--calls 100000]
"""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from evenstep import Trace, __version__, compiled
from evenstep.sim.engine.simulation import simulate_engine
from evenstep.sim.network.description import CallSection, EngineSection, Network, TaskSection, load
from evenstep.sim.network.simulation import simulate_network
from evenstep.workload.synthetic.arrivals import Poisson
from evenstep.workload.synthetic.laws import Constant
from evenstep.workload.synthetic.yaml_file import TraceFile

EXAMPLES = Path(__file__).parents[1] / "examples" / "networks"
#: Requests of 129 and 112 tokens at 0.87 of b / t_b.
RATE, PROMPT, OUTPUT = 22.0, 129, 112
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
    """Each engine by itself."""
    found = []
    for trace in traces:
        run = simulate_engine(trace, SECTION.scheduling, engine=SECTION.server, batch_time=SECTION.law, records=False)
        found.append((run.totals.makespan_s, run.totals.iterations))
    return found


def together(traces: list[Trace]) -> list[tuple[float, int]]:
    """All on one clock."""
    names = [f"e{k}" for k in range(len(traces))]
    tasks = {name: TaskSection(trace=TraceFile(name), engine=name) for name in names}
    network = Network(dict.fromkeys(names, SECTION), tasks)
    run = simulate_network(network, traces=dict(zip(names, traces, strict=True)))
    return [(one.totals.makespan_s, one.totals.iterations) for one in run.engines.values()]


def grouped(engines: int, calls: int) -> object:
    """One group behind round robin, as many calls."""
    task = TaskSection(
        calls={"ask": CallSection(engine="pool", prompt=Constant(PROMPT), output=Constant(OUTPUT))},
        arrivals=Poisson(RATE * engines),
        count=calls,
    )
    return simulate_network(Network({"pool": replace(SECTION, count=engines, routing="round-robin")}, {"task": task}))


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
    if singly(traces) != together(traces):
        raise SystemExit("the two sides do not run the same batches")
    grouped(args.engines, args.calls)
    sides = (lambda: singly(traces), lambda: together(traces), lambda: grouped(args.engines, args.calls))
    rounds = [[cpu_s(side) for side in sides] for _ in range(args.rounds)]
    print(f"evenstep {__version__} ({compiled.mode()}), Python {platform.python_version()}, {platform.machine()}")
    print(f"{args.engines} engines, {args.calls:,} calls: single {min(one[0] for one in rounds):.3f} s CPU at best")
    for side, what in ((1, "network"), (2, "one group behind round robin")):
        ratios = sorted(one[side] / one[0] for one in rounds)
        print(f"{what} / single engines: {ratios[len(ratios) // 2]:.2f} [{ratios[0]:.2f}, {ratios[-1]:.2f}]; aim 1.3")
    network = load(EXAMPLES / "rybko-stolyar.yaml")
    times = sorted(cpu_s(lambda: simulate_network(network)) for _ in range(args.rounds))
    print(f"Rybko-Stolyar to 100,000 slots: {times[len(times) // 2]:.2f} [{times[0]:.2f}, {times[-1]:.2f}] s CPU; aim 5")


if __name__ == "__main__":
    main()
