"""WAIT Proposition 2: no scheduling policy of evenstep is above the fluid throughput."""

from __future__ import annotations

from typing import Any

import numpy as np

from evenstep import names
from evenstep.cost.affine_kv import AffineKv
from evenstep.experiments import vocabulary as ex
from evenstep.experiments.papers.wait._wait import Workload, free_engine
from evenstep.sim.engine.simulation import simulate_engine
from evenstep.theory.fluid import Types, equilibrium

LAW = AffineKv(0.01, 1e-5)
PROMPTS, OUTPUTS, SHARES = (20, 40), (10, 30), (2, 1)
MIX = Workload(PROMPTS, OUTPUTS, SHARES, 0, lambda case: {})
#: d1 sum lambda W, and memory over that of the fluid equilibrium, which the proposition needs to be 1 at least.
LOADS, MEMORY = (0.5, 0.7, 0.9), 2.0
#: Policies of the reduced size, which other experiments compile, too.
QUICK = ("sarathi", "vanilla-vllm", "vllm", "wait")
#: A throughput is above the fluid one if it is so by more than this share.
MORE = 0.01


def shares(name: str, load: float, requests: int, setting: ex.Setting) -> list[float]:
    """Throughput of a scheduling policy over the fluid one, one number a replicate; a prefill counts as a token (eq. 8).

    `load` is a share of the engine's capacity. A run ends at the time by which `requests` are expected.
    """
    types = Types(SHARES, PROMPTS, OUTPUTS, LAW.d0_s, LAW.d1_s).at_load(load)
    fluid, rate = equilibrium(types), sum(types.arrivals_per_s)
    engine = free_engine(int(np.ceil(MEMORY * fluid.kv_tokens)))
    policy = names.build("scheduling", name)
    found: list[float] = []
    for replicate in range(setting.replicates):
        trace = MIX.trace(rate, requests, setting.seed, replicate)
        until_s = requests / rate
        bounds = trace.output_tokens, trace.output_tokens
        run = simulate_engine(trace, policy, engine=engine, batch_time=LAW, bounds=bounds, records=False, until_s=until_s)
        found.append(float((run.requests.output_tokens + 1).sum()) / until_s / fluid.tokens_per_s)
    return found


@ex.experiment("every policy against the fluid throughput", "WAIT Proposition 2", most_traces=0)
def experiment(setting: ex.Setting) -> ex.Findings:
    requests, loads = setting.pick(8_000, 2_000), setting.pick(LOADS, LOADS[-1:])
    policies = setting.pick(tuple(names.built_in("scheduling")), QUICK)
    found = {(name, load): shares(name, load, requests, setting) for name in policies for load in loads}
    most = {key: ex.mean_interval(own) for key, own in found.items()}
    says = f"{{}} is not above the fluid throughput by more than {MORE:.0%}, load {{:g}}"
    return ex.Findings(
        rows=[ex.row(f"{name}, load {load:g}", "share of fluid throughput", "", own) for (name, load), own in found.items()],
        claims=[ex.placed(says.format(*key), one, -np.inf, 1 + MORE) for key, one in most.items()],
        constants=ex.constants(f"""
            types | prompts {PROMPTS}, outputs {OUTPUTS}, {SHARES} in proportion | ours
            batch time | d0 = {LAW.d0_s:g} s, d1 = {LAW.d1_s:g} s a KV token | the paper prints neither
            memory | {MEMORY:g} M* | the proposition needs M* at least
            requests | {requests} | expected in each replicate, arrivals Poisson
            policies | all, with their defaults | those of gates hold for their thresholds
            bounds of outputs | both the true length | no policy loses throughput by an error of its bounds
        """),
        remark="what is done has arrived, so the mean cannot be above; a replicate can, by the luck of its arrivals",
        stands_in="nothing: arrivals are Poisson as in the paper",
        data=ex.curves({key: [own] for key, own in found.items()}, ("policy", "load"), ["share"]),
        draw=lambda figure: _draw(figure, most),
        size=(7.0, 5.0),
    )


def _draw(figure: ex.Figure, most: Any) -> None:
    axes = figure.subplots()
    for colour, load in zip(ex.COLOURS, dict.fromkeys(at for _, at in most), strict=False):
        own = {name: one.value for (name, at), one in most.items() if at == load}
        axes.plot(list(own.values()), list(own), ".", color=colour, label=f"load {load:g}")
    axes.axvline(1.0, color="0.5")
    ex.labelled(axes, "share of the fluid throughput", legend=True)
