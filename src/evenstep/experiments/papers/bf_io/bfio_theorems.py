"""BF-IO Theorems 1 to 3, each in its own setting: equal outputs, geometric outputs, and any common drift."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from evenstep import names
from evenstep.experiments import vocabulary as ex
from evenstep.experiments.papers.bf_io import _bf_io as bf
from evenstep.measure.records import Run
from evenstep.request import F8
from evenstep.sim.cluster.drift import Drift
from evenstep.sim.cluster.simulation import Cluster, simulate
from evenstep.workload.synthetic.laws import Constant as Same
from evenstep.workload.synthetic.laws import Geometric, Uniform
from evenstep.workload.synthetic.synthetic import Synthetic

#: Prompts are uniform on 1..S_MAX, outputs have this mean, so that p = 1 / OUTPUT where they are geometric.
S_MAX, OUTPUT = 300, 100
#: A sequence that varies: quick growth at first, slow from the 50th step on.
VARIES = (2.0,) * 50 + (0.25,)
POLICIES = {bf.FCFS: bf.POLICIES[bf.FCFS], bf.BF0: bf.POLICIES[bf.BF0]}
#: Steps that are not counted, in mean outputs, because ages start at 0.
WARM = 5
#: Tolerances: of the paper's closed forms, and of BF-IO's gap when the drift changes.
NEAR_IMBALANCE, NEAR_VARIANCE, UNMOVED = 0.03, 0.05, 0.1
GAP_OF = "delta = 1"
SLOTS, WORKERS = (18, 36, 72, 144), (4, 8, 16, 32, 64)
#: For proven gains, which need FCFS alone: with few slots a sum of geometric ages is skewed, so its extremes grow more
#: slowly than sqrt(B).
MANY_SLOTS = (72, 144, 288, 576)


@dataclass(frozen=True, slots=True)
class Model:
    """A setting of the theorems: outputs of `OUTPUT` tokens if `equal`, else geometric of this mean; the drift of loads."""

    name: str
    equal: bool = False
    drift: Drift = field(default_factory=Drift)

    def cluster(self, workers: int, slots: int) -> Cluster:
        """A saturated fleet whose pool is meant to fill all slots that free at once, even without any one prompt length."""
        pool = 2 * workers * slots if self.equal else max(128, workers * slots // 4)
        return Cluster(workers=workers, slots=slots, pool=pool, may_hold=True, drift=self.drift)

    def workload(self, requests: int) -> Synthetic:
        output = Same(OUTPUT) if self.equal else Geometric(mean=OUTPUT)
        return Synthetic(requests, prompt=Uniform(1, S_MAX), output=output, name="the theorem's")

    @property
    def variance(self) -> float:
        """Variance of the load of one slot under FCFS, tokens^2: of prompts plus of growth by age, for geometric outputs."""
        q = 1 - 1 / OUTPUT
        ages = np.arange(60 * OUTPUT)
        delta = self.drift.sequence or (self.drift.growth,)
        steps = np.append(delta, np.full(max(0, ages.size - len(delta)), delta[-1]))[: ages.size - 1]
        gained = np.append(0.0, np.cumsum(steps))
        chance = (1 - q) * q**ages
        mean = float((chance * gained).sum())
        return (S_MAX**2 - 1) / 12 + float((chance * (gained - mean) ** 2).sum())


EQUAL, GEOMETRIC = Model("equal outputs", equal=True), Model("geometric outputs")
DRIFTS = (
    *(Model(f"delta = {growth:g}", drift=Drift(growth=growth)) for growth in (0.0, 0.5, 1.0, 3.0)),
    Model("delta = 2, 0.25 from step 50", drift=Drift(sequence=VARIES)),
)


@dataclass(frozen=True, slots=True, eq=False)
class Counted:
    """The counted steps of one run: those after the warm-up, while overload (Definition 1) held."""

    imbalance: F8  # float64[K], KV tokens: workers times envelope minus the sum of loads
    gap: F8  # float64[K], KV tokens: envelope minus least load
    variance: float  # of the load over workers, per slot, mean over samples; nan if the run has no samples
    asserted: bool  # True if there are counted steps, with all slots full at each of them


def counted(run: Run, model: Model) -> Counted:
    """The counted steps of a run with records; its first `overloaded_steps` steps are those under Definition 1.

    With equal outputs there is no warm-up, and only whole rounds of `OUTPUT` steps count. Otherwise the first `WARM` mean
    outputs do not count.
    """
    steps, c = run.steps, run.conditions
    assert steps is not None
    first, last = (0 if model.equal else WARM * OUTPUT), run.totals.overloaded_steps
    if model.equal:
        last -= last % OUTPUT
    kept = slice(first, last)
    variance = math.nan
    if run.workers is not None:
        rows = (run.workers.step >= first) & (run.workers.step < last)
        variance = float(run.workers.load[rows].var(axis=1, ddof=1).mean()) / c.slots
    return Counted(
        c.workers * steps.envelope[kept] - steps.load_sum[kept],
        steps.envelope[kept] - steps.load_min[kept],
        variance,
        last > first and bool((steps.running[kept] == c.slots_total).all()),
    )


def measured(setting: ex.Setting, model: Model, size: tuple[int, int], turns: int, policy: str) -> list[Counted]:
    """The counted steps of a policy (label) at `size`, (G, B), one entry a replicate; each slot is used `turns` times."""
    cluster = model.cluster(*size)
    workload = model.workload(turns * size[0] * size[1] + cluster.pool)
    rule = names.build("routing", POLICIES[policy])
    traces = (workload.draw(setting.seed + r) for r in range(setting.replicates))
    runs = (simulate(t, rule, cluster=cluster, step_time=bf.STEP_TIME, seed=setting.seed, workers=4_000) for t in traces)
    return [counted(one, model) for one in runs]


def expected_max(workers: int) -> float:
    """Mean of the largest of `workers` standard normal numbers: 1.766 of 16, 2.070 of 32."""
    from scipy.special import log_ndtr

    z = np.linspace(-12, 12, 200_001)
    below = np.exp(workers * log_ndtr(z))
    return float((z[1:] + z[:-1]) @ np.diff(below) / 2)


#: A line: gains of a sweep's points, one a replicate.
Line = Mapping[int, Sequence[float]]


@dataclass(frozen=True, slots=True)
class _Kept:
    """What the parts of the experiment measure, besides their rows and claims; each part adds to it."""

    asserted: list[bool] = field(default_factory=list[bool])  # for each run, whether overload was asserted
    #: values by (part, case, quantity)
    data: dict[tuple[str, str, str], list[float]] = field(default_factory=dict[tuple[str, str, str], list[float]])
    lines: dict[str, Line] = field(default_factory=dict[str, Line])  # gains by names such as ``Theorem 1, log G, proven``

    def both(self, setting: ex.Setting, model: Model, size: tuple[int, int], *turns: int) -> list[list[Counted]]:
        """`measured` of FCFS, and of BF-IO(0) if there are two `turns`."""
        found = [measured(setting, model, size, n, policy) for n, policy in zip(turns, POLICIES, strict=False)]
        self.asserted.extend(one.asserted for own in found for one in own)
        return found

    def row(self, part: str, case: str, quantity: str, values: list[float], paper: float | str | None) -> ex.Row:
        """The row of `values`, one a replicate, which become its data."""
        self.data[part, case, quantity] = values
        return ex.row(f"{part}, {case}", quantity, "", values, paper)


@ex.experiment("the theorems' bounds and rates of growth in their own settings", "BF-IO Theorems 1-3", most_traces=0)
def experiment(setting: ex.Setting) -> ex.Findings:
    kept = _Kept()
    found = ex.told(_equal(setting, kept), _drifts(setting, kept), _scaling(setting, kept))
    seen = f"{sum(kept.asserted)} of {len(kept.asserted)} runs"
    overload = ex.Claim("Definition 1 (overload) holds at every counted step", all(kept.asserted), seen)
    return ex.Findings(
        rows=found["rows"],
        claims=[overload, *found["claims"]],
        constants=ex.constants(f"""
            prompts | uniform on 1..{S_MAX} | the theorems allow any bounded law
            outputs | {OUTPUT}, or geometric of that mean | the theorems' own
            pool | 2 G B with equal outputs, else G B / 4, at least 128 | Definition 1 is asserted of every counted step
            counted | after {WARM} mean outputs, while Definition 1 holds | ages start at nothing
            drift that varies | 2 a step, 0.25 from the 50th on, by a request's age | Definition 2 names none
            bands | {NEAR_IMBALANCE:.0%} imbalance, {NEAR_VARIANCE:.0%} variance, {UNMOVED:.0%} gap | ours
        """),
        remark="the theorems bound the gain from below and over adversarial arrivals; on arrivals by chance BF-IO(0) has a "
        "pool to choose from and stays far below its bounds. Its gap moves with the drift, for what leaves a worker is as "
        "large as it has grown; only its bound does not",
        stands_in="nothing: the settings are the theorems' own",
        data=ex.long_values(kept.data, ("part", "case", "quantity"), "value"),
        draw=lambda figure: _draw(figure, kept.lines),
        size=(10.5, 3.8),
        intervals="± is half a 95 % t-interval over replicates; of FCFS with equal outputs over its rounds.",
    )


def _equal(setting: ex.Setting, kept: _Kept) -> ex.Told:
    """Theorem 1's two sides: FCFS by extreme values, BF-IO(0) by Lemma 1."""
    sigma = math.sqrt((S_MAX**2 - 1) / 12)
    means: list[ex.Interval] = []
    verdicts: list[bool | None] = []
    worst = 0.0
    for workers, slots in setting.pick(((16, 72), (32, 72)), ((4, 9),)):
        case = f"G = {workers}, B = {slots}"
        fcfs, own = kept.both(setting, EQUAL, (workers, slots), setting.pick(300, 20), setting.pick(20, 4))
        paper = workers * sigma * math.sqrt(slots) * expected_max(workers)
        rounds = [float(x) for one in fcfs for x in one.imbalance[::OUTPUT]]
        row = kept.row("Theorem 1", case, "imbalance of FCFS, tokens", rounds, round(paper))
        yield row
        means.append(row.ours)
        verdicts.append(ex.near(row.ours, paper, NEAR_IMBALANCE))
        bound = (workers - 1) * S_MAX
        most = [float(one.imbalance.max()) for one in own]
        worst = max(worst, max(most) / bound)
        yield kept.row("Theorem 1", case, "largest imbalance of BF-IO(0), tokens", most, f"<= {bound:,}")
    says = f"equal outputs: FCFS's imbalance is G sigma_s sqrt(B) E[max of G normals] (within {NEAR_IMBALANCE:.0%})"
    yield ex.Claim(says, ex.all_of(verdicts), "; ".join(map(ex.mean_text, means)))
    lemma = "Lemma 1: BF-IO(0)'s imbalance is at most (G - 1) s_max at every counted step"
    yield ex.Claim(lemma, worst <= 1, f"at most {worst:.2g} of it")


def _drifts(setting: ex.Setting, kept: _Kept) -> ex.Told:
    """Theorems 2 and 3: the variance of a slot under FCFS, and BF-IO(0)'s gap."""
    part, bound = "Theorems 2, 3", S_MAX * OUTPUT
    means: list[ex.Interval] = []
    gaps: dict[str, list[float]] = {}
    worst = 0.0
    for model in DRIFTS:
        size = setting.pick((16, 72), (4, 9))
        fcfs, own = kept.both(setting, model, size, setting.pick(200, 20), setting.pick(20, 10))
        spread = [one.variance for one in fcfs]
        row = kept.row(part, model.name, "variance of a slot under FCFS", spread, round(model.variance))
        yield row
        means.append(row.ours)
        gaps[model.name] = [float(one.gap.mean()) for one in own]
        worst = max(worst, *(float(one.gap.max()) for one in own))
        yield kept.row(part, model.name, "gap of BF-IO(0), tokens", gaps[model.name], f"<= {bound:,}")
    near = [ex.near(mean, model.variance, NEAR_VARIANCE) for mean, model in zip(means, DRIFTS, strict=True)]
    says = f"{part}: the variance is sigma_s^2 + delta^2 (1 - p)/p^2 (within {NEAR_VARIANCE:.0%})"
    yield ex.Claim(says, ex.all_of(near), "; ".join(map(ex.mean_text, means)))
    yield ex.Claim(f"{part}: BF-IO(0)'s gap is at most s_max / p", worst <= bound, f"at most {worst:,.0f} tokens")
    moved = {name: ex.ratio(own, gaps[GAP_OF]) for name, own in gaps.items() if name != GAP_OF}
    says = f"Theorem 3: the drift does not move BF-IO(0)'s gap (within {UNMOVED:.0%} of that at delta = 1)"
    seen = "; ".join(f"{name}: {ex.mean_text(one)} times" for name, one in moved.items())
    yield ex.Claim(says, ex.all_of([ex.near(one, 1.0, UNMOVED) for one in moved.values()]), seen)


def _scaling(setting: ex.Setting, kept: _Kept) -> ex.Told:
    """The proven and the seen gains against B and G in each theorem's setting.

    A proven gain is FCFS's imbalance over G s_max, or over G s_max / p where outputs are geometric (`_gains`). A seen gain
    is over BF-IO(0)'s own imbalance; it is left out for equal outputs, which BF-IO(0) often balances exactly.
    """
    g, b = setting.pick((16, 36), (4, 9))
    along_g = [(x, (x, b)) for x in setting.pick(WORKERS, (4, 8))]
    above: list[bool] = []
    for theorem, model in (("Theorem 1", EQUAL), ("Theorem 2", GEOMETRIC), ("Theorem 3", DRIFTS[-1])):
        for which, along, points in (
            ("proven", "B", [(x, (g, x)) for x in setting.pick(MANY_SLOTS, (6, 12))]),
            ("proven", "log G", along_g),
            ("seen", "B", [(x, (g, x)) for x in setting.pick(SLOTS, (6, 12))]),
            ("seen", "log G", along_g),
        ):
            line: dict[int, list[float]] = {}
            for x, size in points:
                line[x], is_above = _gains(setting, model, size, which == "seen", kept)
                above += is_above
            if model.equal and which == "seen":
                continue
            kept.lines[f"{theorem}, {along}, {which}"] = line
            row = kept.row(theorem, model.name, f"exponent of the gain {which} in {along}", exponents(line, along), 0.5)
            says = f"{theorem}: the gain {which} grows at least like the square root of {along}"
            yield row
            yield ex.Claim(says, bf.reaches(row.ours, 0.5), f"exponent {ex.mean_text(row.ours)}")
    says = "Theorems 1 to 3: the gain seen is at least the one proven, at every B and G"
    yield ex.Claim(says, all(above), f"in {sum(above)} of {len(above)} runs")


def _gains(
    setting: ex.Setting, model: Model, size: tuple[int, int], seen: bool, kept: _Kept
) -> tuple[list[float], list[bool]]:
    """(gains, one a replicate; for each seen gain, True if it is at least the proven one).

    The gains are the seen ones if `seen`, else the proven ones over G / (G - 1), as in the theorems.
    """
    workers, slots = size
    turns = (setting.pick(30, 10), setting.pick(8 if model.equal else 20, 10)) if seen else (setting.pick(100, 10),)
    means = [[float(one.imbalance.mean()) for one in own] for own in kept.both(setting, model, size, *turns)]
    proven = [mean / (S_MAX * (1 if model.equal else OUTPUT)) for mean in means[0]]
    gains = [mean / max(own, 1e-9) for mean, own in zip(*means, strict=True)] if seen else [p / workers for p in proven]
    above = [gain >= one / (workers - 1) for gain, one in zip(gains, proven, strict=True)] if seen else []
    kept.data[f"gain {'seen' if seen else 'proven'}", model.name, f"G = {workers}, B = {slots}"] = gains
    return gains, above


def exponents(line: Line, along: str) -> list[float]:
    """The slope of log gain over log B if `along` is ``B``, else over log log G, one number a replicate."""
    return ex.slopes([float(v) if along == "B" else math.log(v) for v in line], list(line.values()))


def _draw(figure: ex.Figure, lines: Mapping[str, Line]) -> None:
    panels = figure.subplots(1, 2)
    for axes, along, label in zip(panels, ("B", "log G"), ("slots a worker B", "workers G"), strict=True):
        own = {name: line for name, line in lines.items() if f", {along}," in name}
        ex.bands(axes, {n: (list(line), [ex.mean_interval(list(v)) for v in line.values()]) for n, line in own.items()})
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        ex.labelled(axes, label, legend=True, fontsize=7)
    panels[0].set_ylabel("imbalance of FCFS over BF-IO(0)")
