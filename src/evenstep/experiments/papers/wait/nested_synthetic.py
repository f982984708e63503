"""WAIT sec. 6.2, Fig. 11: Nested WAIT on four types of unknown output lengths."""

from __future__ import annotations

from collections.abc import Mapping

from evenstep.experiments import vocabulary as ex
from evenstep.experiments.papers.wait._families import thresholds_said
from evenstep.experiments.papers.wait._wait import Case, Workload
from evenstep.scheduling.policies.nested_wait import NestedWait
from evenstep.scheduling.view import SchedulingPolicy

OUTPUTS, SHARES, RATIOS = (20, 40, 80, 160), (20, 40, 80, 160), (15, 14, 12, 8)
LIMIT = sum(n * (end - start) for n, start, end in zip(RATIOS, (0, *OUTPUTS[:-1]), OUTPUTS, strict=True)) + RATIOS[0]


def gated(case: Case) -> Mapping[str, SchedulingPolicy]:
    """Nested WAIT with the paper's ratios as thresholds, scaled down if an iteration holds less (`case.fits`)."""
    share = min(case.fits / LIMIT, 1.0)
    return {"Nested WAIT": NestedWait(tuple(max(round(n * share), 1) for n in RATIOS), OUTPUTS[:-1])}


WORK = Workload((10,) * 4, OUTPUTS, SHARES, LIMIT, gated)


@ex.experiment("Nested WAIT on four types", "WAIT sec. 6.2, Fig. 11", most_traces=0)
def experiment(setting: ex.Setting) -> ex.Findings:
    return WORK.find(
        setting,
        "below capacity every policy that keeps up has the throughput of the arrivals; pausing at the segments' heads costs "
        "latency. The ratios are those of eq. 10 with equality, so the queues at the heads have no drift back",
        ex.constants(f"""
            thresholds | {thresholds_said(WORK)} | the paper's ratios, less where an iteration holds less; B is the batch
              they fill
            rates | 0.5, 0.9 and 1.1 of capacity | the paper prints the proportions of the types only
        """),
    )
