from __future__ import annotations

import dataclasses
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from tests.measure.small_cluster import small_run
from tests.measure.test_comparison import replicates

from evenstep.measure.comparison import compare_runs
from evenstep.report import plots
from evenstep.report.svg import series_of


def runs(requests=60, workers=3):
    random = np.random.default_rng(1)
    prompts, outputs = random.integers(1, 90, requests).tolist(), random.integers(1, 30, requests).tolist()
    return {
        "fcfs": small_run(prompts, outputs, workers=workers, slots=2),
        "even": small_run(prompts, outputs, workers=workers, slots=2, even=True, policy="even"),
    }


CHARTS = [
    plots.envelope_over_time,
    plots.idle_over_time,
    plots.power_over_time,
    plots.imbalance_distribution,
    plots.tpot_distribution,
]


@pytest.mark.filterwarnings("error")
def test_steps_that_take_no_time_have_no_power():
    """The report of a law without seconds warned of an all-nan slice, and drew an empty chart."""
    found = runs()
    for run in found.values():
        run.steps.duration_s[:] = 0.0
    assert plots.power_over_time(found) == ""


@pytest.mark.parametrize("chart", CHARTS)
def test_every_policy_has_a_line_and_the_svg_is_well_formed(chart):
    root = ET.fromstring(chart(runs()))
    lines = [p.attrib["class"] for p in root.iter("path") if p.attrib["class"].startswith("line")]
    assert lines == [f"line c{number}" for number in series_of(["fcfs", "even"]).values()]


@pytest.mark.parametrize("chart", CHARTS)
def test_without_records_there_is_no_chart(chart):
    bare = {name: dataclasses.replace(r, steps=None, requests=None) for name, r in runs().items()}
    assert chart(bare) == ""


@pytest.mark.parametrize("chart", CHARTS)
def test_lines_are_thinned(chart):
    long = {"fcfs": small_run([5] * 1500, [1] * 1500, slots=2, workers=1)}
    points = max(len(re.findall("[ML]", p)) for p in re.findall(r'class="line c0" d="([^"]*)"', chart(long)))
    assert 1 <= points <= plots.POINTS


def test_a_run_of_one_step_is_drawn():
    one = {"fcfs": small_run([5], [1])}
    for chart in CHARTS:
        ET.fromstring(chart(one))
    assert plots.load_bands(one)


def test_stretches_keep_the_mean():
    steps = runs()["fcfs"].steps
    start, mean = plots._over_time(steps, steps.envelope)
    assert start[0] == 0.0
    assert start.size == steps.rows
    assert mean.tolist() == steps.envelope.tolist()
    many = small_run([5] * 900, [1] * 900, slots=1, workers=1).steps
    start, mean = plots._over_time(many, np.arange(many.rows, dtype=float))
    assert start.size == plots.POINTS
    assert mean.tolist() == [3 * i + 1 for i in range(300)]


def test_load_bands_share_their_axes_and_draw_every_worker():
    bands = plots.load_bands(runs())
    assert list(bands) == ["fcfs", "even"]
    for svg in bands.values():
        assert svg.count('class="thin') == 3
        assert svg.count('class="area') == 1
    figures = [re.findall(r'text-anchor="end">([^<]*)<', svg) for svg in bands.values()]
    assert figures[0] == figures[1]


def test_a_large_fleet_draws_some_workers_and_the_band_of_all():
    table = runs(workers=40)
    svg = plots.load_bands(table)["fcfs"]
    assert svg.count('class="thin') == plots.WORKER_LINES


def test_many_policies_share_the_lines_of_workers():
    one = runs(workers=40)["fcfs"]
    bands = plots.load_bands({f"p{number}": one for number in range(100)})
    assert len(bands) == 100
    assert sum(svg.count('class="thin') for svg in bands.values()) == 300 <= plots.ALL_WORKER_LINES
    assert all(svg.count('class="area') == 1 for svg in bands.values())


def test_a_policy_without_samples_is_left_out_and_colours_stay():
    found = runs()
    found["fcfs"] = dataclasses.replace(found["fcfs"], workers=None)
    bands = plots.load_bands(found)
    assert list(bands) == ["even"]
    assert f"area c{series_of(found)['even']}" in bands["even"]


def test_the_order_of_policies_changes_no_colour():
    forth, back = runs(), dict(reversed(runs().items()))
    for chart in CHARTS:
        paths = [re.findall(r'class="(line c\d)" d="([^"]*)"', chart(each)) for each in (forth, back)]
        assert sorted(paths[0]) == sorted(paths[1]) and len(paths[0]) == 2


def test_waits_have_a_bar_a_policy_and_fifth_with_its_figures():
    fifths = {name: run.summary["waits_by_prompt_fifth"] for name, run in runs().items()}
    svg = plots.waits_by_size(fifths, "mean_wait_s", "mean wait, s")
    assert svg.count("<rect") == 2 * len(fifths["fcfs"]) == 10
    assert f"{fifths['fcfs'][0]['requests']} requests" in svg
    assert plots.waits_by_size({"fcfs": []}, "mean_wait_s", "mean wait, s") == ""
    assert plots.waits_by_size({}, "mean_wait_s", "mean wait, s") == ""


def test_energy_has_a_bar_a_policy_and_accounting():
    comparison = compare_runs([replicates("fcfs"), replicates("even", even=True)])
    assert plots.energy(comparison).count("<rect") == 4


def test_the_imbalance_of_the_drain_is_not_in_the_distribution():
    run = small_run([5, 2] * 12 + [9], [1] * 24 + [30], workers=2, slots=1)  # 3 tokens, then 9 to 38 in the drain
    svg = plots.imbalance_distribution({"fcfs": run})
    figures = [float(t) for t in re.findall(r'text-anchor="middle">([\d.]+)<', svg)]
    assert figures
    assert max(figures) <= 4


def test_what_is_lost_over_time_is_what_the_headline_is_the_mean_of():
    run = small_run([5, 2, 9, 4] * 6, [3, 1, 2, 4] * 6, workers=2, slots=2)
    first, last = run.summary["window"]["first_step"], run.summary["window"]["last_step"]
    lost = plots.idle_of(run.steps, run.conditions)[first : last + 1]
    assert lost.mean() == pytest.approx(run.summary["idle_time_share"])
    assert run.summary["idle_time_share"] < run.summary["idle_share"]
