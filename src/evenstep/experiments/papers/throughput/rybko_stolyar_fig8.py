"""Throughput-optimal Figs. 7 and 8: two agents whose work grows under one order of priorities, but not under another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from evenstep.experiments import vocabulary as ex
from evenstep.experiments.networks import judge
from evenstep.experiments.papers.throughput import _networks as net
from evenstep.request import F8, I8
from evenstep.sim.network.description import CallSection, Network, TaskSection
from evenstep.sim.network.simulation import simulate_network
from evenstep.workload.synthetic.arrivals import Poisson as PoissonArrivals
from evenstep.workload.synthetic.laws import Poisson

BUDGET, LOAD = 768, 0.9
#: Mean tokens of prompt and output of a short and of a long call.
SHORT, LONG = (32, 32), (512, 32)
#: Tasks of each type a slot.
RATE = round(LOAD * BUDGET / (sum(SHORT) + sum(LONG)), 7)
#: Growth of the tasks in the fluid model, a slot: the long calls of both types share the time of one agent.
FLUID = 2 * RATE - BUDGET / sum(LONG)
#: Slots of the figure, and those that its lower panels show.
SLOTS_SHOWN, LAST = 100_000, 3_500
#: Ends of the axes of Fig. 8: tokens of the unstable order after 10^5 slots, and what the stable one holds.
GROWN, FEW = 1e6, {"requests": 100, "tokens": 1e4}
ORDERS = ("long calls first", "short calls first")


def network(order: str = ORDERS[0], until_s: float = SLOTS_SHOWN) -> Network:
    """Fig. 7: tasks A go from agent one to agent two, tasks B from two to one; the second call is long.

    `order`, one of `ORDERS`, says which calls have priority at both agents; `until_s` is in slots.
    """
    priorities = {"one": ["B.long", "A.short"], "two": ["A.long", "B.short"]}
    step = 1 if order == ORDERS[0] else -1
    return Network(
        engines={name: net.engine(net.SLOTS, BUDGET, priority=calls[::step]) for name, calls in priorities.items()},
        tasks={"A": _task("one", "two"), "B": _task("two", "one")},
        until_s=until_s,
    )


def _task(first: str, second: str) -> TaskSection:
    calls = {
        "short": CallSection(first, Poisson(SHORT[0]), Poisson(SHORT[1])),
        "long": CallSection(second, Poisson(LONG[0]), Poisson(LONG[1]), after=["short"]),
    }
    return TaskSection(calls=calls, arrivals=PoissonArrivals(RATE))


@dataclass(frozen=True, slots=True, eq=False)
class Path:
    """One run under one order."""

    times: F8  # float64[S], slots of the samples
    requests: I8  # int64[S, 2], calls in each agent at these times
    tokens: I8  # int64[S, 2], tokens left to run in each agent at these times
    growth: float  # of the tasks that are not done, a slot, over the second half
    drift: float  # growth of the calls over the second half, as a share of those that arrive

    def last(self, held: I8) -> I8:
        """The rows of `held`, [S, 2] of this path, in the last `LAST` slots."""
        return held[self.times > self.times[-1] - LAST]


def path(order: str, until_s: float = SLOTS_SHOWN, seed: int = 0) -> Path:
    """Simulate the network for `until_s` slots under one of `ORDERS`, and keep its samples, growth and drift."""
    run = simulate_network(network(order, until_s), seed=seed)
    growth = net.growth(run, lambda times: net.tasks_at(run, times))
    return Path(run.times_s, run.requests, run.tokens, growth, net.drift(run))


#: Runs by order, one a replicate.
Paths = Mapping[str, Sequence[Path]]


@ex.experiment("priorities that make underloaded agents grow, and the cure", "Throughput-optimal Figs. 7, 8", most_traces=0)
def experiment(setting: ex.Setting) -> ex.Findings:
    until_s = setting.pick(SLOTS_SHOWN, SLOTS_SHOWN // 5)
    paths = {order: [path(order, until_s, setting.seed + k) for k in range(setting.replicates)] for order in ORDERS}
    drawn = {order: own[0] for order, own in paths.items()}
    curves = {
        order: (np.tile([1, 2], own.times.size), own.times.repeat(2), own.requests.ravel(), own.tokens.ravel())
        for order, own in drawn.items()
    }
    return ex.Findings(
        **ex.told(_rows(paths), claims(paths)),
        constants=ex.constants(f"""
            b, t_b | {BUDGET} tokens, one slot | the paper's
            lengths | Poisson, means {SHORT} and {LONG} tokens | the paper's (eqs. 4.4, 4.5)
            rate | {RATE:.4f} tasks of each type a slot | ours, from the paper's load of {LOAD:g} at each agent
            first token | by the first decode | the paper's count of tokens
            keeping up | {net.KEEPING_UP}
            limits | {FEW["requests"]} requests, {FEW["tokens"]:,.0f} tokens | the paper's lower panels end there
            slots | {until_s:,} | the paper's 100,000; fewer with --quick
            samples | {drawn[ORDERS[0]].times.size:,} over a run | ours; the lower panels show the last {LAST:,} slots
        """),
        remark="each agent is loaded to 0.9, but the two long calls never run at the same time once work has piled up: "
        f"together they need {virtual_load():.2f} of one agent's time",
        stands_in="nothing: the network is the paper's",
        data=ex.curves(curves, "order", ("agent", "slot", "requests", "tokens")),
        draw=lambda figure: _draw(figure, drawn),
        size=(9.0, 6.0),
    )


def virtual_load() -> float:
    """Load of the virtual station of both long calls. It is above 1, so it overloads, although each agent's load is 0.9."""
    return judge(network()).stations[0].load


def _rows(paths: Paths) -> Iterator[ex.Row]:
    first, second = ORDERS
    growths, tokens, drift = _grown(paths)
    for k, one in enumerate(judge(network()).engines):
        yield ex.row("both orders", f"load of agent {k + 1}", "", [one.load], LOAD)  # the same in every replicate
    yield ex.row(first, "load of the virtual station", "", [virtual_load()])
    yield ex.row(first, "growth of the tasks (fluid model beside it)", "tasks/slot", growths, round(FLUID, 3))
    yield ex.row(first, "tokens in both agents at the end", "log10 tokens", tokens, "> 6")
    yield ex.Row(second, "growth of the calls over the arrivals", "%", None, net.percent(drift))
    for agent in range(2):
        for name, most in FEW.items():
            where = f"{name} in agent {agent + 1}, last {LAST:,} slots"
            yield ex.row(second, f"mean {where}", name, _held(paths, name, agent, "mean"), f"< {most:,.0f}")
            yield ex.row(second, f"most {where}", name, _held(paths, name, agent, "max"))


def _grown(paths: Paths) -> tuple[list[float], list[float], ex.Interval]:
    """(growth of the tasks, log10 of the tokens at the end) under the first order; drift of the calls under the second."""
    first, second = (paths[order] for order in ORDERS)
    tokens = [float(np.log10(float(one.tokens[-1].sum()))) for one in first]
    return [one.growth for one in first], tokens, ex.mean_interval([one.drift for one in second])


def _held(paths: Paths, name: str, agent: int, figure: str) -> list[float]:
    """The ``mean`` or ``max`` of requests or tokens in an agent over the last `LAST` slots under the second order."""
    return [float(getattr(one.last(getattr(one, name))[:, agent], figure)()) for one in paths[ORDERS[1]]]


def claims(paths: Paths) -> Iterator[ex.Claim]:
    """The claims of Fig. 8 and its text: tasks grow without bound if long calls go first, few wait if short calls do."""
    (first, second), (growths, tokens, drifted) = ORDERS, _grown(paths)
    grown, drift = ex.mean_interval(growths), ex.mean_text(net.percent(drifted))
    bound = f"{first}: the tasks grow without bound, at the fluid model's {FLUID:.3f} a slot, within 10 %"
    yield ex.Claim(bound, ex.near(grown, FLUID, 0.1), f"{ex.mean_text(grown)} tasks a slot")
    more = f"{first}: more than 10^6 tokens at the end (Fig. 8, up)"
    yield ex.limited(more, ex.mean_interval(tokens), float(np.log10(GROWN)), 1, "log10 of the tokens {}")
    yield ex.Claim(f"{second}: the calls do not grow", net.keeps_up(drifted), f"by {drift} % of those that come")
    for name, most in FEW.items():
        means = [ex.mean_interval(_held(paths, name, agent, "mean")) for agent in range(2)]
        few = f"{second}: a mean below {most:,.0f} {name} in each agent, last {LAST:,} slots (Fig. 8, down)"
        yield ex.all_limited(few, means, most, -1, " and ".join(map(ex.mean_text, means)))


def _draw(figure: ex.Figure, drawn: Mapping[str, Path]) -> None:
    panels = figure.subplots(2, 2)
    for line, (order, own) in zip(panels, drawn.items(), strict=True):
        for axes, name in zip(line, ("requests", "tokens"), strict=True):
            grows = order == ORDERS[0]
            shown = own.times >= 100 if grows else own.times > own.times[-1] - LAST
            for agent in range(2):
                held = getattr(own, name)[shown, agent]
                axes.plot(own.times[shown], np.maximum(held, 1), color=ex.COLOURS[agent], lw=1.1, label=f"agent {agent + 1}")
            axes.set(yscale="log", xscale="log" if grows else "linear", ylim=(None if grows else 1, None))
            ex.labelled(axes, "slot", name, order, legend=True, fontsize=8)
