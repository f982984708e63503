"""Families of WAIT experiments, each defined once: known lengths (sec. 6.1), ten types of unknown lengths (sec. 6.2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from evenstep.cost.affine_kv import AffineKv
from evenstep.experiments import vocabulary as ex
from evenstep.experiments.papers.wait._wait import Case, Workload, thresholds
from evenstep.scheduling.policies.nested_wait import NestedWait
from evenstep.scheduling.policies.wait import Wait
from evenstep.scheduling.view import SchedulingPolicy
from evenstep.theory.fluid import Types
from evenstep.theory.nested_thresholds import with_slack

#: The ten types: prompts, outputs and arrivals of each, and the paper's ratios of their thresholds.
PROMPT, OUTPUTS = 60, tuple(range(50, 501, 50))
SHARES, RATIOS = (23, 11, 8, 7, 6, 4, 3, 2, 1, 1), (66, 43, 32, 24, 17, 11, 7, 4, 2, 1)
LIMIT = 50 * sum(RATIOS) + RATIOS[0]
#: d1 is a tenth of the law's default: with the default, 550 requests a second would be several times the engine's capacity.
LAW = AffineKv(0.01, 4e-8)


def known(prompts: tuple[int, ...], outputs: tuple[int, ...], rates: tuple[int, ...], limit: int) -> Workload:
    """The workload of an experiment on WAIT, with two policies: thresholds in proportion to the arrivals, and as printed.

    `prompts` and `outputs` are the tokens of each type. `rates` are its arrivals, requests a second; their sum is also one
    of the workload's rates. `limit` is B, requests of an iteration.
    """

    def gated(case: Case) -> Mapping[str, SchedulingPolicy]:
        own, printed = (thresholds(case.fits, rates, outputs, printed=p) for p in (False, True))
        return {"WAIT": Wait(own), "WAIT, thresholds as printed": Wait(printed)}

    return Workload(prompts, outputs, rates, limit, gated, rates=(sum(rates),))


def known_lengths(demand: str, figure: int, work: Workload) -> ex.Experiment:
    """The experiment of WAIT on `work`, known lengths; `demand` is a word of its title, `figure` the paper's number."""

    @ex.experiment(f"WAIT against vLLM and Sarathi, {demand} demand", f"WAIT sec. 6.1, Fig. {figure}", most_traces=0)
    def found(setting: ex.Setting) -> ex.Findings:
        return work.find(
            setting,
            "below capacity every policy that keeps up has the throughput of the arrivals, so waiting cannot raise it; what "
            "WAIT saves is iterations and their energy, and it pays in latency. With few tokens an iteration a threshold of "
            "one a type is already more than fits",
            ex.constants(f"""
                thresholds | {thresholds_said(work)} | in proportion to the arrivals, as eq. 9 needs; then as printed in
                  sec. 6.1; for what fits an iteration
            """),
        )

    return found


def thresholds_said(work: Workload) -> str:
    """The thresholds of the policies under test at each token limit, as text: ``512 tokens: (1, 1), (2, 2)``."""
    gated = {case.tokens: work.gated(case).values() for case in work.cases(quick=True)}
    return "; ".join(f"{n:,} tokens: {ex.listed(getattr(one, 'thresholds', ()) for one in own)}" for n, own in gated.items())


@dataclass(frozen=True, slots=True)
class TenTypes:
    """Nested WAIT on the ten types at a rate: with the paper's ratios, and with solved thresholds."""

    rate: float  # requests a second of all types together
    over: int  # divisor of the paper's ratios that gives thresholds

    def types(self, rate: float) -> Types:
        """The ten types at a total rate, requests a second."""
        return Types([rate * share / sum(SHARES) for share in SHARES], (PROMPT,) * 10, OUTPUTS, LAW.d0_s, LAW.d1_s)

    def scaled(self, fits: float) -> tuple[int, ...]:
        """The paper's ratios divided by `over`, or by more if an iteration holds only `fits` requests; integers >= 1."""
        share = min(1 / self.over, fits / LIMIT)
        return tuple(max(round(n * share), 1) for n in RATIOS)

    def solved(self, rate: float) -> tuple[int, ...]:
        """The least thresholds of eq. 10 for a rate, requests a second, under `LAW`; one a segment."""
        return tuple(with_slack(self.types(rate), 0.0, iterations=1e6, delta=0.01).thresholds.tolist())

    def gated(self, case: Case) -> Mapping[str, SchedulingPolicy]:
        """The policies under test: Nested WAIT with scaled thresholds, and with solved ones."""
        both = {"Nested WAIT": self.scaled(case.fits), "Nested WAIT, solved": self.solved(case.rate / max(case.load, 1.0))}
        return {name: NestedWait(own, OUTPUTS[:-1]) for name, own in both.items()}

    @property
    def work(self) -> Workload:
        return Workload((PROMPT,) * 10, OUTPUTS, SHARES, LIMIT, self.gated, rates=(self.rate,), law=LAW)

    def constants(self, why: str) -> list[ex.Constant]:
        fits = {case.tokens: case.fits for case in self.work.cases(quick=True)}
        scaled = "; ".join(f"{tokens:,} tokens: {self.scaled(own)}" for tokens, own in fits.items())
        return ex.constants(f"""
            thresholds | {scaled} | {why}
            solved thresholds | {self.solved(self.rate)} at {self.rate:g}/s | the least of eq. 10
        """)


def ten_types(figure: int, ten: TenTypes, why: str) -> ex.Experiment:
    """The experiment of Nested WAIT on the ten types of `ten`; `figure` is the paper's, `why` explains the thresholds."""

    title = f"Nested WAIT on ten types, {ten.rate:g} requests a second"

    @ex.experiment(title, f"WAIT sec. 6.2, Fig. {figure}", most_traces=0)
    def found(setting: ex.Setting) -> ex.Findings:
        first = ten.scaled(LIMIT)[0]
        return ten.work.find(
            setting,
            f"the first segment runs only when {first} prompts wait, which takes {first / ten.rate:.2g} s at this rate, "
            f"against {LAW.d0_s:g} s of an empty iteration; until then everybody pauses, so that decodes wait for arrivals, "
            "not for the engine",
            ten.constants(why),
        )

    return found


LOW = known((10, 10), (10, 20), (1000, 1000), 512)
HIGH = known((20, 20, 20), (100, 200, 300), (6000, 4000, 2000), 4096)
QPS55, QPS550 = TenTypes(55.0, 10), TenTypes(550.0, 1)
