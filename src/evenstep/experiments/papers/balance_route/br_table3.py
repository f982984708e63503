"""BalanceRoute Table 3: accuracy of the two predictors, stage 1 and stage 2."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evenstep.experiments import vocabulary as ex
from evenstep.experiments.papers._heavy import RECURRING_LINE
from evenstep.experiments.papers.balance_route import _balance_route as br
from evenstep.predict.evaluation import evaluate
from evenstep.request import Trace
from evenstep.workload.replicate import replicate

PREDICTORS = ("survival", "memorised")
HORIZONS = (20, 40, 80)
#: Stage-1 AUC and stage-2 MAE of Table 3.
PAPER = {
    (br.NEAR_CAP, "survival"): (0.993, 5.4),
    (br.NEAR_CAP, "memorised"): (0.995, 5.4),
    (br.HEAVY, "survival"): (0.700, 20.1),
    (br.HEAVY, "memorised"): (0.974, 2.9),
}
REFRESH, GATE = 16, 0.5

SCORES = ("auc", "brier", "mae", "accepted")
#: Values of `SCORES`, one a replicate.
Scores = dict[str, list[float]]


@ex.experiment("accuracy of survival and memorised prediction", "BalanceRoute Table 3, App. C.3")
def experiment(setting: ex.Setting) -> ex.Findings:
    count = setting.pick(6_000, 500)
    horizons: Sequence[int] = setting.pick(HORIZONS, (40,))
    found: dict[tuple[str, str, int], Scores] = {}
    stands_in: list[str] = []
    for kind in br.kinds(setting):
        source, _, told = br.workload(setting, kind, count, workers=8)
        stands_in.append(told)
        traces = [replicate(source, number, setting.seed) for number in range(setting.replicates)]
        for predictor in PREDICTORS:
            judged = [_judged(trace, predictor, horizons) for trace in traces]
            for h in horizons:
                found[kind, predictor, h] = {name: [own[h][name] for own in judged] for name in SCORES}
    columns = {name: {key: own[name] for key, own in found.items()} for name in SCORES}
    return ex.Findings(
        **ex.told(_told(found)),
        constants=ex.constants(f"""
            H | {ex.listed(horizons)} | lost from the text, and AUC and MAE hang on it: each row has the paper's number
            parts | the first half of the requests is learned, the second asked about | time-disjoint; the paper's split
              is not given
            ages asked | 0, {REFRESH}, {2 * REFRESH}, ... of each request | its tau; every refresh counts alike
            gate | {GATE} | the paper's theta
            requests | {count} | not given; a trace file's own rows where one is given
            {RECURRING_LINE}
        """),
        remark="AUC and MAE hang on H, on how often prompts return and on how far outputs of one prompt spread (here 300 "
        "prompts, ±3 tokens), none of which the paper's text still gives; without prompt keys, as near the cap, memorised "
        "goes by prompt length or falls back",
        stands_in="; ".join(dict.fromkeys(stands_in)),
        data=ex.long_values(columns["auc"], ("workload", "predictor", "horizon"), "auc")
        | {name: ex.flat(column) for name, column in columns.items()},
        draw=lambda figure: _draw(figure, found, horizons),
        size=(9, 3.9),
    )


def _judged(trace: Trace, predictor: str, horizons: Sequence[int]) -> dict[int, dict[str, float]]:
    """Scores by horizon, then by `SCORES`, of a predictor that learned the trace's first half; nan for no value."""
    scores = evaluate(trace, [predictor], horizons).scores
    by_name = (
        (one.horizon, zip(SCORES, (one.auc, one.brier, one.mae_steps, one.gate_share), strict=True)) for one in scores
    )
    return {h: {name: float("nan") if value is None else value for name, value in own} for h, own in by_name}


def _told(found: Mapping[tuple[str, str, int], Scores]) -> ex.Told:
    for (kind, predictor, horizon), scores in found.items():
        auc, mae = PAPER.get((kind, predictor), (None, None))
        case = f"{kind}, {predictor}, H = {horizon}"
        yield ex.row(case, "stage-1 AUC", "", scores["auc"], auc)
        yield ex.row(case, "stage-2 MAE", "tokens", scores["mae"], mae)
        yield ex.row(case, "stage-1 Brier score", "", scores["brier"])
        yield ex.row(case, "refreshes above the gate", "%", [100 * share for share in scores["accepted"]])
    for kind, horizon in dict.fromkeys((kind, horizon) for kind, _, horizon in found):
        survival, memorised = (found[kind, predictor, horizon] for predictor in PREDICTORS)
        for score, sign, says, seen in (
            ("auc", +1, "ranks no worse", "AUC {}"),
            ("mae", -1, "errs no more", "MAE {} tokens"),
        ):
            apart = ex.paired_difference(memorised[score], survival[score])
            holds = True if apart.value == 0 else ex.clearly(apart, sign)  # equal means are no worse
            said = f"{kind}, H = {horizon}: memorised {says} than survival"
            yield ex.Claim(said, holds, seen.format(ex.mean_text(apart)))


def _draw(figure: ex.Figure, found: dict[tuple[str, str, int], Scores], horizons: Sequence[int]) -> None:
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
