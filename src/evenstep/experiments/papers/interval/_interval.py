"""Common parts of the Interval scheduling experiments: lengths, intervals around them, and latency against requests."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from evenstep import names, streams
from evenstep.cost.token_budget import TokenBudget
from evenstep.experiments import vocabulary as ex
from evenstep.request import F8, I8, Trace
from evenstep.sim.engine.simulation import Engine, simulate_engine
from evenstep.workload.synthetic.laws import Lognormal

#: Requests of a simulation, all present at the start.
COUNTS = tuple(range(200, 2001, 200))
#: KV tokens: the paper's value, and others to see its effect.
MEMORY, MEMORIES = 16_492, (4_096, 16_492, 32_768)
HINDSIGHT, LITERAL = "H-SF", "A_min"
POLICIES = {"A_max": "a-max", LITERAL: "a-min", "A_min, repaired": "a-min:reading=repaired", HINDSIGHT: "h-sf"}
#: Median, sigma and end of the lengths that stand in, as drawn and as text.
LAWS = (("prompt", 11.0, 1.95, 468), ("output", 45.0, 1.18, 883))
LAWS_SAID = "lognormal, " + ", ".join(f"{name} median {median:g}, sigma {s} on 1..{high}" for name, median, s, high in LAWS)
#: Our tolerance for "nearly identical", as a share.
NEAR = 0.05

#: Bounds of the output lengths: int64[N] -> int64[N] twice.
Bounds = Callable[[I8], tuple[I8, I8]]
#: Values by (intervals, policy, requests, memory), one a replicate.
Values = dict[tuple[str, str, int, int], list[float]]


def lengths(count: int, seed: int, replicate: int) -> tuple[I8, I8]:
    """(prompt, output) tokens in place of the paper's sample: int64[count] each, lognormal between the sample's ends."""
    return tuple(_within(count, seed, replicate, *law) for law in LAWS)  # type: ignore[return-value]


def _within(count: int, seed: int, replicate: int, name: str, median: float, sigma: float, high: int) -> I8:
    """int64[count], lognormal tokens with this median and sigma, from 1 to `high`."""
    from scipy.special import ndtr

    ends: F8 = ndtr(np.log(np.array([0.5, high + 0.5]) / median) / sigma)
    u = streams.uniform(seed, f"interval-{name}", np.arange(count), draw=replicate)
    return Lognormal(sigma, median=median, low=1, high=high).quantile(ends[0] + (ends[1] - ends[0]) * u)


def rough(output: I8) -> tuple[I8, I8]:
    """Bounds [1, 1000] tokens for every request: the lower ones and the upper ones, int64[N] each."""
    return np.ones_like(output), np.full_like(output, 1000)


def buckets(output: I8) -> tuple[I8, I8]:
    """Bounds [1, 100], [101, 200], ... around the true length: the lower ones and the upper ones, int64[N] each."""
    low = (output - 1) // 100 * 100 + 1
    return low, low + 99


def around(share: float) -> Bounds:
    """A function from true lengths o to bounds [(1 - share) o, (1 + share) o], in whole tokens outwards, at least 1."""

    def bounds(output: I8) -> tuple[I8, I8]:
        low = np.maximum(np.floor((1 - share) * output), 1).astype(np.int64)
        return low, np.ceil((1 + share) * output).astype(np.int64)

    return bounds


@dataclass(frozen=True, slots=True)
class Sweep:
    """Average latencies of every policy under some intervals."""

    setting: ex.Setting  # size, replicates, key
    intervals: Mapping[str, Bounds]  # bounds by name
    #: mean latencies, seconds, one a replicate, by (intervals, policy, requests, KV tokens); filled by `run`
    values: Values = field(default_factory=Values)

    @property
    def counts(self) -> Sequence[int]:
        return self.setting.pick(COUNTS, COUNTS[:2])

    def run(self) -> Sweep:
        """Measure every count at the paper's memory, the largest at the others too, into `values`; returns itself."""
        most = self.counts[-1]
        sizes = [(n, MEMORY) for n in self.counts] + [(most, m) for m in MEMORIES if m != MEMORY]
        for name, label, size in itertools.product(self.intervals, POLICIES, sizes):
            replicates = range(self.setting.replicates)
            own = [self.one(label, self.intervals[name], *size, r) for r in replicates]
            self.values[name, label, *size] = own
        return self

    def one(self, label: str, bounds: Bounds, count: int, memory: int, replicate: int) -> float:
        """Mean latency, seconds, of `count` requests in `memory` KV tokens; `H-SF` is shown the true lengths, no bounds."""
        policy = names.build("scheduling", POLICIES[label])
        prompt, output = lengths(count, self.setting.seed, replicate)
        trace, seed = Trace(prompt, output, name="lognormal", synthetic=True), self.setting.seed + replicate
        engine = Engine(token_budget=0, batch_limit=0, kv_tokens=memory, overflow="restart", hold_produced=True)
        law = TokenBudget(fit="llama-70b-tp2")
        done = simulate_engine(trace, policy, engine=engine, batch_time=law, bounds=bounds(output), seed=seed, records=False)
        return float(done.summary["e2e_mean_s"])

    def at_most(self, name: str, label: str) -> list[float]:
        """Mean latencies, seconds, of policy `label` under intervals `name`, at the largest count and the paper's memory."""
        return self.values[name, label, self.counts[-1], MEMORY]

    def rows(self) -> Iterator[ex.Row]:
        """Yield a row for each entry of `values`, with the paired difference to `H-SF`; call `run` before."""
        for (name, label, count, memory), own in self.values.items():
            base = self.values[name, HINDSIGHT, count, memory]
            case = f"{label}, {name}, n = {count:,}" + (f", M = {memory:,}" if memory != MEMORY else "")
            yield ex.row(case, "average latency", "s", own, None, base, HINDSIGHT)

    def over_hindsight(self, name: str, label: str, memory: int = MEMORY) -> ex.Interval:
        """Latency of policy `label` over that of `H-SF`, at the largest count: mean ratio with its interval."""
        most = self.counts[-1]
        return ex.ratio(self.values[name, label, most, memory], self.values[name, HINDSIGHT, most, memory])

    def near_claim(self, name: str, says: str = "") -> ex.Claim:
        """The claim `says`: A_min's latency is below ``1 + NEAR`` times that of `H-SF` at the largest count."""
        found = self.over_hindsight(name, LITERAL)
        others = ", ".join(
            f"{ex.mean_text(self.over_hindsight(name, LITERAL, m))} at M = {m:,}" for m in MEMORIES if m != MEMORY
        )
        text = says or f"{LITERAL} with {name} is nearly identical to H-SF (within {NEAR:.0%})"
        return ex.limited(text, found, 1 + NEAR, -1, f"{{}} times H-SF at n = {self.counts[-1]:,}; {others}")

    def constants(self) -> list[ex.Constant]:
        return ex.constants(f"""
            lengths | {LAWS_SAID} | fitted to the medians, ranges and means the paper prints; its sample cannot be
              redistributed
            batch time | llama-70b-tp2 of `token-budget` | the paper: Vidur's predictor, same model and GPUs
            M | {MEMORY:,} KV tokens; also {", ".join(f"{m:,}" for m in MEMORIES if m != MEMORY)} | the experiments name
              none; the ratios at the others are in the rows
            arrivals | all at time zero | the paper's model
            token budget, batch limit | none | the paper's model
            near | {NEAR:.0%} | the paper says nearly identical
        """)

    def draw(self, figure: ex.Figure) -> None:
        panels = figure.subplots(1, len(self.intervals), squeeze=False)[0]
        for axes, name in zip(panels, self.intervals, strict=True):
            means = {label: [np.mean(self.values[name, label, n, MEMORY]) for n in self.counts] for label in POLICIES}
            ex.lines(axes, {label: (self.counts, y) for label, y in means.items()}, lw=1.3, marker=".")
            ex.labelled(axes, "requests", title=name)
        panels[0].set_ylabel("average latency, s")
        panels[0].legend(frameon=False)


#: What stands in for the paper's data, in all three.
STANDS_IN = "lognormal lengths for 2,000 conversations of LMSYS-Chat-1M"


def latency_under(
    title: str,
    figure: int,
    intervals: Mapping[str, Bounds],
    claims: Callable[[Sweep], list[ex.Claim]],
    remark: str,
    size: tuple[float, float] = (9.0, 5.0),
) -> ex.Experiment:
    """The experiment that sweeps the number of requests under intervals (bounds by name); `claims` judges the sweep.

    `figure` is the number of the paper's figure, `size` the width and height of ours in inches.
    """

    def run(setting: ex.Setting) -> ex.Findings:
        sweep = Sweep(setting, intervals).run()
        return ex.Findings(
            rows=[*sweep.rows()],
            claims=claims(sweep),
            constants=sweep.constants(),
            remark=remark,
            stands_in=STANDS_IN,
            data=ex.long_values(sweep.values, ("intervals", "policy", "requests", "kv_tokens"), "latency_s"),
            draw=sweep.draw,
            size=size,
        )

    return ex.Experiment(title, f"Interval scheduling sec. 6, Fig. {figure}", run, most_traces=0)
