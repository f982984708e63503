"""Throughput-optimal Fig. 4: batch time is piecewise linear in the token load."""

from __future__ import annotations

import numpy as np

from evenstep.cost.fitting import Fit, fit_laws
from evenstep.experiments import vocabulary as ex
from evenstep.experiments.papers import _profiles as profiles
from evenstep.request import F8

#: R^2 of the paper: above it for every model.
PAPER = 0.985
LOADS = (16, 32, 64, 96, *range(128, 1025, 64))

Points = tuple[F8, F8]


@ex.experiment("piecewise linear batch time", "Throughput-optimal Fig. 4", most_traces=0)
def experiment(setting: ex.Setting) -> ex.Findings:
    loads = setting.pick(LOADS, LOADS[::6])
    tokens = np.array(loads, np.float64)
    fits: dict[str, list[Fit]] = {}
    points: dict[str, Points] = {}
    every: dict[str, list[float]] = {}
    until_s, replicates = setting.pick(20.0, 4.0), range(setting.replicates)
    for name in profiles.shown(setting):
        tables = [[profiles.full_seconds(setting, name, number, load, until_s) for load in loads] for number in replicates]
        means = [np.array([seconds.mean() for seconds in table]) for table in tables]
        fits[name], points[name] = [_fit(tokens, mean) for mean in means], (tokens, means[0])
        singles = [_fit(np.repeat(tokens, [s.size for s in table]), np.concatenate(table)) for table in tables]
        every[name] = [fit.r_squared for fit in singles]
    return ex.Findings(
        **ex.told(*(_told(name, own, every[name]) for name, own in fits.items())),
        constants=profiles.constants(setting)
        + ex.constants(f"""
            token loads | {loads[0]} to {loads[-1]} | the axis of the paper's figure
            points of the fit | the mean time at each load | as the figure shows; the row 'single batches' fits every
              iteration
            b0 | the best of those tried | the paper does not say how it was found
        """),
        remark="c, a and b0 are of other GPUs and models than the paper's. The mean time at each load is as linear as the "
        "paper says; single batches of one load differ by their contexts, and the flat piece up to b0 is short or missing: "
        "attention of the decodes grows from the first token on",
        stands_in=profiles.STANDS_IN,
        data=ex.curves(
            {name: (*own, fits[name][0].seconds) for name, own in points.items()}, "profile", ("tokens", "seconds", "fitted")
        ),
        draw=lambda figure: _draw(figure, points, fits),
        size=(9, 4),
    )


def _fit(tokens: F8, seconds: F8) -> Fit:
    return fit_laws({"tokens": tokens, "seconds": seconds}).fits[0]


def _told(name: str, fits: list[Fit], every: list[float]) -> ex.Told:
    explained = [fit.r_squared for fit in fits]
    yield ex.row(name, "R^2, mean at each load", "", explained, f"> {PAPER}")
    yield ex.row(name, "R^2, single batches", "", every)
    yield ex.row(name, "c", "ms", [1e3 * fit.options["c_s"] for fit in fits])
    yield ex.row(name, "a", "us a token", [1e6 * fit.options["a_s"] for fit in fits])
    yield ex.row(name, "b0", "tokens", [fit.options["b0"] for fit in fits])
    says = f"{name}: the piecewise linear fit explains more than {PAPER} of the variation of batch times"
    yield ex.Claim(says, min(explained) > PAPER, f"R^2 {min(explained):.4f}")


def _draw(figure: ex.Figure, points: dict[str, Points], fits: dict[str, list[Fit]]) -> None:
    axes = figure.add_subplot(1, 1, 1)
    for k, (name, (tokens, seconds)) in enumerate(points.items()):
        axes.plot(tokens, seconds * 1e3, "o", markersize=3, color=ex.COLOURS[k])
        label = f"{name}: R^2 {fits[name][0].r_squared:.4f}"
        axes.plot(tokens, fits[name][0].seconds * 1e3, color=ex.COLOURS[k], label=label)
    axes.set(xlabel="token load", ylabel="batch time, ms", ylim=(0, None))
    axes.legend(frameon=False)
