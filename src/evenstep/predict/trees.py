"""Gradient-boosted trees (LightGBM) of the predictor `learned`: a fit that is due, and the models that it makes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from evenstep.errors import InputError
from evenstep.predict.recent import Recent
from evenstep.request import F8, I8
from evenstep.wording import install_extra


@dataclass(eq=False)
class Trees:
    """Models of one fit, as LightGBM boosters; pickled as LightGBM's own text, which restores them to the bit."""

    #: horizon H -> a classifier for ``r <= H`` and a regressor for ``E[r | r <= H]``
    stages: dict[int, tuple[Any, Any]] = field(default_factory=dict[int, tuple[Any, Any]])
    #: probability -> a model of that quantile of the tokens left
    quantiles: dict[float, Any] = field(default_factory=dict[float, Any])

    def __getstate__(self) -> dict[str, Any]:
        stages = {horizon: tuple(one.model_to_string() for one in pair) for horizon, pair in self.stages.items()}
        return {"stages": stages, "quantiles": {chance: one.model_to_string() for chance, one in self.quantiles.items()}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        read: Any = lightgbm().Booster if state["stages"] or state["quantiles"] else None
        self.stages = {horizon: tuple(read(model_str=one) for one in pair) for horizon, pair in state["stages"].items()}
        self.quantiles = {chance: read(model_str=one) for chance, one in state["quantiles"].items()}


@dataclass(eq=False)
class TreesFit:
    """A fit that is due, with all its input. Any thread may run it; the same data give the same trees."""

    recent: Recent  # completions at the time it fell due; never changed later
    ages: int  # most ages sampled from each completion
    trees: int  # trees of each model
    horizons: tuple[int, ...]  # each H that predictions were requested for
    chances: tuple[float, ...]  # probabilities of the quantiles that intervals need
    models: Trees | None = field(default=None, init=False)  # the result; None until the fit has run

    def make(self) -> Trees:
        """Return the models; the first call fits them and keeps them in `models`. `InputError` if LightGBM is missing."""
        if self.models is None:
            rows, left, weight = self.recent.walked(self.ages)
            made = Trees({horizon: self._stages(rows, left, weight, horizon) for horizon in self.horizons})
            target = left.astype(np.float64)
            for chance in self.chances:
                made.quantiles[chance] = self._fit(rows, target, weight, objective="quantile", alpha=min(chance, 0.999))
            self.models = made
        return self.models

    def _stages(self, rows: F8, left: I8, weight: F8, horizon: int) -> tuple[Any, Any]:
        """Fit the classifier and the regressor for a horizon to training rows (see `Recent.walked`)."""
        inside = left <= horizon
        classifier = self._fit(rows, inside.astype(np.float64), weight, objective="binary")
        some = inside if inside.any() else np.ones_like(inside)
        regressor = self._fit(rows[some], left[some].astype(np.float64), weight[some], objective="regression")
        return classifier, regressor

    def _fit(self, rows: F8, target: F8, weight: F8, **options: Any) -> Any:
        """Fit one LightGBM model to training rows; `options` are LightGBM's."""
        same = {"num_threads": 1, "deterministic": True, "force_row_wise": True, "seed": 0, "verbosity": -1}
        settings = {"num_leaves": 7, "min_data_in_leaf": 100, "learning_rate": 0.1, **same, **options}
        library = lightgbm()
        return library.train(settings, library.Dataset(rows, target, weight=weight), num_boost_round=self.trees)


def told(model: Any, features: F8) -> F8:
    """The model's predictions, float64[N], for features float64[N, 7]. LightGBM rejects N = 0, so it is not called then."""
    if features.shape[0] == 0:
        return np.zeros(0)
    return np.asarray(model.predict(features, num_threads=1), np.float64)


def lightgbm() -> Any:
    """Import and return the LightGBM library. Raises an `InputError` if it is not installed or cannot be loaded."""
    try:
        import lightgbm as found  # pyright: ignore[reportMissingTypeStubs]
    except ImportError as error:
        raise InputError("learned", "lightgbm", "missing", "the package lightgbm", install_extra("learned")) from error
    except OSError as error:  # small containers lack a library of the system, such as that of OpenMP
        hint = "Install the system's library that it names; libgomp.so.1 is in the package libgomp1 or libgomp."
        raise InputError("learned", "lightgbm", str(error), "a package that loads", hint) from error
    return found
