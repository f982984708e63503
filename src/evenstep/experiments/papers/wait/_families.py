"""WAIT's families of experiments, one text for each: known lengths (sec. 6.1), and ten types of unknown ones (sec. 6.2)."""

from __future__ import annotations

from dataclasses import dataclass

from evenstep.cost.affine_kv import AffineKv
from evenstep.experiments.papers.wait._wait import Workload, thresholds
from evenstep.experiments.reproduce import Experiment, Setting
from evenstep.report.findings import Constant, Findings
from evenstep.scheduling.policies.nested_wait import NestedWait
from evenstep.scheduling.policies.wait import Wait
from evenstep.scheduling.view import SchedulingPolicy
from evenstep.theory.fluid import Types
from evenstep.theory.nested_thresholds import with_slack

#: Arrivals over the largest rate.
LOADS = (0.5, 0.9, 1.1)
#: The ten types: prompts, outputs and arrivals of each, and the paper's ratios of their thresholds.
PROMPT, OUTPUTS = 60, tuple(range(50, 501, 50))
SHARES, RATIOS = (23, 11, 8, 7, 6, 4, 3, 2, 1, 1), (66, 43, 32, 24, 17, 11, 7, 4, 2, 1)
LIMIT = 50 * sum(RATIOS) + RATIOS[0]
#: d1 is a tenth of the law's default: with the default, 550 requests a second would be 4.4 times the engine's capacity.
LAW = AffineKv(0.01, 4e-8)


def known_lengths(
    demand: str, figure: int, prompts: tuple[int, ...], outputs: tuple[int, ...], shares: tuple[int, ...], limit: int
) -> Experiment:
    """WAIT with thresholds in proportion, and as printed, compared with vLLM and Sarathi at a batch limit."""

    def run(setting: Setting) -> Findings:
        own = thresholds(limit, shares, outputs)
        printed = thresholds(limit, shares, outputs, printed=True)
        gated = {"WAIT": Wait(own), "WAIT, thresholds as printed": Wait(printed)}
        return Workload(prompts, outputs, shares, limit, gated, loads=LOADS).find(
            setting,
            "below capacity every policy that keeps up has the throughput of the arrivals, so waiting cannot raise it; what "
            "WAIT saves is iterations, and it pays in latency",
            [
                Constant(
                    "thresholds",
                    f"{own}; as printed {printed}",
                    "in proportion to the arrivals, as eq. 9 needs; sec. 6.1 prints another rule",
                )
            ],
        )

    title = f"WAIT against vLLM and Sarathi, {demand} demand"
    return Experiment(title, f"WAIT sec. 6.1, Fig. {figure}", run, most_traces=0)


@dataclass(frozen=True, slots=True)
class TenTypes:
    """Nested WAIT on the ten types: the paper's ratios `over` a number, and solved thresholds, at a rate."""

    rate: float
    over: int

    @property
    def scaled(self) -> tuple[int, ...]:
        """The ratios over that number, rounded, 1 at least."""
        return tuple(max(round(n / self.over), 1) for n in RATIOS)

    @property
    def types(self) -> Types:
        rates = [self.rate * share / sum(SHARES) for share in SHARES]
        return Types(rates, (PROMPT,) * 10, OUTPUTS, LAW.d0_s, LAW.d1_s)

    @property
    def solved(self) -> tuple[int, ...]:
        """The least thresholds of eq. 10 for this rate and law."""
        return tuple(with_slack(self.types, 0.0, iterations=1e6, delta=0.01).thresholds.tolist())

    @property
    def gated(self) -> dict[str, SchedulingPolicy]:
        both = {"Nested WAIT": self.scaled, "Nested WAIT, solved": self.solved}
        return {name: NestedWait(own, OUTPUTS[:-1]) for name, own in both.items()}

    def constants(self, why: str) -> list[Constant]:
        return [
            Constant("thresholds", self.scaled, why),
            Constant("solved thresholds", self.solved, "the least of eq. 10 for this rate and law"),
        ]


def ten_types(figure: int, rate: float, over: int, why: str) -> Experiment:
    """The ten types at a rate, with `why` as the remark on the thresholds obtained."""
    ten = TenTypes(rate, over)

    def run(setting: Setting) -> Findings:
        first = ten.scaled[0]
        return Workload((PROMPT,) * 10, OUTPUTS, SHARES, LIMIT, ten.gated, rates=(rate,), law=LAW).find(
            setting,
            f"the first segment runs only when {first} prompts wait, which takes {first / rate:.2g} s at this rate, "
            f"against {LAW.d0_s:g} s of an empty iteration; until then everybody pauses, so that decodes wait for arrivals, "
            "not for the engine",
            ten.constants(why),
        )

    title = f"Nested WAIT on ten types, {rate:g} requests a second"
    return Experiment(title, f"WAIT sec. 6.2, Fig. {figure}", run, most_traces=0)


WAIT_LOW = known_lengths("low", 7, (10, 10), (10, 20), (1000, 1000), 512)
WAIT_HIGH = known_lengths("high", 8, (20, 20, 20), (100, 200, 300), (6000, 4000, 2000), 4096)
NESTED_QPS55 = ten_types(
    12,
    55.0,
    10,
    "the paper's ratios, over ten for a tenth of the rate; it prints no scale. Rounded they break eq. 10 "
    "(4/7 is below 0.6515), so part of what is lost is the rounding",
)
NESTED_QPS550 = ten_types(13, 550.0, 1, "the paper's ratios; it prints no scale")
