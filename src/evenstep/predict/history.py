"""The lengths a predictor has learned from: a window over completions that notices when they change."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from evenstep.errors import InputError
from evenstep.predict import history_kernel as kernel
from evenstep.predict.view import Prediction
from evenstep.request import F8, I8

#: Lengths above are entered as this one: the prefix sums have an entry for every length.
LONGEST = (1 << 20) - 1
_FIRST_SIZE = 1 << 11
_FEWEST = 100  # lengths in the window before its halves are compared
_ROUNDS = 10  # comparisons in the time in which the window fills anew


@dataclass(slots=True, eq=False)
class History:
    """Output lengths of the latest completions, with prefix sums.

    The older and the recent half of the window are compared every tenth of its length by the Kolmogorov-Smirnov
    distance D. When ``D > drift * sqrt(1/n + 1/m)``, n and m the halves' sizes, the traffic has changed: the older half
    is forgotten, again and again until the halves agree or few are left.

    Args:
        window: most lengths that are kept.
        drift: how far the halves may differ; 2 is one false alarm in 1,500 comparisons; 0 = never compared.

    Attributes:
        drifts: changes of the traffic noticed so far.
        forgotten: lengths forgotten for them, before they had left the window.
    """

    window: int
    drift: float
    drifts: int = field(default=0, init=False)
    forgotten: int = field(default=0, init=False)
    _ring: I8 = field(init=False, repr=False)
    _state: I8 = field(init=False, repr=False)
    _counts: I8 = field(init=False, repr=False)
    _trees: I8 = field(init=False, repr=False)
    _until_check: int = field(default=_FEWEST, init=False, repr=False)

    def __post_init__(self) -> None:
        self._ring = np.zeros(self.window, np.int64)
        self._state = np.zeros(2, np.int64)
        self._counts = np.zeros(_FIRST_SIZE, np.int64)
        self._trees = np.zeros((2, _FIRST_SIZE), np.int64)

    def __len__(self) -> int:
        return int(self._state[kernel.HELD])

    @property
    def lengths(self) -> I8:
        """int64[len], the lengths of the window, oldest first."""
        place = self._state[kernel.OLDEST] + np.arange(len(self))
        return self._ring[place % self.window]

    def learn(self, lengths: I8) -> None:
        """Enter lengths in order of completion; the oldest leave once the window is full.

        Raises:
            InputError: a length below 1.
        """
        done = kernel.learn(self._ring, self._state, self._counts, self._trees, lengths, 0)
        while done < lengths.size:
            if lengths[done] < 1:
                raise InputError("finished", "output_tokens", int(lengths[done]), "an integer >= 1")
            if lengths[done] > LONGEST:
                lengths = np.minimum(lengths, LONGEST)
            self._grow(int(lengths[done]))
            done = kernel.learn(self._ring, self._state, self._counts, self._trees, lengths, done)
        self._until_check -= lengths.size
        if self._until_check <= 0 and self.drift > 0.0:
            self._compare()

    def leaving(self, age: I8, horizon: int, minimum: int = 1) -> tuple[Prediction, int]:
        """Both stages at these ages, and about how many of them the window says nothing: those get H and 0.

        Args:
            age: int64[N], tokens produced.
            horizon: H, steps.
            minimum: lengths above an age that it takes to say something about it.

        Raises:
            InputError: an age below 0.
        """
        steps_left, leaves = np.empty(age.size), np.empty(age.size)
        silent = kernel.leaving(
            self._state, self._counts, self._trees, age, horizon, minimum, steps_left, leaves
        )
        return Prediction(steps_left, leaves), _checked(silent, age)

    def curve(self, age: I8, horizon: int, minimum: int = 1) -> tuple[F8, int]:
        """float64[N, H+1], P(r > h | age) for h = 0..H, and about how many ages the window says nothing: those get 1.

        Raises:
            InputError: an age below 0.
        """
        stays = np.empty((age.size, horizon + 1))
        silent = kernel.curve(self._state, self._counts, self._trees, age, horizon, minimum, stays)
        return stays, _checked(silent, age)

    def _grow(self, length: int) -> None:
        size = 1 << length.bit_length()
        self._counts = np.zeros(size, np.int64)
        self._trees = np.zeros((2, size), np.int64)
        kernel.rebuild(self._ring, self._state, self._counts, self._trees)

    def _compare(self) -> None:
        """Forget the older half while it differs from the recent one."""
        held = len(self)
        while len(self) >= _FEWEST:
            lengths = self.lengths
            half = lengths.size // 2
            older, recent = lengths[:half], lengths[half:]
            if distance(older, recent) <= self.drift * math.sqrt(1.0 / older.size + 1.0 / recent.size):
                break
            kernel.forget(self._ring, self._state, self._counts, self._trees, half)
        self.drifts += len(self) < held
        self.forgotten += held - len(self)
        self._until_check = max(_FEWEST, len(self)) // _ROUNDS


def distance(one: I8, other: I8) -> float:
    """Kolmogorov-Smirnov distance: the largest gap between the two empirical distribution functions, in 0..1."""
    one, other = np.sort(one), np.sort(other)
    at = np.concatenate([one, other])
    below_one = np.searchsorted(one, at, side="right") / one.size
    below_other = np.searchsorted(other, at, side="right") / other.size
    return float(np.abs(below_one - below_other).max())


def _checked(silent: int, age: I8) -> int:
    if silent < 0:
        raise InputError("active", "age", int(age[-1 - silent]), "an integer >= 0")
    return silent
