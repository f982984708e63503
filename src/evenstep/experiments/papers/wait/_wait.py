"""Common parts of the WAIT experiments: policies under the same limits of tokens and prompts, at swept rates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evenstep import streams
from evenstep.cost.affine_kv import AffineKv
from evenstep.cost.power import Power
from evenstep.experiments import vocabulary as ex
from evenstep.measure.engine_records import EngineRun, energy_j
from evenstep.request import I8, Trace
from evenstep.scheduling.policies.sarathi import Sarathi
from evenstep.scheduling.policies.vanilla_vllm import VanillaVllm
from evenstep.scheduling.policies.vllm import Vllm
from evenstep.scheduling.view import SchedulingPolicy
from evenstep.sim.engine.settings import Engine, Overflow
from evenstep.sim.engine.simulation import simulate_engine
from evenstep.workload.synthetic.arrivals import Poisson

LAW, POWER = AffineKv(), Power()
#: How energy is counted, as a constant of an experiment.
ENERGY = (
    f"energy | {POWER.idle_w:g} W idle to {POWER.max_w:g} W, {POWER.model_params:g} parameters | BF-IO's power law over "
    "the tokens an iteration runs; idle time is counted"
)
#: Requests of a replicate at full size, and when quick.
REQUESTS = (12_000, 3_000)
#: Tokens an iteration may run, the same for all policies.
TOKEN_LIMITS = (512, 2048)
#: Arrivals over the largest rate.
LOADS = (0.5, 0.9, 1.1)
FIELDS = {
    "steady_tokens_per_s": ("throughput", "tokens/s"),
    "e2e_mean_s": ("mean latency", "s"),
    "iterations": ("iterations", ""),
    "energy_j_per_token": ("energy", "J/token"),
}
#: Fields compared with each baseline: the field, the better sign, the words, and the load below which it is claimed.
COMPARED = (
    ("steady_tokens_per_s", 1, "has a higher throughput than", np.inf),
    ("e2e_mean_s", -1, "has a lower latency than", np.inf),
    ("iterations", -1, "takes fewer iterations below capacity than", 1.0),
    ("energy_j_per_token", -1, "takes less energy a token below capacity than", 1.0),
)
#: The baselines, and whether the next batch is formed while one runs.
BASELINES: Mapping[str, tuple[SchedulingPolicy, bool]] = {
    "vanilla vLLM": (VanillaVllm(), False),
    "vLLM V1": (Vllm(), True),
    "Sarathi": (Sarathi(), False),
}


def energy_j_per_token(run: EngineRun) -> float:
    """Joules of a run for each token that it produced; idle time is counted."""
    assert run.iterations is not None
    return energy_j(POWER, run) / max(int(run.iterations.produced.sum()), 1)


#: Prompt and output tokens of requests from their types, a seed and the number of a replicate: int64[N] each.
Lengths = Callable[[I8, int, int], tuple[I8, I8]]


@dataclass(frozen=True, slots=True)
class Case:
    """Limits and arrivals under which policies are compared."""

    tokens: int  # tokens an iteration may run
    load: float  # arrivals over the largest rate
    rate: float  # arrivals, requests a second
    fits: float  # requests of the mix that an iteration can run (`Workload.fits`)
    said: str  # the case in words, for tables


def free_engine(kv_tokens: int = 0, overflow: Overflow = "recompute") -> Engine:
    """An engine as the paper models it, with no limit but memory; `kv_tokens` of 0 is no limit, either."""
    return Engine(
        token_budget=0, batch_limit=0, resident_limit=0, first_token="decode", kv_tokens=kv_tokens, overflow=overflow
    )


def share_said(share: ex.Interval) -> str:
    """A probability and its interval, to four places, as text."""
    return f"{share.value:.4f}, interval {share.low:.4f} to {share.high:.4f}"


def drawn_types(shares: Sequence[float], requests: int, seed: int, replicate: int) -> I8:
    """int64[requests], the index of each request's type, drawn in proportion to `shares`, which need not sum to 1."""
    u = streams.uniform(seed, "wait-type", np.arange(requests), draw=replicate)
    return np.searchsorted(np.cumsum(shares) / sum(shares), u, side="right").astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Shown:
    """The kept part of a run: its digest, and its summary with `steady_tokens_per_s` and `energy_j_per_token`."""

    summary: dict[str, Any]
    digest: str


#: Runs by (policy, case), one a replicate.
Runs = Mapping[tuple[str, Case], Sequence[Shown]]
#: The policies under test for a case.
Gated = Callable[[Case], Mapping[str, SchedulingPolicy]]


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """Types of requests on one engine."""

    prompts: Sequence[int]  # tokens of each type; means where `lengths` draws them
    outputs: Sequence[int]  # tokens of each type; means where `lengths` draws them
    shares: Sequence[float]  # arrivals of each type, in proportion
    batch_limit: int  # B, requests of an iteration
    gated: Gated  # gives the policies under test for a case, by label
    rates: Sequence[float] = ()  # arrival rates, requests a second, where the paper gives them
    law: AffineKv = LAW  # batch time
    lengths: Lengths | None = None  # draws the lengths of requests from their types; None = all have the type's

    def mean(self, per_type: Any) -> float:
        """The mean over types, weighted by the shares, of a number that each type has."""
        return float(np.dot(np.asarray(self.shares, float) / sum(self.shares), per_type))

    def fits(self, tokens: int) -> float:
        """Mean requests in a full iteration, which runs at most `batch_limit` requests and `tokens` tokens.

        Requests are taken to be equally often at each of their stages: the prefill, and each decode.
        """
        prompt, output = np.asarray(self.prompts, float), np.asarray(self.outputs, float)
        return min(self.batch_limit, tokens * self.mean(output + 1) / self.mean(prompt + output))

    def largest_rate(self, tokens: int) -> float:
        """Capacity, requests a second: that of full batches of the mean mix, within `tokens` tokens."""
        prompt, output = np.asarray(self.prompts, float), np.asarray(self.outputs, float)
        each = self.fits(tokens) / self.mean(output + 1)
        return each / (self.law.d0_s + self.law.d1_s * each * self.mean((output + 1) * (prompt + output / 2)))

    def cases(self, quick: bool = False) -> list[Case]:
        """Each of `TOKEN_LIMITS` with each of `LOADS`, then with each of `rates`; if `quick`, with the first load only."""
        found: list[Case] = []
        for tokens in TOKEN_LIMITS:
            most, fits = self.largest_rate(tokens), self.fits(tokens)
            own = [(load, load * most, f"{load:g} of capacity") for load in LOADS]
            own += [(rate / most, rate, f"{rate:,.0f} requests/s") for rate in self.rates]
            found += [Case(tokens, load, rate, fits, f"{tokens:,} tokens, {said}") for load, rate, said in own]
        return [one for one in found if one.said.endswith(f"{LOADS[0]:g} of capacity")] if quick else found

    def trace(self, rate: float, requests: int, seed: int, replicate: int) -> Trace:
        """`requests` Poisson arrivals at `rate` a second, each of a type drawn by the shares; the class is the type."""
        which = drawn_types(self.shares, requests, seed, replicate)
        types = (np.asarray(of, np.int64)[which] for of in (self.prompts, self.outputs))
        prompt, output = self.lengths(which, seed, replicate) if self.lengths else types
        arrival_s = Poisson(rate).times(requests, seed, replicate)
        return Trace(prompt, output, synthetic=True, arrival_s=arrival_s, request_class=which, name="types")

    def one(self, policy: SchedulingPolicy, case: Case, trace: Trace, ahead: bool = False) -> EngineRun:
        """Simulate up to the last arrival, or to the time in which half of the requests could be served if that is later.

        With `ahead` the engine forms the next batch while one runs. Memory is not limited.
        """
        limit = min(self.batch_limit, case.tokens)
        engine = replace(free_engine(), token_budget=case.tokens, batch_limit=limit, schedules_ahead=ahead)
        half_s = len(trace) / 2 / self.largest_rate(case.tokens)
        until_s = max(float(trace.column("arrival_s")[-1]), half_s)
        return simulate_engine(trace, policy, engine=engine, batch_time=self.law, until_s=until_s)

    def shown(self, label: str, policy: SchedulingPolicy, case: Case, trace: Trace) -> Shown:
        """Run a policy and keep its figures; `label` tells if it is a baseline that forms batches ahead.

        `steady_tokens_per_s` counts the outputs of requests that complete in the run's second half.
        """
        run = self.one(policy, case, trace, label in BASELINES and BASELINES[label][1])
        half_s = run.totals.makespan_s / 2
        late = run.requests.output_tokens[run.requests.finished_s > half_s]
        own = {"steady_tokens_per_s": float(late.sum()) / half_s, "energy_j_per_token": energy_j_per_token(run)}
        return Shown({**run.summary, **own}, run.digest)

    def runs(self, setting: ex.Setting) -> Runs:
        """Run the policies under test and all `BASELINES` in every case, on the same arrivals; runs by (label, case)."""
        runs: dict[tuple[str, Case], list[Shown]] = {}
        for case in self.cases(setting.quick):
            traces = [self.trace(case.rate, setting.pick(*REQUESTS), setting.seed, r) for r in range(setting.replicates)]
            policies = {**self.gated(case), **{label: policy for label, (policy, _) in BASELINES.items()}}
            for label, policy in policies.items():
                runs[label, case] = [self.shown(label, policy, case, trace) for trace in traces]
        return runs

    def find(
        self, setting: ex.Setting, remark: str, constants: Sequence[ex.Constant] = (), runs: Runs | None = None
    ) -> ex.Findings:
        """The findings of every policy in every case: rows of `FIELDS`, and claims on each of `COMPARED` and baseline.

        `constants` come after the workload's own. `runs` are those of this workload; None = make them.
        """
        runs, cases = runs or self.runs(setting), self.cases(setting.quick)
        labels = list(dict.fromkeys(label for label, _ in runs))
        gated = [label for label in labels if label not in BASELINES]
        return ex.Findings(
            rows=[_row(runs, label, case, field) for case in cases for field in FIELDS for label in labels],
            claims=[_claim(runs, label, other, cases, *how) for label in gated for other in BASELINES for how in COMPARED],
            constants=[*self.constants(setting.pick(*REQUESTS)), *constants],
            remark=remark,
            stands_in="the batch-time law of the paper's eq. 1 for Vidur on an A100",
            data={
                **ex.grouped(
                    {(label, case.tokens, case.rate): own for (label, case), own in runs.items()},
                    ("policy", "tokens", "rate_per_s"),
                ),
                **{f: [v for own in runs.values() for v in ex.values(own, f)] for f in FIELDS},
                "gates_broken": [one.summary["counted"].get("gates_broken", 0) for own in runs.values() for one in own],
                "digest": [one.digest for own in runs.values() for one in own],
            },
            draw=lambda figure: _draw(figure, runs, labels, cases),
            size=(8.5, 6.4),
        )

    def constants(self, requests: int) -> list[ex.Constant]:
        """The constants that the paper leaves open, with the capacity at each token limit, for `requests` a replicate."""
        most = "; ".join(f"{b:,}: {self.fits(b):,.0f}, {self.largest_rate(b):,.3g}/s" for b in TOKEN_LIMITS)
        return ex.constants(f"""
            batch time | d0 = {self.law.d0_s:g} s, d1 = {self.law.d1_s:g} s a KV token | the paper prints neither
            token limits | {TOKEN_LIMITS} | of an iteration, the same for all; the paper prints none
            prompt limit B | {self.batch_limit} | of an iteration; not printed. It limits more than the tokens do only where
              it is smaller: each request runs a token at least
            requests that fit, capacity | {most} | an iteration of the mix within both limits, by token limit
            requests | {requests} | of each replicate, arrivals Poisson
            memory | no limit | the paper names none for its experiments
            end | the last arrival, or the time in which half of them could be served | latency is of requests completed by
              then; throughput of those completed in the second half, since a longer latency fills the engine for longer
              first
            max_hold_s | 1.0 | the paper's rules never run the last of a burst
            vLLM V1 | forms the next batch while one runs | as it does by default; formed like the others, its batches are
              Sarathi's to the bit, since it serves running requests first, too. The paper's vLLM puts new arrivals first:
              vanilla vLLM
            {ENERGY}
        """)


def _row(runs: Runs, label: str, case: Case, field: str) -> ex.Row:
    ours, base = ex.pair(runs, (label, case), ("Sarathi", case), field)
    return ex.row(f"{label}, {case.said}", *FIELDS[field], ours, None, () if label == "Sarathi" else base, "Sarathi")


def relative(ours: Sequence[float], base: Sequence[float]) -> ex.Interval:
    """Mean of ``100 * (a / b - 1)`` over the pairs of `ours` and `base`, with its interval; nan if a `b` is 0."""
    return ex.mean_interval([100 * (quotient - 1) for quotient in ex.quotients(ours, base)])


def _claim(
    runs: Runs, label: str, other: str, cases: Sequence[Case], field: str, sign: int, says: str, up_to: float
) -> ex.Claim:
    """The claim that one policy beats another in `field` in every case with a load below `up_to`.

    The sentence is `label`, `says`, `other`. The paired relative difference must clearly have the sign in each case.
    """
    below = [case for case in cases if case.load < up_to]
    apart = {case.said: relative(*ex.pair(runs, (label, case), (other, case), field)) for case in below}
    seen = "; ".join(f"{said} {ex.mean_text(one)} %" for said, one in apart.items())
    return ex.all_limited(f"{label} {says} {other}", apart.values(), 0, sign, seen)


def _draw(figure: ex.Figure, runs: Runs, labels: Sequence[str], cases: Sequence[Case]) -> None:
    panels = figure.subplots(len(TOKEN_LIMITS), 2, squeeze=False)
    for line, tokens in zip(panels, TOKEN_LIMITS, strict=True):
        own = sorted((case for case in cases if case.tokens == tokens), key=lambda case: case.rate)
        for axes, field in zip(line, ("steady_tokens_per_s", "e2e_mean_s"), strict=True):
            means = {label: [np.mean(ex.values(runs[label, case], field)) for case in own] for label in labels}
            ex.lines(axes, {label: ([case.rate for case in own], y) for label, y in means.items()}, lw=1.3, marker=".")
            quantity, unit = FIELDS[field]
            ex.labelled(axes, "requests/s", f"{quantity}, {unit}", f"{tokens:,} tokens an iteration")
    panels[0][0].legend(frameon=False, fontsize=7)


def thresholds(limit: float, shares: Sequence[float], outputs: Sequence[int], *, printed: bool = False) -> tuple[int, ...]:
    """WAIT's thresholds under a batch limit B, one a type, rounded down, at least 1.

    `shares` are the arrivals lambda_j in proportion, `outputs` the tokens l'_j. n_j = B lambda_j / sum lambda_i (l'_i + 1),
    in proportion to the arrivals as eq. 9 needs. As `printed` in sec. 6.1 it is B rho_j / (l'_j + 1), rho_j = lambda_j / sum
    lambda_i, which gives long outputs too little.
    """
    if printed:
        exact = [limit * s / sum(shares) / (o + 1) for s, o in zip(shares, outputs, strict=True)]
    else:
        stages = sum(s * (o + 1) for s, o in zip(shares, outputs, strict=True))
        exact = [limit * s / stages for s in shares]
    return tuple(max(int(n), 1) for n in exact)
