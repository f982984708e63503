"""The step-time law: local seconds of each worker from its load, and the same law as arrays for compiled loops."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from evenstep.errors import InputError
from evenstep.request import F8, I8


@dataclass(frozen=True, slots=True, eq=False)
class PiecewiseLinear:
    """Local seconds as straight lines between knots of KV load; the first and last line go on beyond the ends.

    Raises:
        InputError: other shapes, knots that do not ascend, or seconds that are not finite.
    """

    load: F8  # float64[P], KV tokens at the knots, strictly ascending, P >= 2
    #: float64[R, P], without the step's overhead: worker g reads row ``g % R``, so with R = 1 all workers are alike
    seconds: F8
    longest_share: float = 0.0  # if above 0, the lines are to be read at `effective_load` in place of the load

    def __post_init__(self) -> None:
        fits = np.ndim(self.load) == 1 and np.shape(self.seconds)[1:] == np.shape(self.load) and np.size(self.load) >= 2
        if not (fits and np.size(self.seconds) and np.isfinite(self.seconds).all() and (np.diff(self.load) > 0).all()):
            shapes = f"of shape {np.shape(self.seconds)} at loads of shape {np.shape(self.load)}"
            expected = "finite seconds[R, P], R >= 1, at load[P], P >= 2 ascending knots"
            raise InputError("PiecewiseLinear", "seconds", shapes, expected)

    def effective_load(self, load: F8, running: I8, longest: F8) -> F8:
        """float64[G], KV tokens at which the lines are read: `load` plus `longest_share` of the padding.

        The padding is ``running * longest - load``, at least 0, with [G] each: KV tokens `load`, requests `running`, and KV
        tokens `longest` of the longest request.
        """
        if self.longest_share == 0.0:
            return load
        return load + self.longest_share * np.maximum(running * longest - load, 0.0)

    def local_seconds(self, load: F8) -> F8:
        """float64[G], seconds at `load`, float64[G], KV tokens or an `effective_load`; plain form of the compiled loop."""
        cell = np.clip(np.searchsorted(self.load, load, side="right") - 1, 0, self.load.size - 2)
        row = np.arange(load.size) % self.seconds.shape[0]
        low, high = self.seconds[row, cell], self.seconds[row, cell + 1]
        slope = (high - low) / (self.load[cell + 1] - self.load[cell])
        return low + slope * (load - self.load[cell])


@runtime_checkable
class StepTime(Protocol):
    """A step of a barrier group lasts ``overhead_seconds(size) + max_g local_seconds[g]``.

    `overhead_seconds` is C and the synchronisation term, by the group's number of workers. The host takes the maximum over
    the workers. `local_seconds` is float64[G]: `load` is the KV tokens of each worker, `running` its requests, and `longest`
    the KV tokens of its longest request, 0 without requests. `table` is the same law as arrays, for compiled loops.
    """

    def local_seconds(self, load: F8, running: I8, longest: F8) -> F8: ...
    def table(self) -> PiecewiseLinear: ...
    def overhead_seconds(self, group_size: int) -> float: ...
