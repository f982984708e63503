"""WAIT sec. 6.2, Fig. 11: Nested WAIT on four types of unknown output lengths."""

from __future__ import annotations

from evenstep.experiments.papers.wait._families import LOADS
from evenstep.experiments.papers.wait._wait import Workload
from evenstep.experiments.reproduce import Experiment, Setting
from evenstep.report.findings import Constant, Findings
from evenstep.scheduling.policies.nested_wait import NestedWait

OUTPUTS, SHARES, RATIOS = (20, 40, 80, 160), (20, 40, 80, 160), (15, 14, 12, 8)


def run(setting: Setting) -> Findings:
    starts = (0, *OUTPUTS[:-1])
    limit = sum(n * (end - start) for n, start, end in zip(RATIOS, starts, OUTPUTS, strict=True)) + RATIOS[0]
    gated = {"Nested WAIT": NestedWait(RATIOS, OUTPUTS[:-1])}
    work = Workload((10,) * 4, OUTPUTS, SHARES, limit, gated, loads=LOADS)
    return work.find(
        setting,
        "below capacity every policy that keeps up has the throughput of the arrivals; pausing at the segments' heads costs "
        "latency. The ratios are those of eq. 10 with equality, so the queues at the heads have no drift back",
        [Constant("thresholds", RATIOS, "the paper's ratios, taken as they are; B is the batch they fill")],
    )


experiment = Experiment("Nested WAIT on four types", "WAIT sec. 6.2, Fig. 11", run, most_traces=0)
