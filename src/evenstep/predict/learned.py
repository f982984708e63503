"""Learned: gradient-boosted trees (LightGBM) on the prompt, the age, and statistics of recent outputs."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Literal

import numpy as np

from evenstep.errors import check_range
from evenstep.predict import intervals
from evenstep.predict.recent import Recent
from evenstep.predict.survival import Survival, check_refresh
from evenstep.predict.trees import Trees, TreesFit, lightgbm, told
from evenstep.predict.view import Active, Finished, Prediction
from evenstep.request import F8, I8


@dataclass(eq=False)
class Learned:
    """A classifier for ``p = P(r <= H)`` and a regressor for ``mu = E[r | r <= H]``, fitted again as requests complete.

    Both see the prompt's length, the age, and moving averages and rolling statistics of the requests that completed before;
    never anything of the future. No method runs a fit, except `put_in`. `due` is a fit that is due: the host runs it where
    it likes and calls `put_in` (see `view.Fits`). A fit takes one thread and a fixed seed, so that runs repeat to the bit.
    Until there are models for a question, the predictor `survival` answers it.

    Args:
        first: completions before the first fit.
        refit: completions from one fit to the next, unless a new horizon or quantile makes one due.
        window: latest completions that are fitted to.
        ages: most ages at which each completion is sampled for a fit, from 0 to its end.
        trees: trees of each model.
        refresh_every: tokens after which a running request is predicted anew.
        gate: least probability of leaving at which a prediction counts; below it a request is assumed to stay.
        refresh: assumption about a request below the gate until it is predicted anew. ``anchored`` = it stays. ``literal`` =
            it leaves in H steps, as the paper reads word by word.

    Raises:
        InputError: LightGBM is not installed, or an option is out of range.

    Source: BalanceRoute App. C.2.1 and C.2.2; the number of trees and ages is ours, the paper's are lost.
    """

    first: int = 200
    refit: int = 2000
    window: int = 4000
    ages: int = 8
    trees: int = 60
    refresh_every: int = 16
    gate: float = 0.5
    refresh: Literal["anchored", "literal"] = "anchored"

    def __post_init__(self) -> None:
        check_refresh("learned", self.refresh_every, self.gate)
        for field in ("first", "refit", "window", "ages", "trees"):
            check_range("learned", "an integer >= 1", low=1, **{field: getattr(self, field)})
        lightgbm()
        self._survival = Survival(refresh_every=self.refresh_every)
        self._recent = Recent(self.window)
        self._models = Trees()
        self._horizons: tuple[int, ...] = ()
        self._chances: tuple[float, ...] = ()
        self._until_fit = self.first
        self._fits = 0
        self.due: TreesFit | None = None

    @property
    def counted(self) -> Mapping[str, int]:
        """Counts: `fits`, fits put in; `too_short`, answers of survival in its place without enough history."""
        return {"too_short": self._survival.counted["too_short"], "fits": self._fits}

    def predict(self, active: Active, horizon: int) -> Prediction:
        """The prediction of the models for this horizon; without such models, that of survival. Notes that the requests run.

        A horizon asked for the first time becomes part of the next fit, which is due at once if `first` requests have ended.
        """
        if not self._knows(horizon):
            return self._survival.predict(active, horizon)
        self._survival.history.asked(active.request_id, active.age)
        leaves, inside = self._both(active, horizon)
        return Prediction(np.clip(leaves * inside + (1.0 - leaves) * horizon, 1.0, horizon), leaves)

    def curve(self, active: Active, horizon: int) -> F8:
        """P(r > h) for h = 0..H, float64[N, H+1], from the models of `predict`, with the same effects, or from survival.

        The steps at which a request may leave are spread evenly about their mean, as widely as 1..H allows.
        """
        if not self._knows(horizon):
            return self._survival.curve(active, horizon)
        self._survival.history.asked(active.request_id, active.age)
        leaves, inside = self._both(active, horizon)
        high = np.minimum(2.0 * inside - 1.0, horizon)
        low = 2.0 * inside - 1.0 - high
        steps = np.arange(horizon + 1)
        gone = np.clip((steps[None, :] - low[:, None]) / np.maximum(high - low, 1e-9)[:, None], 0.0, 1.0)
        gone[:, horizon] = 1.0
        return 1.0 - leaves[:, None] * gone

    def interval(self, active: Active, low: float, high: float) -> tuple[I8, I8]:
        """Quantiles of the whole output length, int64[N] each, by quantile regression of the trees on the tokens left.

        `low` and `high` are their probabilities. Until a fit with these quantiles is put in, `intervals.interval` of
        survival answers. New quantiles become part of the next fit, which is due at once if `first` requests have ended.
        """
        new = tuple(dict.fromkeys(chance for chance in (low, high) if chance not in self._chances))
        if new:
            self._chances += new
            self._plan()
        models = [self._models.quantiles.get(chance) for chance in (low, high)]
        if None in models:
            return intervals.interval(self._survival, active, low, high)
        features, age = self._recent.features(active), active.age.astype(np.float64)
        bounds = [np.maximum(np.rint(told(model, features)), 1.0) + age for model in models]
        return np.minimum(*bounds).astype(np.int64), np.maximum(*bounds).astype(np.int64)

    def learn(self, finished: Finished) -> None:
        """Enter completions; sets `due` when enough of them have come for the next fit."""
        self._survival.learn(finished)
        at, count = 0, finished.output_tokens.size
        while at < count:  # in pieces that end where a fit falls due, however completions are told together
            end = min(count, at + self._until_fit)
            self._recent.learn(finished.part(at, end))
            self._until_fit -= end - at
            if self._until_fit == 0:
                self._until_fit = self.refit
                self._plan()
            at = end

    def gone(self, unfinished: Finished) -> None:
        self._survival.gone(unfinished)

    def put_in(self) -> None:
        if self.due is not None:
            self._models, self.due = self.due.make(), None
            self._fits += 1

    def give_up(self) -> None:
        self.due = None

    def _both(self, active: Active, horizon: int) -> tuple[F8, F8]:
        """p and mu of each request, float64[N], from the models for this horizon, which must exist."""
        features = self._recent.features(active)
        classifier, regressor = self._models.stages[horizon]
        leaves = np.clip(told(classifier, features), 0.0, 1.0)
        return leaves, np.clip(told(regressor, features), 1.0, horizon)

    def _knows(self, horizon: int) -> bool:
        """True if there are models for a horizon. A horizon asked for the first time makes a fit with it due."""
        if horizon not in self._horizons:
            self._horizons = (*self._horizons, horizon)
            self._plan()
        return horizon in self._models.stages

    def _plan(self) -> None:
        """Set `due` to a fit to all that is known now, if `first` requests have completed; drops a fit not put in yet."""
        if self._recent.learned >= self.first and (self._horizons or self._chances):
            self.due = TreesFit(deepcopy(self._recent), self.ages, self.trees, self._horizons, self._chances)


predictor = Learned
