"""Throughput-optimal Conjecture 1: a fork-join network of agents keeps up if no agent is overloaded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from evenstep.experiments import vocabulary as ex
from evenstep.experiments.papers.throughput import _networks as net
from evenstep.experiments.papers.throughput.stability_fig1 import OUTPUT, PROMPT
from evenstep.request import F8
from evenstep.sim.network.description import CallSection, Network, TaskSection
from evenstep.workload.synthetic.arrivals import Poisson as PoissonArrivals
from evenstep.workload.synthetic.laws import Poisson

BUDGET = 512
#: Agent 0, agents 1 and 2 in parallel, agent 3; and what each waits for.
AGENTS = {"plan": [], "left": ["plan"], "right": ["plan"], "join": ["left", "right"]}
#: Tasks a slot that load every agent fully.
FULL = BUDGET / (PROMPT + OUTPUT)
BELOW = 0.95
LENGTH_S = 40_000.0


def network(policy: str = net.ORDERS[0]) -> Network:
    """One call, then two in parallel, then one that waits for both; each at its own agent, an engine under `policy`."""
    calls = {name: CallSection(name, Poisson(PROMPT), Poisson(OUTPUT), after=after) for name, after in AGENTS.items()}
    return Network(
        engines={name: net.engine(net.SLOTS, BUDGET, policy=policy) for name in AGENTS},
        tasks={"report": TaskSection(calls=calls, arrivals=PoissonArrivals(round(BELOW * FULL, 4)))},
        until_s=LENGTH_S,
    )


@dataclass(frozen=True, slots=True, eq=False)
class Agents:
    """Measurements of the agents at one load, over the replicates."""

    #: for each agent, growth of its calls over the run's second half, as a share of those that arrive there
    grows: tuple[ex.Interval, ...]
    left: ex.Interval  # tasks that are not done at the end
    times: F8  # float64[T], slots (seconds) at which `calls` are counted
    calls: tuple[F8, ...]  # for each agent float64[T], calls in it at these times, of the first replicate


#: Scheduling policy and load.
Key = tuple[str, float]


def examined(policy: str, load: float, setting: ex.Setting) -> Agents:
    """Run the network with this load at every agent, 1 = all it can serve, once for each replicate; measure the agents."""
    until_s, rates = setting.pick(LENGTH_S, LENGTH_S / 4), {"report": load * FULL}
    runs = [net.at_rates(network(policy), until_s, setting.seed + k, rates) for k in range(setting.replicates)]
    times = np.linspace(0, until_s, 201)
    return Agents(
        tuple(ex.mean_interval([net.drift(run, agent) for run in runs]) for agent in range(len(AGENTS))),
        ex.mean_interval([float(run.summary["unfinished_tasks"]) for run in runs]),
        times,
        tuple(net.calls_at(runs[0], times, agent) for agent in range(len(AGENTS))),
    )


@ex.experiment("a fork-join network below and above its loads", "Throughput-optimal sec. 4.3, Conjecture 1", most_traces=0)
def experiment(setting: ex.Setting) -> ex.Findings:
    policies = setting.pick(net.ORDERS, net.ORDERS[:1])
    found = {(policy, load): examined(policy, load, setting) for policy in policies for load in (BELOW, net.ABOVE)}
    drawn = {load: found[net.ORDERS[0], load] for load in (BELOW, net.ABOVE)}
    curves = {(load, agent): (own.times, calls) for load, own in drawn.items() for agent, calls in enumerate(own.calls)}
    return ex.Findings(
        **ex.told(_rows(found), *(claims(policy, found) for policy in policies)),
        constants=ex.constants(f"""
            b, t_b | {BUDGET} tokens, one slot, at each agent | ours: the paper gives no figures for the conjecture
            lengths | Poisson, means {PROMPT} and {OUTPUT} tokens at each agent | the paper's averages of Fig. 1
            first token | by the first decode | the paper's count of tokens
            inside | {", ".join(policies)} | ours: two orders that fill every batch, decodes first and prompts first
            loads | {BELOW:g} and {net.ABOVE:g} at every agent | ours, Poisson arrivals
            keeping up | {net.KEEPING_UP}
            slots | {setting.pick(LENGTH_S, LENGTH_S / 4):,.0f} | ours; the second half counts
        """),
        remark="finite runs support the conjecture and cannot prove it. All agents have the same load, and two scheduling "
        "orders are tried",
        stands_in="nothing: the network is the paper's, its sizes are ours",
        data=ex.curves(curves, ("load", "agent"), ("slot", "calls")),
        draw=lambda figure: _draw(figure, drawn),
        size=(9.0, 3.8),
    )


def _rows(found: Mapping[Key, Agents]) -> ex.Told:
    for (policy, load), own in found.items():
        case = f"{policy}, load {load:g}"
        for agent, share in enumerate(own.grows):
            growth = f"growth of the calls in agent {agent}, over the arrivals there"
            yield ex.Row(case, growth, "%", None, net.percent(share))
        yield ex.Row(case, "tasks that are not done at the end", "tasks", None, own.left)


def claims(policy: str, found: Mapping[Key, Agents]) -> list[ex.Claim]:
    """The claims that at load `BELOW` every agent keeps up, and at `ABOVE` the first does not; `found` has both."""
    below, above, exceeds = found[policy, BELOW], found[policy, net.ABOVE].grows[0], 1 - 1 / net.ABOVE
    seen = f"calls grow by {ex.mean_text(net.percent(above))} % of those that come; "
    seen += f"{100 * exceeds:.1f} % of the tokens exceed the budget"
    every = ex.all_of([net.keeps_up(share) for share in below.grows])
    few = f"calls grow by {ex.listed(ex.mean_text(net.percent(share)) for share in below.grows)} % of those that come"
    return [
        ex.Claim(f"{policy}: at a load of {BELOW:g} every agent keeps up (Conjecture 1)", every, few),
        ex.limited(f"{policy}: at a load of {net.ABOVE:g} the first agent does not", above, exceeds / 2, 1, seen),
    ]


def _draw(figure: ex.Figure, drawn: Mapping[float, Agents]) -> None:
    panels = figure.subplots(1, 2)
    for axes, (load, own) in zip(panels, drawn.items(), strict=True):
        series = {f"agent {agent} ({name})": (own.times, own.calls[agent]) for agent, name in enumerate(AGENTS)}
        ex.lines(axes, series, lw=1.2)
        axes.set_ylim(bottom=0)
        ex.labelled(axes, "slot", "calls in the agent", f"load {load:g} at every agent", legend=True, fontsize=8)
