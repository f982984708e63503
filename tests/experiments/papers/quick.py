"""One quick run of an experiment and what every experiment promises."""

from __future__ import annotations

import math
from dataclasses import replace

import orjson
from matplotlib.figure import Figure

from evenstep.experiments.reproduce import Setting, reproduce
from evenstep.experiments.vocabulary import mean_text, within
from evenstep.measure.comparison import Interval
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
    assert all(claim["holds"] is None for claim in findings.json_object(found)["claims"])
    assert orjson.dumps(findings.json_object(replace(found, quick=False))), "at full size it is written with its verdicts"
    figure = Figure(figsize=said.size)
    said.draw(figure)
    assert figure.axes
    return found


def ours(found: findings.Reproduction, case: str, quantity: str) -> float:
    """Our number of one row."""
    return interval(found, case, quantity).value


def interval(found: findings.Reproduction, case: str, quantity: str) -> Interval:
    """Our number of one row with its interval over the replicates."""
    return next(r.ours for r in found.findings.rows if r.case == case and r.quantity == quantity)


def lies_within(found: findings.Reproduction, case: str, quantity: str, low: float, high: float) -> None:
    """The whole interval of one row lies in a range."""
    one = interval(found, case, quantity)
    assert within(one, low, high), f"{case}, {quantity}: {mean_text(one)}, expected {low:g} to {high:g}"


def apart(found: findings.Reproduction, case: str, quantity: str) -> Interval:
    """The difference of one row to the case it is compared with."""
    row = next(r for r in found.findings.rows if r.case == case and r.quantity == quantity)
    assert row.difference is not None
    return row.difference
