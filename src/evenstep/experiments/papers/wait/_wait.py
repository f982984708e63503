"""Common parts of the WAIT experiments: types at swept rates, policies under one batch limit, throughput and latency."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenstep import streams
from evenstep.cost.affine_kv import AffineKv
from evenstep.experiments.reproduce import Setting, clearly, grouped, row, values
from evenstep.measure.comparison import paired_difference
from evenstep.measure.engine_records import EngineRun
from evenstep.report.figures import COLOURS, labelled
from evenstep.report.findings import Claim, Constant, Findings, Row, with_interval
from evenstep.request import I8, Trace
from evenstep.scheduling.policies.sarathi import Sarathi
from evenstep.scheduling.policies.vllm import Vllm
from evenstep.scheduling.view import SchedulingPolicy
from evenstep.sim.engine.simulation import Engine, simulate_engine
from evenstep.workload.synthetic.arrivals import Poisson

LAW = AffineKv()
FIELDS = {
    "throughput_tokens_per_s": ("throughput", "tokens/s"),
    "e2e_mean_s": ("mean latency", "s"),
    "iterations": ("iterations", ""),
}

#: Runs by (policy, arrivals a second), one a replicate.
Runs = Mapping[tuple[str, float], Sequence[EngineRun]]
#: Prompt and output tokens of requests from their types, a seed and the number of a replicate: int64[N] each.
Lengths = Callable[[I8, int, int], tuple[I8, I8]]


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """Types of requests on one engine.

    Args:
        prompts, outputs: tokens of each type; means where `lengths` draws them.
        shares: arrivals of each type, in proportion.
        batch_limit: B, requests of an iteration.
        gated: name to the policy under test.
        loads: arrival rates to try, as multiples of the engine's largest; or empty.
        rates: arrival rates, requests a second, where the paper gives them.
        requests: of a replicate, in full size.
        law: batch time.
        lengths: what draws the lengths of requests of a type; None = all have the type's.
    """

    prompts: Sequence[int]
    outputs: Sequence[int]
    shares: Sequence[float]
    batch_limit: int
    gated: Mapping[str, SchedulingPolicy]
    loads: Sequence[float] = ()
    rates: Sequence[float] = ()
    requests: int = 20_000
    law: AffineKv = LAW
    lengths: Lengths | None = None

    @property
    def largest_rate(self) -> float:
        """Requests a second of an engine that runs full batches of the mix's mean."""
        share = np.asarray(self.shares) / sum(self.shares)
        prompt, output = np.asarray(self.prompts, float), np.asarray(self.outputs, float)
        stages, work = float(share @ (output + 1)), float(share @ ((output + 1) * (prompt + output / 2)))
        return self.batch_limit / stages / (self.law.d0_s + self.law.d1_s * self.batch_limit * work / stages)

    def trace(self, rate: float, requests: int, seed: int, replicate: int) -> Trace:
        """Poisson arrivals, each of a type drawn by the shares."""
        u = streams.uniform(seed, "wait-type", np.arange(requests), draw=replicate)
        which = np.searchsorted(np.cumsum(self.shares) / sum(self.shares), u, side="right").astype(np.int64)
        types = (np.asarray(of, np.int64)[which] for of in (self.prompts, self.outputs))
        prompt, output = self.lengths(which, seed, replicate) if self.lengths else types
        return Trace(
            prompt,
            output,
            synthetic=True,
            arrival_s=Poisson(rate).times(requests, seed, replicate),
            request_class=which,
            name="types",
        )

    def one(self, policy: SchedulingPolicy, label: str, rate: float, requests: int, seed: int, replicate: int) -> EngineRun:
        """A run that ends with the last arrival: the end of a burst is not the subject."""
        trace = self.trace(rate, requests, seed, replicate)
        engine = Engine(token_budget=0, batch_limit=self.batch_limit, resident_limit=0, first_token="decode")
        return simulate_engine(
            trace,
            policy,
            engine=engine,
            batch_time=self.law,
            records=False,
            name=label,
            until_s=float(trace.column("arrival_s")[-1]),
        )

    def find(self, setting: Setting, remark: str, constants: Sequence[Constant] = ()) -> Findings:
        """Every policy at every rate, on the same arrivals."""
        requests = setting.pick(self.requests, 6_000)
        rates = [float(r) for r in self.rates] or [load * self.largest_rate for load in self.loads]
        rates = setting.pick(rates, rates[:1])
        policies: dict[str, SchedulingPolicy] = {**self.gated, "vLLM": Vllm(), "Sarathi": Sarathi()}
        runs: Runs = {
            (label, rate): [self.one(policy, label, rate, requests, setting.seed, r) for r in range(setting.replicates)]
            for label, policy in policies.items()
            for rate in rates
        }
        return Findings(
            rows=[one for rate in rates for field in FIELDS for one in _rows(runs, policies, rate, field)],
            claims=[
                _claim(runs, label, other, rate, field, sign, says)
                for label in self.gated
                for rate in rates
                for other in ("vLLM", "Sarathi")
                for field, sign, says in (
                    ("throughput_tokens_per_s", 1, "has a higher throughput than"),
                    ("e2e_mean_s", -1, "has a lower latency than"),
                )
            ],
            constants=[
                Constant(
                    "batch time",
                    f"d0 = {self.law.d0_s:g} s, d1 = {self.law.d1_s:g} s a KV token",
                    "the paper prints neither",
                ),
                Constant("B", self.batch_limit, "the same for all policies; the paper does not print it"),
                Constant(
                    "rates",
                    ", ".join(f"{r:,.3g}" for r in rates) + " requests/s",
                    f"full batches of the mix would do {self.largest_rate:,.3g}",
                ),
                Constant("requests", requests, "of each replicate, arrivals Poisson"),
                Constant("memory, token budget", "no limit", "the paper compares at one batch limit"),
                Constant(
                    "end",
                    "the last arrival",
                    "throughput and latency are of requests completed by then; a longer "
                    "latency leaves more of them over, which the throughput shows as a loss",
                ),
                Constant("max_hold_s", 1.0, "the paper's rules never run the last of a burst"),
                *constants,
            ],
            remark=remark,
            stands_in="the batch-time law of the paper's eq. 1 for Vidur on an A100",
            data={
                **grouped(runs, ("policy", "rate_per_s")),
                **{f: [v for own in runs.values() for v in values(own, f)] for f in FIELDS},
                "gates_broken": [run.totals.counted.get("gates_broken", 0) for k in runs for run in runs[k]],
            },
            draw=lambda figure: _draw(figure, runs, list(policies), rates),
            size=(8.5, 3.6),
        )


def _rows(runs: Runs, policies: Mapping[str, Any], rate: float, field: str) -> list[Row]:
    base, found = values(runs["Sarathi", rate], field), list[Row]()
    for label in policies:
        own, case = values(runs[label, rate], field), f"{label}, {rate:,.3g} requests/s"
        found.append(row(case, *FIELDS[field], own, None, () if label == "Sarathi" else base, "Sarathi"))
    return found


def _claim(runs: Runs, label: str, other: str, rate: float, field: str, sign: int, says: str) -> Claim:
    apart = paired_difference(values(runs[label, rate], field), values(runs[other, rate], field))
    text = f"{label} {says} {other} at {rate:,.3g} requests/s"
    return Claim(text, clearly(apart, sign), f"{with_interval(apart)} {FIELDS[field][1]}")


def _draw(figure: Any, runs: Runs, policies: Sequence[str], rates: Sequence[float]) -> None:
    panels = figure.subplots(1, 2)
    for axes, field in zip(panels, ("throughput_tokens_per_s", "e2e_mean_s"), strict=True):
        for colour, label in zip(COLOURS, policies, strict=False):
            means = [np.mean(values(runs[label, rate], field)) for rate in rates]
            axes.plot(rates, means, color=colour, lw=1.3, marker=".", label=label)
        quantity, unit = FIELDS[field]
        labelled(axes, "requests/s", f"{quantity}, {unit}")
    panels[0].legend(frameon=False)


def thresholds(limit: int, shares: Sequence[float], outputs: Sequence[int], *, printed: bool = False) -> tuple[int, ...]:
    """WAIT's thresholds under a batch limit B, at least 1.

    n_j = B lambda_j / sum lambda_i (l'_i + 1), in proportion to the arrivals as eq. 9 needs; as `printed` in sec. 6.1,
    B rho_j / (l'_j + 1), which gives long outputs too little.
    """
    if printed:
        exact = [limit * s / sum(shares) / (o + 1) for s, o in zip(shares, outputs, strict=True)]
    else:
        stages = sum(s * (o + 1) for s, o in zip(shares, outputs, strict=True))
        exact = [limit * s / stages for s in shares]
    return tuple(max(int(n), 1) for n in exact)
