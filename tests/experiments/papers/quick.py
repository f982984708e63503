"""One quick run of an experiment and what every experiment promises."""

from __future__ import annotations

import math

from matplotlib.figure import Figure

from evenstep.experiments.reproduce import Setting, reproduce
from evenstep.report import findings


def quick(name: str, seeds: int = 2, **more) -> findings.Reproduction:
    """The experiment at its reduced size, in this process, seen to keep the promises of all experiments."""
    found = reproduce(name, Setting(quick=True, seeds=seeds, processes=1, **more))
    said = found.findings
    assert said.rows
    assert said.constants
    assert said.remark
    assert said.stands_in
    assert all(math.isfinite(row.ours.value) for row in said.rows)
    assert len({len(column) for column in said.data.values()}) == 1
    assert all(row.against for row in said.rows if row.difference is not None)
    lines = findings.text_lines(found)
    assert any(line.startswith("QUICK") for line in lines)
    assert not any(line.startswith("  holds") for line in lines)
    figure = Figure(figsize=said.size)
    said.draw(figure)
    assert figure.axes
    return found


def ours(found: findings.Reproduction, case: str, quantity: str) -> float:
    """Our number of one row."""
    return next(r.ours.value for r in found.findings.rows if r.case == case and r.quantity == quantity)
