"""WAIT Theorem 2, eq. 12: how often the memory that should suffice overflows, and the least memory that would suffice."""

from __future__ import annotations

from typing import Any

import numpy as np

from evenstep.cost.affine_kv import AffineKv
from evenstep.experiments import vocabulary as ex
from evenstep.experiments.papers.wait._wait import Workload, free_engine, share_said
from evenstep.scheduling.policies.nested_wait import NestedWait
from evenstep.sim.engine.simulation import simulate_engine
from evenstep.theory.fluid import Types
from evenstep.theory.nested_thresholds import with_slack
from evenstep.wording import counted

RATES, PROMPT, OUTPUTS = (40.0, 30.0, 20.0, 10.0), 10, (4, 8, 16, 32)
LAW = AffineKv(0.1, 1e-6)
TYPES = Types(RATES, (PROMPT,) * 4, OUTPUTS, LAW.d0_s, LAW.d1_s)
MIX = Workload((PROMPT,) * 4, OUTPUTS, RATES, 0, lambda case: {})
HORIZON_S, DELTAS, REPLICATES = 100.0, (0.1, 0.01), 400
#: The share of runs that overflow at the memory shown next to the bound.
REALLY = 0.1


def peak(thresholds: tuple[int, ...], seed: int, replicate: int) -> int:
    """The most KV tokens held at a time in one run of Nested WAIT, of `HORIZON_S` seconds, without a memory limit."""
    trace = MIX.trace(sum(RATES), int(sum(RATES) * HORIZON_S), seed, replicate)
    policy = NestedWait(thresholds, OUTPUTS[:-1], max_hold_s=1e9)
    run = simulate_engine(trace, policy, engine=free_engine(), batch_time=LAW, until_s=HORIZON_S)
    assert run.iterations is not None
    return int(run.iterations.kv_held.max())


@ex.experiment("how often eq. 12's memory overflows", "WAIT Theorem 2", most_traces=0)
def experiment(setting: ex.Setting) -> ex.Findings:
    many = setting.seeds or setting.pick(REPLICATES, 20)
    solved = {delta: with_slack(TYPES, 0.0, iterations=HORIZON_S / LAW.d0_s, delta=delta) for delta in DELTAS}
    thresholds = tuple(solved[DELTAS[0]].thresholds.tolist())
    peaks = np.array([peak(thresholds, setting.seed, r) for r in range(many)])
    enough = {delta: own.enough_kv_tokens for delta, own in solved.items()}
    over = {delta: ex.share_interval(int((peaks > kv).sum()), many) for delta, kv in enough.items()}
    says = "the memory of eq. 12 overflows with probability {:g} at most"
    least = ex.quantile_interval(peaks.astype(float), 1 - REALLY)
    return ex.Findings(
        rows=[
            *(ex.Row(f"delta {delta:g}", "runs that overflow", "", delta, one) for delta, one in over.items()),
            *(ex.row(f"delta {delta:g}", "memory of eq. 12", "KV tokens", [kv]) for delta, kv in enough.items()),
            ex.row("M^pi", "memory of a full batch", "KV tokens", [solved[DELTAS[0]].kv_tokens]),
            ex.Row(f"{REALLY:.0%} of runs overflow", "memory", "KV tokens", None, least),
        ],
        claims=[ex.Claim(says.format(delta), ex.within(one, 0.0, delta), share_said(one)) for delta, one in over.items()],
        constants=ex.constants(f"""
            types | prompts {PROMPT}, outputs {OUTPUTS}, {RATES} a second | ours
            batch time | d0 = {LAW.d0_s:g} s, d1 = {LAW.d1_s:g} s a KV token | the paper prints neither
            thresholds | {thresholds} | the least of eq. 10
            S | {HORIZON_S / LAW.d0_s:g} iterations | {HORIZON_S:g} s of empty ones, the most there can be
            runs | {many} | unless --seeds says otherwise
            max_hold_s | beyond the horizon | as in the paper, which holds for ever
        """),
        remark=f"eq. 12 is {enough[REALLY] / least.value - 1:.0%} above the memory at which {REALLY:.0%} of runs overflow "
        f"({ex.mean_text(least)}): all queues are given their worst at once, and each also a full feed",
        stands_in="nothing: the setting is the theorem's",
        data={"replicate": np.arange(many), "peak_kv_tokens": peaks},
        draw=lambda figure: _draw(figure, peaks, enough),
        size=(6.0, 3.4),
        replicates=many,
        intervals="Shares have Clopper-Pearson intervals, the quantile one of order statistics, over "
        f"{counted(many, 'run')}.",
    )


def _draw(figure: ex.Figure, peaks: Any, enough: Any) -> None:
    axes = figure.subplots()
    axes.hist(peaks, 30, color=ex.COLOURS[0])
    for colour, (delta, kv) in zip(ex.COLOURS[1:], enough.items(), strict=False):
        axes.axvline(kv, color=colour, label=f"eq. 12, delta {delta:g}")
    ex.labelled(axes, "most KV tokens held", "runs", legend=True)
