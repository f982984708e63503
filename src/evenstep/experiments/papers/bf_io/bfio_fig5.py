"""BF-IO Fig. 5: output laws of traces, each with a geometric fit and its error."""

from __future__ import annotations

from typing import Any

import numpy as np

from evenstep import streams
from evenstep.experiments import vocabulary as ex
from evenstep.request import F8, I8, Trace
from evenstep.workload.reading import samples
from evenstep.workload.sources import open_source

#: Largest gap between the two distributions that we still call a good fit.
GOOD = 0.05
#: Resamples for an interval.
RESAMPLES = 200
#: Names of `_figures`, with units.
QUANTITIES = (
    ("largest gap to the geometric law", ""),
    ("deviation over mean (geometric: 1)", ""),
    ("mean output, 1/p of the fit", "tokens"),
)


@ex.experiment("output laws with a geometric fit", "BF-IO Fig. 5", most_traces=1000)
def experiment(setting: ex.Setting) -> ex.Findings:
    lengths: dict[str, I8] = {}
    for path in setting.traces or tuple(f"sample:{name}" for name in samples()):
        source = open_source(path, prefix_blocks=False, seed=setting.seed).source
        trace = source if isinstance(source, Trace) else source.draw(setting.seed)
        lengths[path] = np.sort(trace.output_tokens)
    found = {path: _resampled(values, setting.seed, setting.pick(RESAMPLES, 40)) for path, values in lengths.items()}
    good = [path for path, (gap, *_) in found.items() if gap.value <= GOOD]
    spread = [own.value for _, own, _ in found.values()]
    narrow, wide = [x for x in spread if x < 0.9], [x for x in spread if x > 1.1]
    curves = {path: (own, _geometric(own, 1 / own.mean())) for path, own in lengths.items()}
    return ex.Findings(
        **ex.told(*(_told(path, own) for path, own in found.items())),
        constants=ex.constants(f"""
            fit | p = 1 / mean output | the paper names no method; this is the greatest likelihood
            good fit | largest gap <= {GOOD} | the paper gives no measure; a formal test would reject every trace of this
              size
            resamples | {setting.pick(RESAMPLES, 40)} | rows drawn anew, for the intervals
        """),
        remark=f"the paper shows pictures without a measure of fit; by ours {len(good)} of {len(lengths)} traces are close "
        f"to a geometric law, {len(narrow)} are more even than it (deviation below 0.9 of the mean) and {len(wide)} have a "
        "heavier tail (above 1.1)",
        stands_in="the traces named for those of the paper (OpenChat, BurstGPT, LMSYS-Chat-1M, WildChat and a "
        "production trace)",
        data=ex.curves(curves, "trace", ("output_tokens", "geometric_cdf")),
        draw=lambda figure: _draw(figure, lengths),
        size=(9.5, 2.6 * -(-len(lengths) // 3) + 0.6),
        intervals="± is half the range between the 2.5 % and 97.5 % points over resamples of the rows.",
    )


def _told(path: str, own: list[ex.Interval]) -> ex.Told:
    yield from (ex.Row(path, *what, None, one) for what, one in zip(QUANTITIES, own, strict=True))
    says = f"output lengths of {path} are well approximated by a geometric law"
    yield ex.limited(says, own[0], GOOD, -1, f"largest gap between the distributions {own[0].value:.3f}")


def _geometric(x: Any, p: float) -> F8:
    """P(o <= x) for an output o of the geometric law with parameter p on 1, 2, ...; x >= 0."""
    return 1.0 - np.exp(np.log1p(-p) * np.asarray(x, np.float64)) if p < 1 else np.asarray(x >= 1, np.float64)


def _gap(values: I8) -> float:
    """Largest distance between the distribution of these lengths and the geometric law with their mean."""
    points, counts = np.unique(values, return_counts=True)
    share = np.cumsum(counts) / values.size
    p = 1 / float(values.mean())
    before = np.concatenate([[0.0], share[:-1]])
    return float(max(np.abs(share - _geometric(points, p)).max(), np.abs(before - _geometric(points - 1, p)).max()))


def _resampled(values: I8, seed: int, times: int) -> list[ex.Interval]:
    """Each of `_figures`, with its 2.5 % and 97.5 % points over `times` resamples as interval."""
    places = (streams.uniform(seed, "resample", np.arange(values.size), draw=number) for number in range(times))
    drawn = [_figures(values[(one * values.size).astype(np.int64)]) for one in places]
    ends = np.quantile(drawn, [0.025, 0.975], axis=0).T.tolist()
    return [ex.Interval(own, *end) for own, end in zip(_figures(values), ends, strict=True)]


def _figures(values: I8) -> tuple[float, float, float]:
    """(gap to the geometric law, standard deviation over mean, mean) of lengths."""
    mean = float(values.mean())
    return _gap(values), float(values.std()) / mean, mean


def _draw(figure: ex.Figure, lengths: dict[str, I8]) -> None:
    across = min(3, len(lengths))
    for place, (path, values) in enumerate(lengths.items(), 1):
        axes = figure.add_subplot(-(-len(lengths) // across), across, place)
        top = float(np.quantile(values, 0.995))
        axes.hist(values[values <= top], bins=60, density=True, color=ex.COLOURS[0], alpha=0.45, label="trace")
        x = np.linspace(1, top, 200)
        p = 1 / float(values.mean())
        axes.plot(x, p * (1 - _geometric(x - 1, p)), color=ex.COLOURS[1], label="geometric fit")
        axes.set(title=f"{path.removeprefix('sample:')}, gap {_gap(values):.2f}", xlabel="output tokens", yticks=[])
        if place == 1:
            axes.legend(frameon=False)
