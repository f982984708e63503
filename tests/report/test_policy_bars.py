from __future__ import annotations

import re
from dataclasses import replace
from importlib.resources import files

import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from tests.measure.test_comparison import replicates

from evenstep.errors import InputError
from evenstep.measure.comparison import compare_runs
from evenstep.report.policy_bars import bars_of, draw_bars, means_of
from evenstep.report.svg import LIGHT, series_of


def comparison():
    return compare_runs([replicates("fcfs"), replicates("even", even=True)])


def test_every_policy_has_a_bar_of_its_mean_in_its_colour():
    found = comparison()
    axes = Figure().subplots()
    draw_bars(axes, found, "idle_share")
    names = [result.policy for result in found.policies]
    assert [bar.get_width() for bar in axes.patches] == pytest.approx(
        [100 * result.mean("idle_share") for result in found.policies]
    )
    assert [to_hex(bar.get_facecolor()) for bar in axes.patches] == [LIGHT[n] for n in series_of(names).values()]
    assert [label.get_text() for label in axes.get_yticklabels()] == names


def test_a_share_of_the_objective_is_in_per_cent_with_its_heading():
    rows = [replicates("fcfs"), replicates("even", even=True)]
    met = [[replace(run, measured=lambda run=run: {**run.summary, "slo_share": 0.25}) for run in runs] for runs in rows]
    axes = Figure().subplots()
    draw_bars(axes, compare_runs(met), "slo_share")
    assert [bar.get_width() for bar in axes.patches] == [25.0, 25.0]
    assert axes.get_xlabel() == "SLO met, %"


def test_a_picture_shows_itself_and_is_written_as_svg_or_png(tmp_path):
    drawn = bars_of(comparison(), "makespan_s")
    assert drawn._repr_svg_() == drawn.save(tmp_path / "a.svg").read_text()
    assert drawn.save(tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(InputError, match=r"expected a name that ends in \.svg or \.png"):
        drawn.save(tmp_path / "a.pdf")


def test_a_policy_may_have_dollars_in_its_name():
    found = comparison()
    named = replace(found, policies=(replace(found.policies[0], policy="mine$x_$.py:Even"), *found.policies[1:]))
    assert "<svg" in bars_of(named, "makespan_s")._repr_svg_()


@pytest.mark.parametrize("metric", ["window", "overloaded", "idle"])
def test_what_is_no_number_is_refused(metric):
    with pytest.raises(InputError, match="metric is"):
        means_of(comparison(), metric)
    with pytest.raises(InputError, match="metric is"):
        bars_of(comparison(), metric)


def test_the_colours_are_those_of_the_style_sheet():
    style = files("evenstep.report").joinpath("report.css").read_text(encoding="utf-8")
    assert tuple(re.findall(r"--c\d: (#\w+)", style)[:8]) == LIGHT
