"""WAIT sec. 6.2, Fig. 12: Nested WAIT on ten types of unknown output lengths, 55 requests a second."""

from __future__ import annotations

from evenstep.experiments.papers.wait._nested_ten import ten_types
from evenstep.experiments.reproduce import Experiment, Setting
from evenstep.report.findings import Findings

WHY = (
    "the paper's ratios, over ten for a tenth of the rate; it prints no scale. Rounded they break eq. 10 (4/7 is below"
    " 0.6515), so part of what is lost is the rounding"
)


def run(setting: Setting) -> Findings:
    return ten_types(setting, 55.0, 10, WHY)


experiment = Experiment(
    "Nested WAIT on ten types, 55 requests a second", "WAIT sec. 6.2, Fig. 12", run, most_traces=0
)
