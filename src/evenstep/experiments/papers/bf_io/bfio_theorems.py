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
    """The counted steps of one run: those after the warm-up, while overload (Definition 1) held.

    Args:
        imbalance, gap: float64[K], KV tokens: workers times envelope minus the sum of loads, and envelope minus least load.
        variance: of the load over workers, per slot, mean over samples; nan if the run has no samples.
        asserted: True if there are counted steps, with all slots full at each of them.
    """

    imbalance: F8
    gap: F8
    variance: float
    asserted: bool


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


@ex.experiment("the theorems' bounds and rates of growth in their own settings", "BF-IO Theorems 1-3", most_traces=0)
def experiment(setting: ex.Setting) -> ex.Findings:
    found = _Found()
    _equal(setting, found)
    _drifts(setting, found)
    lines = _scaling(setting, found)
    seen = f"{sum(found.asserted)} of {len(found.asserted)} runs"
    overload = ex.Claim("Definition 1 (overload) holds at every counted step", all(found.asserted), seen)
    return ex.Findings(
        rows=found.rows,
        claims=[overload, *found.claims],
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
        data=ex.long_values(found.data, ("part", "case", "quantity"), "value"),
        draw=lambda figure: _draw(figure, lines),
        size=(10.5, 3.8),
        intervals="± is half a 95 % t-interval over replicates; of FCFS with equal outputs over its rounds.",
    )


#: A line: gains of a sweep's points, one a replicate.
Line = Mapping[int, Sequence[float]]


@dataclass(slots=True)
class _Found:
    """The rows, claims, checks and data that the parts of the experiment add to."""

    rows: list[ex.Row] = field(default_factory=list[ex.Row])
    claims: list[ex.Claim] = field(default_factory=list[ex.Claim])
    asserted: list[bool] = field(default_factory=list[bool])
    data: dict[tuple[str, str, str], list[float]] = field(default_factory=dict[tuple[str, str, str], list[float]])

    def add(self, part: str, case: str, quantity: str, values: Sequence[float], paper: float | str | None) -> ex.Interval:
        """Add a row and its data, `values` one a replicate; returns their mean with its interval."""
        self.data[part, case, quantity] = list(values)
        self.rows.append(ex.row(f"{part}, {case}", quantity, "", list(values), paper))
        return self.rows[-1].ours

    def seen(self, quantity: str) -> str:
        """Our numbers of a quantity in the rows so far, as text."""
        return "; ".join(ex.mean_text(row.ours) for row in self.rows if row.quantity == quantity)


def _equal(setting: ex.Setting, found: _Found) -> None:
    """Add Theorem 1's two sides to `found`: FCFS by extreme values, BF-IO(0) by Lemma 1."""
    sigma = math.sqrt((S_MAX**2 - 1) / 12)
    told: list[bool | None] = []
    worst: list[float] = []
    for workers, slots in setting.pick(((16, 72), (32, 72)), ((4, 9),)):
        size, case = (workers, slots), f"G = {workers}, B = {slots}"
        fcfs = measured(setting, EQUAL, size, setting.pick(300, 20), bf.FCFS)
        own = measured(setting, EQUAL, size, setting.pick(20, 4), bf.BF0)
        found.asserted += [one.asserted for one in (*fcfs, *own)]
        paper = workers * sigma * math.sqrt(slots) * expected_max(workers)
        rounds = [float(x) for one in fcfs for x in one.imbalance[::OUTPUT]]
        ours = found.add("Theorem 1", case, "imbalance of FCFS, tokens", rounds, round(paper))
        told.append(ex.near(ours, paper, NEAR_IMBALANCE))
        bound = (workers - 1) * S_MAX
        most = [float(one.imbalance.max()) for one in own]
        worst.append(max(most) / bound)
        found.add("Theorem 1", case, "largest imbalance of BF-IO(0), tokens", most, f"<= {bound:,}")
    says = f"equal outputs: FCFS's imbalance is G sigma_s sqrt(B) E[max of G normals] (within {NEAR_IMBALANCE:.0%})"
    lemma = "Lemma 1: BF-IO(0)'s imbalance is at most (G - 1) s_max at every counted step"
    found.claims += [
        ex.Claim(says, ex.all_of(told), found.seen("imbalance of FCFS, tokens")),
        ex.Claim(lemma, max(worst) <= 1, f"at most {max(worst):.2g} of it"),
    ]


def _drifts(setting: ex.Setting, found: _Found) -> None:
    """Add Theorems 2 and 3 to `found`: the variance of a slot under FCFS, and BF-IO(0)'s gap."""
    size = setting.pick((16, 72), (4, 9))
    told: list[bool | None] = []
    gaps: dict[str, list[float]] = {}
    worst = 0.0
    for model in DRIFTS:
        fcfs = measured(setting, model, size, setting.pick(200, 20), bf.FCFS)
        own = measured(setting, model, size, setting.pick(20, 10), bf.BF0)
        found.asserted += [one.asserted for one in (*fcfs, *own)]
        spread = [one.variance for one in fcfs]
        variance = found.add("Theorems 2, 3", model.name, "variance of a slot under FCFS", spread, round(model.variance))
        told.append(ex.near(variance, model.variance, NEAR_VARIANCE))
        gaps[model.name] = [float(one.gap.mean()) for one in own]
        worst = max(worst, *(float(one.gap.max()) for one in own))
        found.add("Theorems 2, 3", model.name, "gap of BF-IO(0), tokens", gaps[model.name], f"<= {S_MAX * OUTPUT:,}")
    moved = {name: ex.ratio(own, gaps[GAP_OF]) for name, own in gaps.items() if name != GAP_OF}
    seen = "; ".join(f"{name}: {ex.mean_text(one)} times" for name, one in moved.items())
    found.claims += [
        ex.Claim(
            f"Theorems 2, 3: the variance is sigma_s^2 + delta^2 (1 - p)/p^2 (within {NEAR_VARIANCE:.0%})",
            ex.all_of(told),
            found.seen("variance of a slot under FCFS"),
        ),
        ex.Claim(
            "Theorems 2, 3: BF-IO(0)'s gap is at most s_max / p", worst <= S_MAX * OUTPUT, f"at most {worst:,.0f} tokens"
        ),
        ex.Claim(
            f"Theorem 3: the drift does not move BF-IO(0)'s gap (within {UNMOVED:.0%} of that at delta = 1)",
            ex.all_of([ex.near(one, 1.0, UNMOVED) for one in moved.values()]),
            seen,
        ),
    ]


def _scaling(setting: ex.Setting, found: _Found) -> dict[str, Line]:
    """Measure the proven and the seen gains against B and G in each theorem's setting, and add them to `found`.

    Returns them under keys such as ``Theorem 1, log G, proven``. A proven gain is FCFS's imbalance over G s_max,
    or over G s_max / p where outputs are geometric (`_gains`). A seen gain is over BF-IO(0)'s own imbalance; it is left out
    for equal outputs, which BF-IO(0) often balances exactly.
    """
    g, b = setting.pick((16, 36), (4, 9))
    along_g = [(x, (x, b)) for x in setting.pick(WORKERS, (4, 8))]
    lines: dict[str, Line] = {}
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
                line[x], is_above = _gains(setting, model, size, which == "seen", found)
                above += is_above
            if model.equal and which == "seen":
                continue
            lines[f"{theorem}, {along}, {which}"] = line
            slope = found.add(theorem, model.name, f"exponent of the gain {which} in {along}", exponents(line, along), 0.5)
            says = f"{theorem}: the gain {which} grows at least like the square root of {along}"
            found.claims.append(ex.Claim(says, bf.reaches(slope, 0.5), f"exponent {ex.mean_text(slope)}"))
    says = "Theorems 1 to 3: the gain seen is at least the one proven, at every B and G"
    found.claims.append(ex.Claim(says, all(above), f"in {sum(above)} of {len(above)} runs"))
    return lines


def _gains(
    setting: ex.Setting, model: Model, size: tuple[int, int], seen: bool, found: _Found
) -> tuple[list[float], list[bool]]:
    """(gains, one a replicate; for each seen gain, True if it is at least the proven one).

    The gains are the seen ones if `seen`, else the proven ones over G / (G - 1), as in the theorems.
    """
    workers, slots = size
    fcfs = measured(setting, model, size, setting.pick(30 if seen else 100, 10), bf.FCFS)
    own = measured(setting, model, size, setting.pick(8 if model.equal else 20, 10), bf.BF0) if seen else []
    found.asserted += [one.asserted for one in (*fcfs, *own)]
    means = [float(one.imbalance.mean()) for one in fcfs]
    bound = S_MAX * (1 if model.equal else OUTPUT)
    pairs = zip(means, own, strict=True) if seen else ()
    gains = [mean / max(float(one.imbalance.mean()), 1e-9) for mean, one in pairs]
    above = [gain >= mean / bound / (workers - 1) for gain, mean in zip(gains, means, strict=False)]
    gains = gains or [mean / bound / workers for mean in means]
    found.data[f"gain {'seen' if seen else 'proven'}", model.name, f"G = {workers}, B = {slots}"] = gains
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
