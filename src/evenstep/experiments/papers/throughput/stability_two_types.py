"""Throughput-optimal sec. 4.2: two types of requests on one engine keep up below a line of rates."""

from __future__ import annotations

from collections.abc import Mapping

from evenstep.experiments import vocabulary as ex
from evenstep.experiments.networks import tokens_per_s
from evenstep.experiments.papers.throughput import _networks as net
from evenstep.experiments.papers.throughput.stability_fig1 import OUTPUT, PROMPT
from evenstep.measure.network_records import NetworkRun
from evenstep.sim.network.description import CallSection, Network, TaskSection
from evenstep.workload.synthetic.arrivals import Poisson
from evenstep.workload.synthetic.laws import Constant

BUDGET = 512
#: Prompt and output tokens of each type.
TYPES = {"chat": (PROMPT, OUTPUT), "document": (512, 32)}
#: Tokens of a request of each type.
TOKENS = {name: sum(sizes) for name, sizes in TYPES.items()}
#: Points of the line: the share of the tokens that chats bring.
CHATS = (0.0, 0.25, 0.5, 0.75, 1.0)
#: The served rate may miss the line by this share.
SHARE = 0.01
#: Seconds of an overloaded run, and of one below the line.
OVERLOADED_S, BELOW_S = 1200.0, 6000.0


def network(policy: str = net.ORDERS[0]) -> Network:
    """Two types of requests on one engine; its rates and time limit are placeholders, which `at_rates` replaces."""
    tasks = {
        name: TaskSection(calls={"answer": CallSection("one", Constant(prompt), Constant(output))}, arrivals=Poisson(1.0))
        for name, (prompt, output) in TYPES.items()
    }
    return Network(engines={"one": net.engine(net.LAW, BUDGET, policy=policy)}, tasks=tasks, until_s=1.0)


#: b / t_b, tokens a second: the line is where both types together bring that many.
LINE = tokens_per_s(network().engines["one"])
LINE_SAID = f"{TOKENS['chat']} l1 + {TOKENS['document']} l2 = {LINE:,.1f} tokens/s"


def rates(load: float, chats: float) -> dict[str, float]:
    """Requests a second by type, at a load (1 = on the line); chats bring the share `chats` of the tokens.

    A type without a share is absent.
    """
    shares = {"chat": chats, "document": 1 - chats}
    return {name: load * LINE * share / TOKENS[name] for name, share in shares.items() if share}


def at_point(load: float, chats: float, until_s: float, seed: int = 0, policy: str = net.ORDERS[0]) -> NetworkRun:
    """A run of `until_s` seconds at a load (1 = on the line), of which chats bring the share `chats` in tokens."""
    return net.at_rates(network(policy), until_s, seed, rates(load, chats))


def work(run: NetworkRun) -> tuple[float, float]:
    """(tokens a second that the engine runs, growth of the tokens left over those that arrive), in the run's second half."""
    return net.work(run, [TOKENS[name] for name, _ in run.kinds])


#: Scheduling policy and share of chats.
Key = tuple[str, float]


def examined(policy: str, chats: float, setting: ex.Setting) -> net.Sides:
    """Tokens a second that a policy serves above a point of the line, and the growth below it; means over replicates.

    The loads are `_networks.ABOVE` and `BELOW` times the line. At the point, chats bring the share `chats` of the tokens.
    """
    above_s, below_s = setting.pick(OVERLOADED_S, OVERLOADED_S / 2), setting.pick(BELOW_S, BELOW_S / 4)
    seeds = [setting.seed + k for k in range(setting.replicates)]
    return net.Sides(
        ex.mean_interval([work(at_point(net.ABOVE, chats, above_s, seed, policy))[0] for seed in seeds]),
        ex.mean_interval([work(at_point(net.BELOW, chats, below_s, seed, policy))[1] for seed in seeds]),
    )


@ex.experiment("two types of requests on one engine", "Throughput-optimal sec. 4.2", most_traces=0)
def experiment(setting: ex.Setting) -> ex.Findings:
    policies = setting.pick(net.ORDERS, net.ORDERS[:1])
    found = {(policy, chats): examined(policy, chats, setting) for policy in policies for chats in CHATS}
    named = {f"{policy}, {100 * chats:g} % chats": own for (policy, chats), own in found.items()}
    curves = {key: ([one.served.value], [one.grows.value]) for key, one in found.items()}
    return ex.Findings(
        rows=[*net.rows(named, LINE, "tokens run when overloaded, less b / t_b", "tokens left")],
        claims=[claim(policy, found) for policy in policies],
        constants=ex.constants(f"""
            b | {BUDGET} tokens | ours: the paper gives no figures for two types
            lengths | {ex.listed(f"{name} {prompt} and {output}" for name, (prompt, output) in TYPES.items())} tokens | the
              paper's averages of Fig. 1, and its long and short calls of Fig. 7
            first token | by the first decode | the paper's count of tokens
            points | chats bring {ex.listed(f"{share:g}" for share in CHATS)} of the tokens | ours
            inside | {", ".join(policies)} | ours: two orders that fill every batch, decodes first and prompts first
            loads | {net.BELOW:g} and {net.ABOVE:g} of b / t_b, {LINE:,.1f} tokens/s | ours, Poisson arrivals
            keeping up | {net.KEEPING_UP}
            run | {setting.pick(OVERLOADED_S, OVERLOADED_S / 2):,g} s above the line, {setting.pick(BELOW_S, BELOW_S / 4):,g}
              s below | ours; the second half counts
        """),
        remark=f"eq. 4.2 prints b / t_p for b / t_b; with t_b the line is {LINE_SAID}",
        stands_in="the paper's fit of the batch time for CodeLlama-34B on two GPUs",
        data=ex.curves(curves, ("policy", "chat_share"), ("served_tokens_per_s", "growth_share")),
        draw=lambda figure: _draw(figure, found),
        size=(6.5, 4.5),
    )


def claim(policy: str, found: Mapping[Key, net.Sides]) -> ex.Claim:
    """The claim of sec. 4.2 on a policy, over its points in `found`: it serves b / t_b tokens/s, and keeps up below."""
    own = {f"{100 * chats:g} % chats:": one for (name, chats), one in found.items() if name == policy}
    says = f"{policy}: the limit is the line {LINE_SAID}, at {len(own)} points within {100 * SHARE:g} %, and no growth at "
    return net.limit_claim(f"{says}{net.BELOW:g} of it", own, LINE, SHARE)


def _draw(figure: ex.Figure, found: Mapping[Key, net.Sides]) -> None:
    axes = figure.add_subplot(1, 1, 1)
    ends = [LINE / TOKENS[name] for name in TYPES]
    axes.plot([ends[0], 0], [0, ends[1]], color="#222222", lw=1, label=LINE_SAID)
    for colour, marker, policy in zip(ex.COLOURS, "ox", dict.fromkeys(policy for policy, _ in found), strict=False):
        own = {chats: one for (name, chats), one in found.items() if name == policy}
        points = [rates(one.served.value / LINE, chats) for chats, one in own.items()]
        at = [[point.get(name, 0.0) for point in points] for name in TYPES]
        axes.plot(*at, marker, color=colour, markersize=8, mfc="none", clip_on=False, label=f"{policy}, overloaded")
    axes.set(xlim=(0, None), ylim=(0, None))
    ex.labelled(axes, "chats/s", "documents/s", legend=True, fontsize=8)
