"""Evaluates predictors on a part of a trace that they have not seen: BalanceRoute's Table 3."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenstep import names
from evenstep.errors import InputError, check_range
from evenstep.predict.gate import prediction_of
from evenstep.predict.intervals import interval
from evenstep.predict.view import NOTHING, Active, Finished, counted_of, fit_now, is_oracle
from evenstep.request import F8, I8, Trace
from evenstep.wording import counted

#: Bins of the reliability curve.
BINS = 10
_MOST = 400_000  # predictions a predictor and horizon; longer traces are thinned request by request
_MOST_STEPS = 2**44  # arrays of this many numbers fit no machine
_AT_ONCE = 20_000
_MOST_INTERVALS = 1000


@dataclass(frozen=True, slots=True, eq=False)
class Score:
    """The quality of one predictor at one horizon."""

    predictor: str  # name with options, as it was asked for
    horizon: int  # H, steps
    predictions: int  # number of judged predictions
    leaves_share: float  # share of them whose request left within H steps
    #: probability that a request that left got a higher P(r <= H) than one that did not; None without both kinds
    auc: float | None
    brier: float  # mean square of P(r <= H) less the outcome (1 = left, 0 = stayed)
    #: mean distance, in steps, of E[r | r <= H] from r where the request left; None if no request left
    mae_steps: float | None
    gate_share: float  # share of predictions that pass the predictor's gate
    too_short: int  # predictions without enough history
    #: share of sampled outputs inside their 10-90 % interval at age 0, of those that have one; None without any
    coverage_10_90: float | None
    reliability: F8  # float64[3, BINS], see `reliability`


@dataclass(frozen=True, slots=True)
class Evaluation:
    """All scores on one trace."""

    trace: str  # its name
    trained: int  # requests of the first part
    judged: int  # requests of the second part; a long one is thinned, which this number does not show
    scores: tuple[Score, ...]  # by predictor, then horizon, in the order asked
    notes: tuple[str, ...]  # sentences that limit or explain the scores


def evaluate(
    trace: Trace, predictors: Sequence[str], horizons: Sequence[int] = (20, 40, 80), *, train_share: float = 0.5
) -> Evaluation:
    """Let predictors learn from the first part of a trace, and judge them on the rest, from which they do not learn.

    Each judged request gets a prediction at age 0 and after each `refresh_every` tokens, as if all ran at the same time.

    Args:
        trace: requests in order of time.
        predictors: names with options, as in ``survival:window=5000``; each starts without any data.
        horizons: H to judge at, steps.
        train_share: share of the requests to learn from.

    Raises:
        InputError: an unknown predictor or option, an oracle, one given twice, a horizon outside 1..2^44, a share not
            between 0 and 1, or a part without requests.
        PolicyError: an answer that `prediction_of` refuses.
    """
    count = len(trace)
    if not 0.0 < train_share < 1.0:
        raise InputError("predict evaluate", "train-share", train_share, "a number between 0 and 1")
    for horizon in horizons:
        check_range("predict evaluate", f"an integer from 1 to {_MOST_STEPS}", low=1, high=_MOST_STEPS, horizon=horizon)
    twice = next((text for text in predictors if list(predictors).count(text) > 1), None)
    if twice is not None:
        raise InputError("predict evaluate", "predictor", twice, "each predictor once")
    cut = int(count * train_share)
    if cut in (0, count):
        raise InputError(trace.name or "trace", "requests", count, "enough for two parts, one to learn from")
    notes = list(trace.notes)
    if trace.arrival_s is None:
        notes.append("The trace has no times: its order of rows stands for time.")
    if trace.prompt_key is None:
        notes.append("The trace has no prompt keys: memorised goes by the size of the prompt.")
    if trace.max_tokens is None:
        notes.append("The trace has no max_tokens: bounded has nothing to bound by.")
    scores: list[Score] = []
    for text in predictors:
        predictor = names.build("predict", names.parse(text))
        if is_oracle(predictor):
            raise InputError("predict evaluate", "predictor", text, "one that does not know the answers")
        _learn(predictor, trace, cut)
        rows, thinned = _judged(trace, cut, getattr(predictor, "refresh_every", 16))
        if thinned > 1:
            notes.append(f"{text}: one in {thinned} requests of the second part is judged.")
        inside = _coverage(predictor, trace, cut)
        left = trace.output_tokens[rows[0]] - rows[1]
        answers = _answers(predictor, horizons, trace, rows)
        scores += [_score(predictor, text, horizons[i], left, answers[i], inside) for i in range(len(horizons))]
        if counted_of(predictor).get("fits") == 0:
            notes.append(
                f"{text}: {counted(cut, 'request is', 'requests are')} too few for a first fit;"
                " survival answered in its place."
            )
    return Evaluation(trace.name, cut, count - cut, tuple(scores), tuple(dict.fromkeys(notes)))


def area_under_curve(chance: F8, happened: F8) -> float | None:
    """ROC-AUC from ranks, ties counting half; None if `happened` has only one value.

    `chance` and `happened` are float64[N], predicted probabilities, and 1 or 0. Source: Mann-Whitney U over the product of
    both counts.
    """
    positive = int(happened.sum())
    negative = happened.size - positive
    if positive == 0 or negative == 0:
        return None
    _, place, count = np.unique(chance, return_inverse=True, return_counts=True)
    rank = np.cumsum(count) - (count - 1) / 2.0
    return float((rank[place][happened > 0].sum() - positive * (positive + 1) / 2) / (positive * negative))


def reliability(chance: F8, happened: F8) -> F8:
    """float64[3, BINS], for each tenth of the probability: its mean, the share that happened, and the number of predictions.

    `chance` and `happened` are float64[N], predicted probabilities, and 1 or 0. An empty bin has nan, nan and 0; a
    probability of 1 is in the last bin.
    """
    place = np.minimum((chance * BINS).astype(np.int64), BINS - 1)
    number = np.bincount(place, minlength=BINS).astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.bincount(place, weights=chance, minlength=BINS) / number
        share = np.bincount(place, weights=happened, minlength=BINS) / number
    return np.stack([mean, share, number])


def _learn(predictor: Any, trace: Trace, cut: int) -> None:
    """Let a predictor learn from the first `cut` requests of a trace, 500 at a time."""
    key = trace.column("prompt_key")
    for first in range(0, cut, 500):
        rows = slice(first, min(first + 500, cut))
        request = np.arange(rows.start, rows.stop)
        predictor.learn(Finished(request, trace.prompt_tokens[rows], trace.output_tokens[rows], key[rows]))


def _judged(trace: Trace, cut: int, every: int) -> tuple[tuple[I8, I8], int]:
    """Row in the trace and age of every prediction to judge, int64[N] each, and n if only one in n requests is judged.

    The requests are those from `cut` on; `every` is the number of tokens between predictions.
    """
    request = np.arange(cut, len(trace))
    points = -(-trace.output_tokens[request] // every)
    thinned = int(-(-points.sum() // _MOST))
    request, points = request[::thinned], points[::thinned]
    row = np.repeat(request, points)
    starts = np.repeat(np.cumsum(points) - points, points)
    return (row, (np.arange(row.size) - starts) * every), thinned


def _active(trace: Trace, row: I8, age: I8) -> Active:
    """Requests of the trace at these rows and ages. A `max_tokens` below the recorded output is wrong, so it becomes 0."""
    cap: I8 = trace.column("max_tokens")[row]
    cap = np.where(cap >= trace.output_tokens[row], cap, 0)
    return Active(row, age, trace.prompt_tokens[row], trace.column("prompt_key")[row], cap, NOTHING)


def _answers(predictor: Any, horizons: Sequence[int], trace: Trace, judged: tuple[I8, I8]) -> list[tuple[F8, F8, int]]:
    """For each horizon, `steps_left` and `leaves` of every prediction, and the number with too little history.

    Predictions for all requests at one age are asked before any at the next age, as if they ran at the same time. So no
    question tells the predictor that a request reaches a later age than the one asked about. `judged` has the row in the
    trace and the age of every prediction, int64[N] each.
    """
    row, age = judged
    for horizon in horizons:
        prediction_of(predictor, _active(trace, NOTHING, NOTHING), horizon)  # so that a fit includes the horizon
    fit_now(predictor)
    steps, leaves = np.empty((len(horizons), row.size)), np.empty((len(horizons), row.size))
    too_short = [0] * len(horizons)
    order = np.argsort(age, kind="stable")
    for alike in np.split(order, np.flatnonzero(np.diff(age[order])) + 1):
        for first in range(0, alike.size, _AT_ONCE):
            part = alike[first : first + _AT_ONCE]
            active = _active(trace, row[part], age[part])
            for number, horizon in enumerate(horizons):
                before = counted_of(predictor).get("too_short", 0)
                answer = prediction_of(predictor, active, horizon)
                steps[number, part], leaves[number, part] = answer.steps_left, answer.leaves
                too_short[number] += counted_of(predictor).get("too_short", 0) - before
    return list(zip(steps, leaves, too_short, strict=True))


def _score(predictor: Any, text: str, horizon: int, left: I8, answers: tuple[F8, F8, int], inside: F8) -> Score:
    """Compare the answers of a predictor at one horizon with the true tokens left.

    `left` is int64[N], true tokens left at each prediction. `answers` is an element of the result of `_answers`, and
    `inside` the result of `_coverage`.
    """
    steps, leaves, too_short = answers
    happened = (left <= horizon).astype(np.float64)
    some = leaves > 0
    expected = np.full(left.size, float(horizon))
    expected[some] = np.clip((steps[some] - (1.0 - leaves[some]) * horizon) / leaves[some], 1.0, horizon)
    error = np.abs(expected - left)[happened > 0]
    return Score(
        predictor=text,
        horizon=horizon,
        predictions=left.size,
        leaves_share=float(happened.mean()),
        auc=area_under_curve(leaves, happened),
        brier=float(np.mean((leaves - happened) ** 2)),
        mae_steps=float(error.mean()) if error.size else None,
        gate_share=float(np.mean(leaves >= getattr(predictor, "gate", 0.5))),
        too_short=too_short,
        coverage_10_90=float(inside.mean()) if inside.size else None,
        reliability=reliability(leaves, happened),
    )


def _coverage(predictor: Any, trace: Trace, cut: int) -> F8:
    """For a sample of second-part requests with an interval: 1 if their output lies in it, else 0; float64[n].

    A predictor without `curve` and `interval` gives none of them an interval.
    """
    if not (hasattr(predictor, "curve") or hasattr(predictor, "interval")):
        return np.zeros(0)
    request = np.arange(cut, len(trace))
    request = request[:: max(1, request.size // _MOST_INTERVALS)]
    interval(predictor, _active(trace, NOTHING, NOTHING))  # as in `_answers`
    fit_now(predictor)
    low, high = interval(predictor, _active(trace, request, np.zeros_like(request)))
    known = high > 0
    output = trace.output_tokens[request][known]
    return ((output >= low[known]) & (output <= high[known])).astype(np.float64)
