"""Throughput-optimal Proposition 1: the rate up to which parallel engines keep up, by routing policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from evenstep.experiments import vocabulary as ex
from evenstep.experiments.networks import judge, tokens_per_s
from evenstep.experiments.papers.throughput import _networks as net
from evenstep.experiments.papers.throughput.stability_fig1 import OUTPUT, PROMPT
from evenstep.measure.network_records import NetworkRun
from evenstep.request import F8
from evenstep.sim.network.description import CallSection, Network, TaskSection
from evenstep.workload.synthetic.arrivals import Poisson
from evenstep.workload.synthetic.laws import Constant

ENGINES, BUDGET = 4, 512
#: The proposition's routing policies by their names here.
ROUTINGS = {"random": "random", "round robin": "round-robin", "fewest requests": "jsq", "fewest tokens": "least-load"}
#: A hash that may send every request of one key to one engine, and the rate of each kind of request with it.
HASH, HOT_RATE = "consistent-hash:bound=100", 30.0
#: The served rate may miss the limit by this share.
SHARE = 0.01
#: Seconds of an overloaded run, and of one below the limit.
OVERLOADED_S, BELOW_S = 400.0, 2000.0


def pool(routing: str = "jsq", policy: str = net.ORDERS[0]) -> Network:
    """Four equal engines behind a routing policy, with `policy` in each; `at_rates` replaces its rate and time limit."""
    calls = {"answer": CallSection("pool", Constant(PROMPT), Constant(OUTPUT))}
    return Network(
        engines={"pool": net.engine(net.LAW, BUDGET, policy=policy, count=ENGINES, routing=routing)},
        tasks={"chat": TaskSection(calls=calls, arrivals=Poisson(1.0))},
        until_s=1.0,
    )


#: K b / t_b / (m_p + m_d), requests a second.
LIMIT = ENGINES * tokens_per_s(pool().engines["pool"]) / (PROMPT + OUTPUT)


def hot(until_s: float, seed: int) -> tuple[str, NetworkRun]:
    """Judge and simulate the pool behind a hash, half of the requests with one key: (the reason of `judge`, the run)."""
    network = pool(HASH)
    kinds = {name: replace(network.tasks["chat"], one_key=name == "hot", arrivals=Poisson(HOT_RATE)) for name in KINDS}
    network = replace(network, tasks=kinds)
    return judge(network).why, net.at_rates(network, until_s, seed, dict.fromkeys(KINDS, HOT_RATE))


KINDS = ("hot", "cold")


def hot_engine(run: NetworkRun) -> int:
    """The number of the one engine that ran requests of the hot key; `ValueError` if there are several."""
    (found,) = np.unique(run.calls.engine[(run.calls.kind == KINDS.index("hot")) & (run.calls.engine >= 0)])
    return int(found)


#: Routing policy by the paper's name, and scheduling policy inside.
Key = tuple[str, str]
#: Of one run by load, a multiple of the limit: seconds, and the calls that wait or run then, float64[T] each.
Paths = Mapping[float, tuple[F8, F8]]


def examined(routing: str, policy: str, setting: ex.Setting) -> tuple[net.Sides, Paths]:
    """Run one pool, once for each replicate, at loads `ABOVE` and `BELOW` the limit; the paths are the first replicate's.

    What is served is in requests a second: tokens run over those of a request. The growth is a share of the arriving calls.
    """
    tokens = PROMPT + OUTPUT
    lengths = {net.ABOVE: setting.pick(OVERLOADED_S, OVERLOADED_S / 2), net.BELOW: setting.pick(BELOW_S, BELOW_S / 5)}
    network, seeds = pool(routing, policy), [setting.seed + k for k in range(setting.replicates)]
    runs = {
        load: [net.at_rates(network, until_s, seed, {"chat": load * LIMIT}) for seed in seeds]
        for load, until_s in lengths.items()
    }
    paths = {load: (times := np.linspace(0, lengths[load], 201), net.calls_at(own[0], times)) for load, own in runs.items()}
    served = ex.mean_interval([net.work(run, [tokens])[0] / tokens for run in runs[net.ABOVE]])
    return net.Sides(served, ex.mean_interval([net.drift(run) for run in runs[net.BELOW]])), paths


@ex.experiment("up to which rate parallel engines keep up", "Throughput-optimal sec. 4.1, Proposition 1", most_traces=0)
def experiment(setting: ex.Setting) -> ex.Findings:
    runs = {
        (label, policy): examined(routing, policy, setting)
        for label, routing in ROUTINGS.items()
        for policy in setting.pick(net.ORDERS, net.ORDERS[:1])
    }
    found = {key: own for key, (own, _) in runs.items()}
    named = {", ".join(key): own for key, own in found.items()}
    drawn = {(label, load): path for label in ROUTINGS for load, path in runs[label, net.ORDERS[0]][1].items()}
    return ex.Findings(
        **ex.told(
            net.rows(named, LIMIT, "served when overloaded, less K b / t_b", "calls"),
            (claim(label, found) for label in ROUTINGS),
            _heated(setting),
        ),
        constants=ex.constants(f"""
            K, b | {ENGINES} engines, {BUDGET} tokens | ours: the paper gives no figures for Proposition 1
            lengths | {PROMPT} and {OUTPUT} tokens, all alike | the paper's averages of Fig. 1
            first token | by the first decode | the paper's count of tokens
            inside | {", ".join(net.ORDERS)} | ours: two orders that fill every batch, decodes first and prompts first
            loads | {net.BELOW:g} and {net.ABOVE:g} of K b / t_b / (m_p + m_d), {LIMIT:.2f} requests/s | ours, Poisson
              arrivals
            keeping up | {net.KEEPING_UP}
            hot key | {HOT_RATE:g} requests/s share one key, {HOT_RATE:g} have their own; {HASH} | ours
            run | {setting.pick(OVERLOADED_S, OVERLOADED_S / 2):g} s above the limit, {setting.pick(BELOW_S, BELOW_S / 5):,g}
              s below | ours; the second half counts, in tokens
        """),
        remark="Proposition 1 speaks of any load balancing algorithm; it holds for the three that the paper names and for "
        "round robin, and cannot hold for a hash, which sends all requests of one key to one engine",
        stands_in="the paper's fit of the batch time for CodeLlama-34B on two GPUs",
        data=ex.curves(drawn, ("routing", "load"), ("time_s", "calls")),
        draw=lambda figure: _draw(figure, drawn),
        size=(9.0, 3.8),
    )


def claim(label: str, found: Mapping[Key, net.Sides]) -> ex.Claim:
    """The claim of Proposition 1 on a routing policy, by its label in `ROUTINGS`, over its pools in `found`."""
    own = {policy: one for (name, policy), one in found.items() if name == label}
    says = (
        f"{label}: {ENGINES} engines serve {LIMIT:.1f} requests/s when overloaded, within {100 * SHARE:g} %, and keep up at "
    )
    return net.limit_claim(f"{says}{net.BELOW:g} of that", own, LIMIT, SHARE)


def _heated(setting: ex.Setting) -> ex.Told:
    """The growth of calls in the hot key's engine and in the others."""
    runs = [hot(setting.pick(BELOW_S, BELOW_S / 5), setting.seed + k) for k in range(setting.replicates)]
    drifts = [(hot_engine(run), [net.drift(run, k) for k in range(ENGINES)]) for _, run in runs]
    hot_grows = ex.mean_interval([own[at] for at, own in drifts])
    others_grow = ex.mean_interval([float(np.mean(own[:at] + own[at + 1 :])) for at, own in drifts])
    for where, own in (("the hot key's engine", hot_grows), ("the others", others_grow)):
        yield ex.Row(f"hash, one hot key, {where}", "growth of the calls, over the arrivals", "%", None, net.percent(own))
    there, elsewhere = (ex.mean_text(net.percent(own)) for own in (hot_grows, others_grow))
    says = "outside the proposition: a hash with one hot key overloads one engine at"
    holds = ex.all_of([ex.clearly(ex.beyond(hot_grows, 0.05), 1), net.keeps_up(others_grow)])
    seen = f"{runs[0][0]}; the calls there grow by {there} % of those that come, elsewhere by {elsewhere} %"
    yield ex.Claim(f"{says} {2 * HOT_RATE / LIMIT:.2f} of the summed load", holds, seen)


def _draw(figure: ex.Figure, drawn: Mapping[tuple[str, float], tuple[F8, F8]]) -> None:
    panels = figure.subplots(1, 2)
    for axes, load in zip(panels, (net.BELOW, net.ABOVE), strict=True):
        ex.lines(axes, {label: drawn[label, load] for label in ROUTINGS}, lw=1.2)
        axes.set_ylim(bottom=0)
        ex.labelled(axes, "time, s", "calls in the pool", f"{load:g} of K b / t_b", legend=True, fontsize=8)
