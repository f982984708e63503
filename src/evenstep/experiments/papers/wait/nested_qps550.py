"""WAIT sec. 6.2, Fig. 13: Nested WAIT on ten types of unknown output lengths, 550 requests a second."""

from __future__ import annotations

from evenstep.experiments.papers.wait._nested_ten import ten_types
from evenstep.experiments.reproduce import Experiment, Setting
from evenstep.report.findings import Findings

WHY = "the paper's ratios; it prints no scale"


def run(setting: Setting) -> Findings:
    return ten_types(setting, 550.0, 1, WHY)


experiment = Experiment(
    "Nested WAIT on ten types, 550 requests a second", "WAIT sec. 6.2, Fig. 13", run, most_traces=0
)
