"""BalanceRoute Table 3: accuracy of the two predictors, stage 1 and stage 2."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evenstep.experiments import vocabulary as ex
from evenstep.experiments.papers._heavy import STEP_TIME, heavy, heavy_constant, near_cap
from evenstep.experiments.papers.balance_route import _balance_route as br
from evenstep.predict.evaluation import evaluate
from evenstep.request import Trace
from evenstep.workload.replicate import replicate

PREDICTORS = {"survival": "survival", "memorised": "memorised"}
HORIZONS = (20, 40, 80)
#: Stage-1 AUC and stage-2 MAE of Table 3.
PAPER = {
    (br.NEAR_CAP, "survival"): (0.993, 5.4),
    (br.NEAR_CAP, "memorised"): (0.995, 5.4),
    (br.HEAVY, "survival"): (0.700, 20.1),
    (br.HEAVY, "memorised"): (0.974, 2.9),
}
REFRESH, GATE = 16, 0.5

Scores = dict[str, list[float]]


def run(setting: ex.Setting) -> ex.Findings:
    count = setting.pick(6_000, 500)
    horizons: Sequence[int] = setting.pick(HORIZONS, (40,))
    found: dict[tuple[str, str, int], Scores] = {}
    stands_in: list[str] = []
    for kind in br.kinds(setting):
        default = near_cap(count) if kind == br.NEAR_CAP else heavy(count, recurring=True)
        source, told = ex.workload(setting, default, br.MISSING[kind], br.fleet(8), STEP_TIME)
        stands_in.append(told)
        for number in range(setting.replicates):
            trace = replicate(source, number, setting.seed)
            for predictor in PREDICTORS:
                for horizon, scores in _judged(trace, predictor, horizons).items():
                    for name, value in scores.items():
                        found.setdefault((kind, predictor, horizon), {}).setdefault(name, []).append(value)
    return ex.Findings(
        rows=[one for key, scores in found.items() for one in _rows(key, scores)],
        claims=[claim for kind in br.kinds(setting) for claim in _claims(kind, found)],
        constants=[
            *ex.constants(f"""
                H | {ex.listed(horizons)} | lost from the text, and AUC and MAE hang on it: each row has the paper's number
                parts | the first half of the requests is learned, the second asked about | time-disjoint; the paper's split
                  is not given
                ages asked | 0, {REFRESH}, {2 * REFRESH}, ... of each request | its tau; every refresh counts alike
                gate | {GATE} | the paper's theta
                requests | {count} | not given; a trace file's own rows where one is given
            """),
            heavy_constant(recurring=True),
        ],
        remark=(
            "AUC and MAE hang on H, on how often prompts return and on how far outputs of one prompt spread (here "
            "300 prompts, ±3 tokens), none of which the paper's text still gives; without prompt keys, as near the "
            "cap, memorised goes by prompt length or falls back"
        ),
        stands_in="; ".join(dict.fromkeys(stands_in)),
        data=_data(found),
        draw=lambda figure: _draw(figure, found, horizons),
        size=(9, 3.9),
    )


def _judged(trace: Trace, predictor: str, horizons: Sequence[int]) -> dict[int, dict[str, float]]:
    """Scores by horizon of a predictor that learned the first half; nan where a score has no value."""
    found = evaluate(trace, [predictor], horizons)
    return {
        s.horizon: {"auc": _number(s.auc), "brier": s.brier, "mae": _number(s.mae), "accepted": s.gate_share}
        for s in found.scores
    }


def _number(value: float | None) -> float:
    return float("nan") if value is None else value


def _rows(key: tuple[str, str, int], scores: Scores) -> list[ex.Row]:
    kind, predictor, horizon = key
    paper = PAPER.get((kind, predictor), (None, None))
    case = f"{kind}, {predictor}, H = {horizon}"
    shown = (
        ("auc", "stage-1 AUC", "", paper[0], 1.0),
        ("mae", "stage-2 MAE", "tokens", paper[1], 1.0),
        ("brier", "stage-1 Brier score", "", None, 1.0),
        ("accepted", "refreshes above the gate", "%", None, 100.0),
    )
    return [ex.row(case, said, unit, [f * v for v in scores[n]], number) for n, said, unit, number, f in shown]


def _claims(kind: str, found: dict[tuple[str, str, int], Scores]) -> list[ex.Claim]:
    claims: list[ex.Claim] = []
    for horizon in sorted({h for k, _, h in found if k == kind}):
        one, other = (found[kind, p, horizon] for p in ("memorised", "survival"))
        for score, sign, says, seen in (
            ("auc", +1, "ranks no worse", "AUC {}"),
            ("mae", -1, "errs no more", "MAE {} tokens"),
        ):
            apart = ex.paired_difference(one[score], other[score])
            said = f"{kind}, H = {horizon}: memorised {says} than survival"
            claims.append(ex.Claim(said, _no_worse(apart, sign), seen.format(ex.with_interval(apart))))
    return claims


def _no_worse(difference: Any, sign: int) -> bool | None:
    better = ex.clearly(difference, sign)
    return True if difference.value == 0 else better


def _data(found: dict[tuple[str, str, int], Scores]) -> dict[str, list[Any]]:
    columns = {name: {key: own[name] for key, own in found.items()} for name in ("auc", "brier", "mae", "accepted")}
    table = ex.long_values(columns["auc"], ("workload", "predictor", "horizon"), "auc")
    return {**table, **{name: ex.flat(column) for name, column in columns.items()}}


def _draw(figure: Any, found: dict[tuple[str, str, int], Scores], horizons: Sequence[int]) -> None:
    panels = figure.subplots(1, 2)
    lines = list(dict.fromkeys((kind, predictor) for kind, predictor, _ in found))
    for axes, name, place, title in zip(panels, ("auc", "mae"), (0, 1), ("stage-1 AUC", "stage-2 MAE, tokens"), strict=True):
        for colour, (kind, predictor) in zip(ex.COLOURS, lines, strict=False):
            y = [ex.mean_interval(found[kind, predictor, h][name]) for h in horizons]
            ex.band_line(axes, horizons, y, f"{kind}, {predictor}", colour)
            if (kind, predictor) in PAPER:
                axes.axhline(PAPER[kind, predictor][place], color=colour, ls=":", lw=1)
        ex.labelled(axes, "window H, steps", title=f"{title} (dotted: paper, its H is lost)")
    panels[1].set_ylim(bottom=0)
    panels[1].legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(0.0, 0.93))


experiment = ex.Experiment("accuracy of survival and memorised prediction", "BalanceRoute Table 3, App. C.3", run)
