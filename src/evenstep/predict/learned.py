"""Learned: gradient-boosted trees on the prompt, the age and what outputs were like lately (LightGBM)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from evenstep.errors import InputError
from evenstep.predict import intervals
from evenstep.predict.recent import Recent
from evenstep.predict.survival import Survival, check_refresh
from evenstep.predict.view import Active, Finished, Prediction
from evenstep.request import F8, I8

_LEAVES, _LEAST_IN_LEAF = 7, 100


@dataclass(eq=False)
class Learned:
    """A classifier for ``p = P(r <= H)`` and a regressor for ``mu = E[r | r <= H]``, fitted again as requests complete.

    Both see the prompt's length, the age, the token cap, and moving averages and rolling statistics of the requests
    that completed before; never anything of the future. Fits are made in the call that needs them, with one thread and
    a fixed seed, so that runs repeat to the bit. Before the first fit survival answers.

    Args:
        refit: completions from fit to fit; the first is made once so many are known.
        window: latest completions that are fitted to.
        ages: most ages each of them is walked through at, from 0 to its end.
        trees: trees of each model.
        refresh_every: tokens after which a running request is predicted anew.
        gate: least chance of leaving at which a prediction counts; below it a request is taken to stay.
        refresh: what a request below the gate is taken for until it is predicted anew: ``anchored`` = it stays,
            ``literal`` = it leaves in H steps, as the paper reads word by word.

    Raises:
        InputError: LightGBM is not installed, or an option is out of range.

    Source: BalanceRoute App. C.2.1 and C.2.2; the number of trees and ages is ours, the paper's are lost.
    """

    refit: int = 2000
    window: int = 4000
    ages: int = 8
    trees: int = 60
    refresh_every: int = 16
    gate: float = 0.5
    refresh: Literal["anchored", "literal"] = "anchored"

    def __post_init__(self) -> None:
        check_refresh("learned", self.refresh_every, self.gate)
        for field in ("refit", "window", "ages", "trees"):
            if getattr(self, field) < 1:
                raise InputError("learned", field, getattr(self, field), "an integer >= 1")
        self._lightgbm = _lightgbm()
        self._survival = Survival(refresh_every=self.refresh_every)
        self._recent = Recent(self.window)
        self._models: dict[int, tuple[Any, Any]] = {}
        self._until_fit = self.refit
        self._fits = 0

    @property
    def counted(self) -> Mapping[str, int]:
        """`fits`: models fitted; `too_short`: answers of survival, before the first fit, without enough history."""
        return {"too_short": self._survival.counted["too_short"], "fits": self._fits}

    def predict(self, active: Active, horizon: int) -> Prediction:
        before = self._survival.predict(active, horizon) if not self._is_ready else None
        if before is not None:
            return before
        self._survival.history.asked(active.request_id, active.age)
        leaves, inside = self._both(active, horizon)
        return Prediction(np.clip(leaves * inside + (1.0 - leaves) * horizon, 1.0, horizon), leaves)

    def curve(self, active: Active, horizon: int) -> F8:
        """Between 0 and H a leaving request is taken to leave at any step of the widest range with the right mean."""
        if not self._is_ready:
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
        """Quantiles of the whole output length by the trees' own quantile regression on the tokens that are left.

        Before the first fit they are those of survival.
        """
        if not self._is_ready:
            return intervals.interval(self._survival, active, low, high)
        rows, left, weight = self._recent.walked(self.ages)
        bounds: list[F8] = []
        for chance in (low, high):
            model = self._fit(
                rows, left.astype(np.float64), weight, objective="quantile", alpha=min(chance, 0.999)
            )
            told = np.maximum(np.rint(_told(model, self._recent.features(active))), 1.0)
            bounds.append(told + active.age.astype(np.float64))
        lower = np.minimum(*bounds).astype(np.int64)
        return lower, np.maximum(*bounds).astype(np.int64)

    def learn(self, finished: Finished) -> None:
        self._survival.learn(finished)
        self._recent.learn(finished)
        self._until_fit -= finished.output_tokens.size
        if self._until_fit <= 0:
            self._models.clear()
            self._until_fit = self.refit

    @property
    def _is_ready(self) -> bool:
        return self._recent.learned >= self.refit

    def _both(self, active: Active, horizon: int) -> tuple[F8, F8]:
        """p and mu, float64[N]."""
        if horizon not in self._models:
            rows, left, weight = self._recent.walked(self.ages)
            inside = left <= horizon
            classifier = self._fit(rows, inside.astype(np.float64), weight, objective="binary")
            some = inside if inside.any() else np.ones_like(inside)
            targets = left[some].astype(np.float64)
            regressor = self._fit(rows[some], targets, weight[some], objective="regression")
            self._models[horizon] = classifier, regressor
        features = self._recent.features(active)
        classifier, regressor = self._models[horizon]
        leaves = np.clip(_told(classifier, features), 0.0, 1.0)
        return leaves, np.clip(_told(regressor, features), 1.0, horizon)

    def _fit(self, rows: F8, target: F8, weight: F8, **options: Any) -> Any:
        self._fits += 1
        settings = {
            "num_leaves": _LEAVES, "min_data_in_leaf": _LEAST_IN_LEAF, "learning_rate": 0.1, "verbosity": -1,
            "num_threads": 1, "deterministic": True, "force_row_wise": True, "seed": 0, **options,
        }  # fmt: skip
        return self._lightgbm.train(
            settings, self._lightgbm.Dataset(rows, target, weight=weight), num_boost_round=self.trees
        )


def _told(model: Any, features: F8) -> F8:
    """float64[N], the model's answers; none for no rows, which LightGBM refuses."""
    if features.shape[0] == 0:
        return np.zeros(0)
    return np.asarray(model.predict(features, num_threads=1), np.float64)


def _lightgbm() -> Any:
    try:
        import lightgbm  # pyright: ignore[reportMissingTypeStubs]
    except ImportError as error:
        hint = "Install it with: pip install 'evenstep[learned]'."
        raise InputError("learned", "package", "lightgbm is missing", "LightGBM", hint) from error
    return lightgbm


predictor = Learned
