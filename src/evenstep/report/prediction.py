"""The results of an evaluation of predictors: a table, JSON, and a page with reliability curves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from html import escape
from typing import Any

import numpy as np

from evenstep.measure.metrics import known
from evenstep.predict.evaluation import Evaluation, Score
from evenstep.report.html import charts_in, document, made_by, table
from evenstep.report.svg import Board, Scale, series_of
from evenstep.report.tables import aligned
from evenstep.wording import counted

#: Heading of each column of the table, and the text of a score in it; a dash for a measure without a value.
_COLUMNS: tuple[tuple[str, Callable[[Score], str]], ...] = (
    ("predictor", lambda score: score.predictor),
    ("H", lambda score: str(score.horizon)),
    ("predictions", lambda score: f"{score.predictions:,}"),
    ("left within H", lambda score: f"{score.leaves_share:.1%}"),
    ("AUC", lambda score: _number(score.auc, ".3f")),
    ("Brier", lambda score: f"{score.brier:.3f}"),
    ("MAE steps", lambda score: _number(score.mae_steps, ".1f")),
    ("past gate", lambda score: f"{score.gate_share:.1%}"),
    ("too short", lambda score: f"{score.too_short:,}"),
    ("in 10-90 %", lambda score: _number(score.coverage_10_90, ".1%")),
)
HEADINGS = tuple(heading for heading, _ in _COLUMNS)


def cells(score: Score) -> list[str]:
    """One row of the table, a text under each of `HEADINGS`."""
    return [text(score) for _, text in _COLUMNS]


def text_lines(found: Evaluation) -> list[str]:
    """The evaluation for a terminal: `sentence`, headings, a line for each predictor and horizon, and the notes."""
    lines = aligned([HEADINGS, *(cells(score) for score in found.scores)])
    return [sentence(found), "", *lines, "", *(f"note: {note}" for note in found.notes)]


def sentence(found: Evaluation) -> str:
    """A sentence: predictors learned from the first so many requests of the trace, and are judged on so many later ones."""
    first = counted(found.trained, "request")
    return f"{found.trace}: learned from the first {first}, judged on the {found.judged:,} after them."


def json_object(found: Evaluation) -> dict[str, Any]:
    """A JSON-ready dict; ``scores`` is a list with one dict for each pair of predictor and horizon. None = no value."""
    return {
        "trace": found.trace,
        "trained": found.trained,
        "judged": found.judged,
        "scores": [_score_object(score) for score in found.scores],
        "notes": list(found.notes),
    }


def page(found: Evaluation, command: str) -> str:
    """An HTML page, as text, that loads nothing: the table, and for each horizon a chart of how reliable predictors are."""
    title = f"Predictors on {found.trace}"
    number = series_of(score.predictor for score in found.scores)
    charts = [_reliability(found, horizon, number) for horizon in dict.fromkeys(score.horizon for score in found.scores)]
    parts = [
        f'<h1>{escape(title)}</h1><p class="sub">{escape(sentence(found))}</p>',
        table([(name, "") for name in HEADINGS], ([*map(escape, cells(score))] for score in found.scores)),
        *charts_in({"Reliability": charts}, number),
        *made_by(command, {}, found.notes),
    ]
    return document(title, parts)


def _reliability(found: Evaluation, horizon: int, number: Mapping[str, int]) -> tuple[str, str, str]:
    """Title, SVG and caption of one horizon's chart: share of requests that left, over the predicted chance to leave.

    `number`: predictor -> number of its colour.
    """
    board = Board(Scale(0.0, 1.0), Scale(0.0, 1.0), label=f"reliability at H = {horizon}")
    board.axes("told chance to leave within H", "share that left")
    diagonal = np.array([0.0, 1.0])
    board.line(diagonal, diagonal, 0, "grid")
    for score in (s for s in found.scores if s.horizon == horizon):
        own, (mean, share, count) = number[score.predictor], score.reliability
        known = np.isfinite(mean)
        board.line(mean[known], share[known], own)
        for told, left, many in zip(mean[known], share[known], count[known], strict=True):
            title = f"{score.predictor}: told {told:.1%}, left {left:.1%}, {counted(int(many), 'prediction')}"
            board.dot(told, left, own, np.nan, np.nan, title)
    return f"H = {horizon}", board.svg(), "On the diagonal as many leave as was told. A dot's tooltip has its predictions."


def _score_object(score: Score) -> dict[str, Any]:
    """The fields of a score as a JSON-ready dict; its reliability is a list with a dict for each bin."""
    bins = [
        {"told": known(float(told)), "left": known(float(left)), "predictions": int(count)}
        for told, left, count in score.reliability.T
    ]
    return {name: getattr(score, name) for name in Score.__slots__} | {"reliability": bins}


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)
