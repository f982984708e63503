"""WAIT Theorems 1 to 3: latency and lost throughput against the horizon; strict thresholds, equality, changing rates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from evenstep.cost.affine_kv import AffineKv
from evenstep.experiments import vocabulary as ex
from evenstep.experiments.papers.wait._wait import Workload, free_engine
from evenstep.request import F8, I8
from evenstep.scheduling.policies.nested_wait import NestedWait
from evenstep.scheduling.policies.wait import Wait
from evenstep.scheduling.view import SchedulingPolicy
from evenstep.sim.engine.simulation import simulate_engine

#: The two types of Proposition 4: prompts of 1, outputs of 1 and 2, one arrival a second each; W = 3 and 6.
PAIR = Workload((1, 1), (1, 2), (1, 1), 0, lambda case: {})
RATE, TOKENS_PER_S = 2.0, 5.0
D1_S = 0.05
LAW = AffineKv(1 - 9 * D1_S, D1_S)
#: d0 + d1 M is 1 s at thresholds of 1, in which one request of each type arrives; at 2 it is 1.45 s, in which 1.45 arrive.
THRESHOLDS = {"equality": (1, 1), "strict": (2, 2)}
#: For Nested WAIT: 1.6 s at (4, 3), in which 3.2 of both types arrive, and 3.84 at the peak of a rate that swings.
NESTED, SWING, PERIOD_S = (4, 3), 0.2, 100.0
#: Thresholds, whether types are known, and how far the rate swings around its mean.
KINDS: Mapping[str, tuple[tuple[int, ...], bool, float]] = {
    **{kind: (own, True, 0.0) for kind, own in THRESHOLDS.items()},
    "nested": (NESTED, False, 0.0),
    "nested, rates that change": (NESTED, False, SWING),
}
ZETAS, HORIZON_S = (1, 4, 16, 64, 256), 1_000.0
REPLICATES, SNAPSHOTS = 30, 200
UNITS = {"latency": "s", "throughput gap": "tokens/s"}
#: Slopes on log zeta that the theorems say, and how far they may be off: with equality, and with strict thresholds.
EQUALITY = {"latency": (0.5, 0.1), "throughput gap": (-0.5, 0.1)}
STRICT = {"latency": (0.0, 0.05), "throughput gap": (-1.0, 0.15)}
SLOPES: Mapping[tuple[str, str], tuple[float, float]] = {
    (kind, quantity): (EQUALITY if kind == "equality" else STRICT)[quantity] for quantity in UNITS for kind in KINDS
}
#: Latency and throughput gap by kind and zeta, float64[replicates] each.
Runs = Mapping[tuple[str, int], Mapping[str, F8]]


def swung(arrival_s: F8, swing: float) -> F8:
    """Poisson arrival times, seconds ascending, shifted so that their rate swings by a share `swing` in `PERIOD_S`."""
    omega = 2 * np.pi / PERIOD_S
    at = np.linspace(0.0, float(arrival_s[-1]), 1 + int(20 * arrival_s[-1] / PERIOD_S))
    return np.interp(arrival_s, at + swing / omega * (1 - np.cos(omega * at)), at)


def one(kind: str, horizon_s: float, seed: int, replicate: int) -> tuple[float, float]:
    """(mean latency in seconds, throughput gap in tokens a second) of one run.

    The gap is the mean over the second half of (tokens that arrived and are not done) / (time so far). Arrivals are Poisson,
    so it has the mean of the gap to the fluid throughput, but without the luck of arrivals. Gates hold requests for up to
    ten times the horizon: in the paper, for ever.
    """
    (thresholds, known, swing), hold_s = KINDS[kind], 10 * horizon_s
    policy: SchedulingPolicy = Wait(thresholds, max_hold_s=hold_s)
    if not known:
        policy = NestedWait(thresholds, (PAIR.outputs[0],), max_hold_s=hold_s)
    trace = PAIR.trace(RATE, int(RATE * horizon_s + 8 * np.sqrt(RATE * horizon_s)), seed, replicate)
    if swing:
        trace = replace(trace, arrival_s=swung(trace.column("arrival_s"), swing))
    trace = trace.head(int(np.searchsorted(trace.column("arrival_s"), horizon_s)))
    run = simulate_engine(trace, policy, engine=free_engine(), batch_time=LAW, records=False, until_s=horizon_s)
    at = np.linspace(horizon_s / 2, horizon_s, SNAPSHOTS)
    left = _tokens_by(at, trace.column("arrival_s"), trace.output_tokens)
    left -= _tokens_by(at, run.requests.finished_s, run.requests.output_tokens)
    return float(run.summary["e2e_mean_s"]), float(np.mean(left / at))


def _tokens_by(at: F8, times: F8, outputs: I8) -> F8:
    """Tokens of the requests with `times` up to each moment of `at`; a prefill counts as a token."""
    order = np.argsort(times)
    tokens = np.concatenate([[0.0], np.cumsum(outputs[order] + 1.0)])
    return tokens[np.searchsorted(times[order], at, side="right")]


@ex.experiment("WAIT's latency and throughput against the horizon", "WAIT Theorems 1 to 3", most_traces=0)
def experiment(setting: ex.Setting) -> ex.Findings:
    horizon_s = setting.pick(HORIZON_S, 200.0)
    zetas, many = setting.pick(ZETAS, ZETAS[:3]), setting.seeds or setting.pick(REPLICATES, 3)
    runs: dict[tuple[str, int], dict[str, F8]] = {}
    for kind in KINDS:
        for zeta in zetas:
            found = np.array([one(kind, zeta * horizon_s, setting.seed, r) for r in range(many)])
            runs[kind, zeta] = dict(zip(UNITS, found.T, strict=True))
    fitted = {(kind, q): ex.slopes(zetas, [runs[kind, zeta][q].tolist() for zeta in zetas]) for kind, q in SLOPES}
    says = "{}: log {} has slope {:g} +-{:g} on log zeta"
    return ex.Findings(
        rows=[
            ex.row(f"{kind}, zeta = {zeta}", quantity, unit, own[quantity].tolist())
            for (kind, zeta), own in runs.items()
            for quantity, unit in UNITS.items()
        ]
        + [ex.row(kind, f"slope of log {q}", "", own, SLOPES[kind, q][0]) for (kind, q), own in fitted.items()],
        claims=[
            ex.placed(says.format(*key, slope, off), ex.mean_interval(fitted[key]), slope - off, slope + off)
            for key, (slope, off) in SLOPES.items()
        ],
        constants=ex.constants(f"""
            types | prompts 1, outputs 1 and 2, one arrival a second each | those of Proposition 4
            batch time | d0 = {LAW.d0_s:g} s, d1 = {LAW.d1_s:g} s | d0 = 1 - 9 d1: lambda T is whole
            thresholds | {THRESHOLDS} | eq. 9 with equality, and strict
            thresholds of Nested WAIT | {NESTED} | eq. 13 strict while rates swing by {SWING:.0%} in {PERIOD_S:g} s
            horizon | {horizon_s:g} s times zeta | rates and speeds stay; long against the stages
            replicates | {many} | unless --seeds says otherwise
            max_hold_s | beyond the horizon | as in the paper, which holds for ever
        """),
        remark="the theorems' rates are seen with their thresholds; the gap is that of what arrived and is not done, "
        "a mean over the second half of the horizon: as large on average, without the luck of arrivals and of one moment",
        stands_in="nothing: the instance is the paper's",
        data=ex.curves(
            {key: tuple(own.values()) for key, own in runs.items()}, ("kind", "zeta"), [q.replace(" ", "_") for q in UNITS]
        ),
        draw=lambda figure: _draw(figure, runs),
        size=(8.5, 3.6),
        replicates=many,
        intervals=""
        if many == 1
        else f"± is half a 95 % t-interval over {many} replicates; a slope is fitted to each replicate.",
    )


def _draw(figure: ex.Figure, runs: Runs) -> None:
    for axes, (quantity, unit) in zip(figure.subplots(1, 2), UNITS.items(), strict=True):
        zetas = list(dict.fromkeys(zeta for _, zeta in runs))
        ex.lines(axes, {kind: (zetas, [np.mean(runs[kind, z][quantity]) for z in zetas]) for kind in KINDS}, marker=".")
        axes.set(xscale="log", yscale="log")
        ex.labelled(axes, "zeta", f"{quantity}, {unit}", legend=True)
