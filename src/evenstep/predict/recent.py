"""Features of a request from its prompt, its age, and recent outputs; no feature uses later information."""

from __future__ import annotations

import numpy as np

from evenstep import streams
from evenstep.predict.view import Active, Finished
from evenstep.request import F8, I8

#: Weights of a new output in the moving averages, and number of completions in the rolling statistics.
_FAST, _SLOW, _ROLLING = 0.1, 0.01, 128
_STATISTICS = 5


class Recent:
    """The latest completions, each with statistics of the completions before it.

    The features of a row are, in this order: prompt tokens, age, fast and slow moving average of outputs, mean and standard
    deviation of the last 128 outputs, mean of their prompts. At most `window` completions are kept.

    Attributes:
        learned: completions learned so far.
    """

    def __init__(self, window: int) -> None:
        self.window, self.learned = window, 0
        self._prompt, self._output = np.zeros(window, np.int64), np.zeros(window, np.int64)
        self._before = np.zeros((window, _STATISTICS))
        self._now = np.zeros(_STATISTICS)
        self._last = np.zeros((2, _ROLLING))

    def learn(self, finished: Finished) -> None:
        """Enter completions in order; beyond `window` the oldest are forgotten."""
        for prompt, output in zip(finished.prompt_tokens.tolist(), finished.output_tokens.tolist(), strict=True):
            place = self.learned % self.window
            self._prompt[place], self._output[place] = prompt, output
            self._before[place] = self._now
            self._last[:, self.learned % _ROLLING] = prompt, output
            self.learned += 1
            held = self._last[:, : min(self.learned, _ROLLING)]
            fast, slow = (output, output) if self.learned == 1 else self._now[:2]
            self._now[:2] = fast + _FAST * (output - fast), slow + _SLOW * (output - slow)
            self._now[2:] = held[1].mean(), held[1].std(), held[0].mean()

    def features(self, active: Active) -> F8:
        """Features of running requests now, float64[N, 7], in the order given in `Recent`; statistics are 0 at first."""
        now = np.broadcast_to(self._now, (active.age.size, _STATISTICS))
        return np.column_stack([active.prompt_tokens, active.age, now]).astype(np.float64, copy=False)

    def walked(self, ages: int) -> tuple[F8, I8, F8]:
        """Training rows: samples every kept completion at up to `ages` ages, one drawn in each equal part of its life.

        The draw is keyed, so the same completions give the same rows. Statistics are those before the completion.

        Returns:
            features float64[M, 7], as `features`; tokens left int64[M], >= 1; weights float64[M], tokens a row stands for.
        """
        held = min(self.learned, self.window)
        output = self._output[:held]
        count = np.minimum(output, ages)
        row = np.repeat(np.arange(held, dtype=np.int64), count)
        number = np.arange(row.size, dtype=np.int64)
        part = number - np.repeat(np.cumsum(count) - count, count)
        chance = streams.uniform(0, "learned-age", number)
        age = ((part + chance) * output[row] / count[row]).astype(np.int64)
        features = np.column_stack([self._prompt[row], age, self._before[row]]).astype(np.float64, copy=False)
        return features, output[row] - age, (output[row] / count[row]).astype(np.float64)
