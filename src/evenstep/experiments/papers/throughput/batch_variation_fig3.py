"""Throughput-optimal Fig. 3: how much batch times vary at a fixed token load, by token budget and model."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np

from evenstep.experiments import vocabulary as ex
from evenstep.experiments.papers import _profiles as profiles

BUDGETS = (128, 256, 512, 1024, 2048)
#: Coefficient of variation that we still call small.
SMALL = 0.2


@ex.experiment("variation of batch time at a fixed token load", "Throughput-optimal Fig. 3", most_traces=0)
def experiment(setting: ex.Setting) -> ex.Findings:
    budgets: tuple[int, ...] = setting.pick(BUDGETS, (512,))
    found: dict[tuple[str, int], tuple[list[float], list[float]]] = {}
    until_s, replicates = setting.pick(120.0, 20.0), range(setting.replicates)
    for name, budget in itertools.product(profiles.shown(setting), budgets):
        every = [profiles.full_seconds(setting, name, number, budget, until_s) for number in replicates]
        found[name, budget] = [float(s.mean()) for s in every], [float(s.std() / s.mean()) for s in every]
    variation = {key: ex.mean_interval(spreads) for key, (_, spreads) in found.items()}
    curves = {key: [[float(np.mean(own))] for own in both] for key, both in found.items()}
    return ex.Findings(
        **ex.told(_told(found, profiles.shown(setting), budgets)),
        constants=profiles.constants(setting)
        + ex.constants(f"small | coefficient of variation <= {SMALL} | the paper prints none, its figure shows bars"),
        remark="the laws know no noise: this is the variation that batches of other contents have, measured kernels' own "
        "comes on top; contexts grow while a run goes on, and with them the time at the same token load",
        stands_in=profiles.STANDS_IN,
        data=ex.curves(curves, ("profile", "budget"), ("mean_s", "variation")),
        draw=lambda figure: _draw(figure, variation, profiles.shown(setting), budgets),
        size=(7, 4),
    )


def _told(found: Mapping[tuple[str, int], tuple[list[float], list[float]]], names: list[str], budgets: Any) -> ex.Told:
    for (name, budget), (means, spreads) in found.items():
        yield ex.row(f"{name}, budget {budget}", "batch time at full load", "ms", [1e3 * m for m in means])
        yield ex.row(f"{name}, budget {budget}", "coefficient of variation", "", spreads)
    every = {name: [ex.mean_interval(found[name, budget][1]) for budget in budgets] for name in names}
    worst = {name: max(own, key=lambda one: one.value) for name, own in every.items()}
    alike = [name for name in names if name.endswith("RTX PRO 6000")]
    ordered = sorted(alike, key=lambda name: profiles.ACTIVE[name])
    averages = [np.mean([found[name, budget][1] for budget in budgets], axis=0).tolist() for name in ordered]
    steps = [ex.paired_difference(larger, smaller) for smaller, larger in itertools.pairwise(averages)]
    means = dict(zip(ordered, map(ex.mean_interval, averages), strict=True))
    most, by_size = (ex.listed(f"{name} {ex.mean_text(one)}" for name, one in own.items()) for own in (worst, means))
    small = ex.all_of([ex.within(one, 0.0, SMALL) for own in every.values() for one in own])
    less = ex.all_of([ex.clearly(one, -1) for one in steps]) if steps else None
    says = "batch time varies little at a fixed token load"
    yield ex.Claim(says, small, f"largest coefficient of variation of any budget: {most}")
    seen = f"mean over budgets on RTX PRO 6000, by active parameters: {by_size}"
    yield ex.Claim("it varies less on larger models", less, seen)


def _draw(figure: ex.Figure, variation: dict[tuple[str, int], ex.Interval], names: list[str], budgets: Any) -> None:
    axes = figure.add_subplot(1, 1, 1)
    ex.bands(axes, {name: (budgets, [variation[name, budget] for budget in budgets]) for name in names})
    axes.set_xscale("log", base=2)
    axes.set(ylim=(0, None), xlabel="token budget, full", ylabel="coefficient of variation of the batch time")
    axes.legend(frameon=False)
