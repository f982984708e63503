"""BF-IO's improvement ratio against batch size B and workers G on chat-like lengths, outside the theorems' settings."""

from __future__ import annotations

import math
from collections.abc import Mapping

from evenstep.experiments import vocabulary as ex
from evenstep.experiments.papers.bf_io import _bf_io as bf

SLOTS = (9, 18, 36, 72, 144)
WORKERS = (4, 8, 16, 32, 64)
POLICIES = {bf.FCFS: bf.POLICIES[bf.FCFS], bf.BF0: bf.POLICIES[bf.BF0]}
#: Sweeps, each with the quantity under the theorems' square root.
ALONG = {"B": "B", "G, pool grows": "log G", "G, pool fixed": "log G"}
#: Requests in the pool for each worker, where the pool grows with them.
POOL = 8
_FIELDS = (bf.IMBALANCE, "idle_share", "overloaded_steps", "steps")

Line = Mapping[int, ex.Runs]


@ex.experiment("improvement ratio against B and G", "BF-IO Theorems 1 and 2, outside their settings")
def experiment(setting: ex.Setting) -> ex.Findings:
    g, b = setting.pick((16, 72), (4, 9))
    turns = setting.pick(9, 8)
    fixed = POOL * g
    sweeps: dict[str, list[tuple[int, int, int, int]]] = {  # x, workers, slots, pool
        "B": [(x, g, x, fixed) for x in setting.pick(SLOTS, (6, 12))],
        "G, pool grows": [(x, x, b, POOL * x) for x in setting.pick(WORKERS, (2, 4))],
        "G, pool fixed": [(x, x, b, fixed) for x in setting.pick(WORKERS, (2, 4))],
    }
    runs, stands_in = ex.parted(
        {
            (sweep, x): bf.run_on(setting, bf.fleet(workers, slots, pool), turns * workers * slots, POLICIES)
            for sweep, points in sweeps.items()
            for x, workers, slots, pool in points
        }
    )
    lines = {sweep: {x: own for (of, x), own in runs.items() if of == sweep} for sweep in sweeps}
    shared = bf.constants(bf.fleet(g, b, fixed), turns * g * b)
    slopes = {sweep: _exponent(line, sweep) for sweep, line in lines.items()}
    return ex.Findings(
        **ex.told(_told(runs, slopes)),
        constants=[c for c in shared if c.name not in ("requests", "R (pool)", "JSQ ties", "prediction")]
        + ex.constants(f"""
            requests | {turns} G B | so that every point turns its slots over as often
            pool | {fixed}, or {POOL} G where it grows | the theorems assume a pool that always fills every free slot
            outputs | those of the workload | Theorem 2 assumes geometric ones, Theorem 1 equal ones
        """),
        remark="the theorems bound the ratio from below, in order of growth and over adversarial arrivals, in the settings "
        f"of `bfio-theorems`; on this workload it grows like B to the {slopes['B'].value:.2f}, and like log G to the "
        f"{slopes['G, pool grows'].value:.2f} (pool grows) or {slopes['G, pool fixed'].value:.2f} (pool fixed)",
        stands_in=stands_in,
        data=ex.joined([ex.long_table(own, _FIELDS, sweep=sweep, x=x) for (sweep, x), own in runs.items()]),
        draw=lambda figure: _draw(figure, lines),
        size=(10.5, 3.8),
    )


def _scale(sweep: str, x: int) -> float:
    """The quantity under the theorems' square root in this sweep: B or log G."""
    return float(x) if sweep == "B" else math.log(x)


def _exponent(line: Line, sweep: str) -> ex.Interval:
    """The exponent of the gain: slope of log gain over log B or log log G, mean over replicates with its interval."""
    kept = [x for x in line if _scale(sweep, x) > 0]
    gains = [ex.quotients(*ex.pair(line[x], bf.FCFS, bf.BF0, bf.IMBALANCE)) for x in kept]
    return ex.mean_interval(ex.slopes([_scale(sweep, x) for x in kept], gains))


def _told(runs: Mapping[tuple[str, int], ex.Runs], slopes: Mapping[str, ex.Interval]) -> ex.Told:
    for (sweep, x), own in runs.items():
        yield ex.Row(f"{sweep}: {x}", "imbalance of FCFS over BF-IO(0)", "times", None, bf.gain(own))
    for sweep, slope in slopes.items():
        yield ex.Row(sweep, f"exponent of the gain in {ALONG[sweep]}", "", 0.5, slope)
        along = "B" if sweep == "B" else f"log G ({sweep.partition(', ')[2]})"
        said = (
            f"outside the theorems' settings: the gain of BF-IO(0) over FCFS grows at least like the square root of {along}"
        )
        yield ex.Claim(said, bf.reaches(slope, 0.5), f"exponent {ex.mean_text(slope)}")


def _draw(figure: ex.Figure, lines: Mapping[str, Line]) -> None:
    panels = figure.subplots(1, len(lines), sharey=True)
    for axes, colour, (sweep, line) in zip(panels, ex.COLOURS, lines.items(), strict=False):
        x = list(line)
        gains = [bf.gain(runs) for runs in line.values()]
        ex.band_line(axes, x, gains, "ours", colour)
        middle = len(x) // 2
        shape = [gains[middle].value * math.sqrt(_scale(sweep, v) / _scale(sweep, x[middle])) for v in x]
        axes.plot(x, shape, ls=":", color="#777777", label=f"sqrt({ALONG[sweep]})")
        axes.set_xscale("log", base=2)
        axes.set_xticks(x, x)
        axes.set_ylim(bottom=0)
        ex.labelled(axes, "slots a worker B" if sweep == "B" else "workers G", "", sweep, legend=True)
    panels[0].set_ylabel("imbalance of FCFS over BF-IO(0)")
