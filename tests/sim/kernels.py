"""Small pieces of the compiled cluster's state, for tests of one kernel at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

from evenstep.sim import cluster_layout as at


def plainly(kernel: Any) -> Any:
    """A kernel as the plain Python function it is written as."""
    return getattr(kernel, "py_func", kernel)


def scalars(**values: int) -> np.ndarray:
    """int64[128]: the scalars of `cluster_layout`, by name in any case; all others 0."""
    found = np.zeros(128, np.int64)
    for name, value in values.items():
        found[getattr(at, name.upper())] = value
    return found


def float_scalars(**values: float) -> np.ndarray:
    """float64[32]: as `scalars`; the unit of load is 1 token unless given."""
    found = np.zeros(32)
    for name, value in ({"unit": 1.0} | values).items():
        found[getattr(at, name.upper())] = value
    return found
