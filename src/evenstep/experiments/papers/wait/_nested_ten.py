"""What WAIT's two experiments with ten types of unknown output lengths share (sec. 6.2, Figs. 12 and 13)."""

from __future__ import annotations

from evenstep.cost.affine_kv import AffineKv
from evenstep.experiments.papers.wait._wait import Workload
from evenstep.experiments.reproduce import Setting
from evenstep.report.findings import Constant, Findings
from evenstep.scheduling.policies.nested_wait import NestedWait
from evenstep.theory.fluid import Types
from evenstep.theory.nested_thresholds import with_slack

OUTPUTS = tuple(range(50, 501, 50))
SHARES, RATIOS = (23, 11, 8, 7, 6, 4, 3, 2, 1, 1), (66, 43, 32, 24, 17, 11, 7, 4, 2, 1)
#: d1 is a tenth of the law's default: with the default, 550 requests a second would be 4.4 times the engine's capacity.
LAW = AffineKv(0.01, 4e-8)


def ten_types(setting: Setting, rate: float, over: int, why: str) -> Findings:
    """Nested WAIT with the paper's ratios `over` a number, and with solved thresholds, compared with vLLM and Sarathi.

    Args:
        setting: seeds and size.
        rate: requests a second.
        over: divisor of the ratios; results are rounded, 1 at least.
        why: a remark on the thresholds obtained.
    """
    scaled = tuple(max(round(n / over), 1) for n in RATIOS)
    rates = [rate * share / sum(SHARES) for share in SHARES]
    solved = with_slack(
        Types(rates, (60,) * 10, OUTPUTS, LAW.d0_s, LAW.d1_s), 0.0, iterations=1e6, delta=0.01
    )
    least = tuple(solved.thresholds.tolist())
    gated = {
        "Nested WAIT": NestedWait(scaled, OUTPUTS[:-1]), "Nested WAIT, solved": NestedWait(least, OUTPUTS[:-1]),
    }  # fmt: skip
    limit = 50 * sum(RATIOS) + RATIOS[0]
    work = Workload((60,) * 10, OUTPUTS, SHARES, limit, gated, rates=(rate,), law=LAW)
    return work.find(
        setting,
        f"the first segment runs only when {scaled[0]} prompts wait, which takes {scaled[0] / rate:.2g} s at this rate, "
        f"against {LAW.d0_s:g} s of an empty iteration; until then everybody pauses, so that decodes wait for arrivals, not "
        "for the engine",
        [
            Constant("thresholds", scaled, why),
            Constant("solved thresholds", least, "the least of eq. 10 for this rate and law"),
        ],
    )  # fmt: skip
