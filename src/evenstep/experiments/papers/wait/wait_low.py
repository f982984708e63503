"""WAIT sec. 6.1, Fig. 7: throughput and latency with known output lengths, low demand."""

from __future__ import annotations

from evenstep.experiments.papers.wait._wait import Workload, thresholds
from evenstep.experiments.reproduce import Experiment, Setting
from evenstep.report.findings import Constant, Findings
from evenstep.scheduling.policies.wait import Wait

PROMPTS, OUTPUTS, SHARES = (10, 10), (10, 20), (1000, 1000)
BATCH_LIMIT = 512
#: Arrivals over the largest rate.
LOADS = (0.5, 0.9, 1.1)


def run(setting: Setting) -> Findings:
    own = thresholds(BATCH_LIMIT, SHARES, OUTPUTS)
    printed = thresholds(BATCH_LIMIT, SHARES, OUTPUTS, printed=True)
    gated = {"WAIT": Wait(own), "WAIT, thresholds as printed": Wait(printed)}
    work = Workload(PROMPTS, OUTPUTS, SHARES, BATCH_LIMIT, gated, loads=LOADS)
    return work.find(
        setting,
        "below capacity every policy that keeps up has the throughput of the arrivals, so waiting cannot raise it; what "
        "WAIT saves is iterations, and it pays in latency",
        [Constant("thresholds", f"{own}; as printed {printed}", "in proportion to the arrivals, as eq. 9 needs; sec. 6.1 "
                  "prints another rule")],
    )  # fmt: skip


experiment = Experiment(
    "WAIT against vLLM and Sarathi, low demand", "WAIT sec. 6.1, Fig. 7", run, most_traces=0
)
