"""Memorised prompts (ExactMatch): predicts from earlier outputs of the same prompt, or of prompts of similar size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from evenstep.compiled import jit
from evenstep.errors import check_range
from evenstep.predict.history import ALL, History
from evenstep.predict.remembered import Prompts, Reached, Sizes
from evenstep.predict.survival import check_refresh, check_window
from evenstep.predict.view import Active, Finished, Prediction
from evenstep.predict.window import B1, both_stages
from evenstep.request import F8, I8


@dataclass(eq=False)
class Memorised:
    """Predicts from the latest outputs of the same prompt, with the formulas of survival.

    A request with a `prompt_key` is predicted from the outputs of its key. One without is predicted from outputs of prompts
    whose length lies in the same quantile bucket. If too few of these are known, it is predicted as by survival. In that
    case, if another running request of the same key has produced more tokens, it is assumed to produce as many too.

    Args:
        minimum: least number of outputs of a prompt or bucket to use them; at least one of them must be above the age.
        keys: most prompts that are remembered; the one that completed longest ago is forgotten first.
        each: most outputs that are remembered of a prompt, the latest.
        buckets: quantile buckets of the prompt length; 1 = prompts without a key are all alike.
        window: latest requests that are remembered over all prompts; also the total over all buckets.
        drift: distance of a window's halves above which the older is forgotten, as in `survival`; 0 = never. For all
            prompts together and for each bucket.
        running: number of ended requests from which on running ones count too, as longer than their age; 0 = never.
        refresh_every: tokens after which a running request is predicted anew.
        gate: least probability of leaving at which a prediction counts; below it a request is assumed to stay.
        refresh: assumption about a request below the gate until it is predicted anew. ``anchored`` = it stays. ``literal`` =
            it leaves in H steps, as the paper reads word by word.

    Source: BalanceRoute App. C.2.1 (per-prompt-class memorisation). Sizes, bounds, what is too little and the use of
    unfinished requests are ours.
    """

    minimum: int = 1
    keys: int = 20_000
    each: int = 32
    buckets: int = 4
    window: int = 10_000
    drift: float = 2.0
    running: int = 10
    refresh_every: int = 16
    gate: float = 0.5
    refresh: Literal["anchored", "literal"] = "anchored"

    def __post_init__(self) -> None:
        check_refresh("memorised", self.refresh_every, self.gate)
        check_window("memorised", self.window, self.minimum, self.drift, self.running)
        check_range("memorised", "an integer >= 1", low=1, keys=self.keys, each=self.each, buckets=self.buckets)
        self._prompts = Prompts(self.keys, self.each)
        self._sizes = Sizes(self.buckets, self.window, self.drift, self.running, self.refresh_every)
        self._reached = Reached(self.keys)
        self._all = History(self.window, self.drift, self.running, self.refresh_every)
        self._too_short = self._by_prompt = self._by_size = 0

    @property
    def counted(self) -> Mapping[str, int]:
        """Answers by source (`by_prompt`, `by_size`) or without enough history (`too_short`), and counts of prompts.

        `prompts` are remembered now, `forgotten` made room for others. `drifts` is as in survival, over all requests.
        """
        prompts, drifts = self._prompts, self._all.drifts
        answers = {"too_short": self._too_short, "by_prompt": self._by_prompt, "by_size": self._by_size}
        return {**answers, "prompts": len(prompts), "forgotten": prompts.forgotten, "drifts": drifts}

    def predict(self, active: Active, horizon: int) -> Prediction:
        """Expected steps left and probabilities of leaving, computed from `curve`."""
        stays = self.curve(active, horizon)
        steps_left, leaves = np.empty(active.age.size), np.empty(active.age.size)
        both_stages(stays, steps_left, leaves)
        return Prediction(steps_left, leaves)

    def curve(self, active: Active, horizon: int) -> F8:
        """Survival curves, float64[N, H+1], from the best source with enough data. Also notes that the requests run."""
        self._all.asked(active.request_id, active.age)
        stays, silent = self._prompts.curve(active, horizon, self.minimum)
        self._by_prompt += stays.shape[0] - int(np.count_nonzero(silent))
        if self.buckets > 1 and silent.any():
            unkeyed = (silent & (active.prompt_key == 0)).nonzero()[0]
            if unkeyed.size == silent.size:  # no request has a key
                stays, silent = self._ask_sizes(active, horizon)
            elif unkeyed.size:
                stays[unkeyed], silent[unkeyed] = self._ask_sizes(active.take(unkeyed), horizon)
        rest = silent.nonzero()[0]
        if rest.size:
            key, age = active.prompt_key[rest], active.age[rest]
            reached = self._reached.asked(key, age)
            curve, short = self._all.curve(reached, horizon)
            stays[rest] = curve
            _stay_until(reached - age, rest, stays)
            self._too_short += int(np.count_nonzero(short))
        return stays

    def _ask_sizes(self, active: Active, horizon: int) -> tuple[F8, B1]:
        """Call `Sizes.asked` and return its result; answers with enough data are counted in `by_size`."""
        stays, silent = self._sizes.asked(active.request_id, active.prompt_tokens, active.age, horizon, self.minimum)
        self._by_size += silent.size - int(np.count_nonzero(silent))
        return stays, silent

    def learn(self, finished: Finished) -> None:
        self.begin(finished)
        self.advance(ALL)

    def begin(self, finished: Finished) -> None:
        """Learn lengths by prompt key at once; queue completions for the histories, where `advance` does the work."""
        request, output = finished.request_id, finished.output_tokens
        self._all.begin(request, output)
        self._prompts.learn(finished)
        self._reached.ended(finished.prompt_key, output)
        unkeyed = (finished.prompt_key == 0).nonzero()[0]
        if self.buckets > 1 and unkeyed.size:
            self._sizes.begin(request[unkeyed], finished.prompt_tokens[unkeyed], output[unkeyed])

    def advance(self, rows: int) -> int:
        left = self._all.advance(rows)
        return self._sizes.advance(left) if left else 0

    def gone(self, unfinished: Finished) -> None:
        request, produced = unfinished.request_id, unfinished.output_tokens
        self._all.gone(request, produced)
        self._reached.ended(unfinished.prompt_key, produced)
        unkeyed = (unfinished.prompt_key == 0).nonzero()[0]
        if self.buckets > 1 and unkeyed.size:
            self._sizes.gone(request[unkeyed], unfinished.prompt_tokens[unkeyed], produced[unkeyed])


@jit
def _stay_until(further: I8, place: I8, stays: F8) -> None:
    """Shift some curves by `further` steps to later steps, in place; before the shifted curve, a request stays (1).

    Args:
        further: int64[N], >= 0, the shift of each curve.
        place: int64[N], the row of `stays` that each shift is for.
        stays: float64[M, H+1], changed in these rows; values shifted beyond H are lost.
    """
    for i in range(place.size):
        row, steps = stays[place[i]], further[i]
        if steps > 0:
            for h in range(row.size - 1, -1, -1):
                row[h] = row[h - steps] if h >= steps else 1.0


predictor = Memorised
