"""The roulette wheel of the policies that choose by chance: a place in proportion to its weight."""

from __future__ import annotations

import numpy as np

from evenstep.request import F8, I8


def spin(weight: F8, chance: F8 | float) -> I8:
    """int64[...], places drawn in proportion to their weight, never one of weight 0.

    Args:
        weight: float64[..., n], >= 0, in each row one at least > 0; added up in order.
        chance: float64[...], numbers in [0, 1), one a row.
    """
    wheel = np.cumsum(weight, axis=-1)
    place = np.sum(wheel <= np.asarray(chance)[..., None] * wheel[..., -1:], axis=-1)
    last = weight.shape[-1] - 1 - np.argmax(weight[..., ::-1] > 0, axis=-1)
    return np.minimum(place, last)  # a chance of almost 1 may round to the whole wheel
