"""Powers x ** exponent, with an exponent from 0 to 1, in compiled loops: from a table, the same bits on every machine."""

from __future__ import annotations

from functools import cache

import numpy as np

from evenstep.compiled import Floats, inlined
from evenstep.request import F8

#: Cells of the table in one octave, and the powers of two that it spans, in seconds.
CELLS, OCTAVES = 512, (-40, 24)


@cache
def root_table(exponent: float) -> F8:
    """float64[cells + 1], x ** exponent at the knots of `root`: `CELLS` equal cells in every octave from 2^-40 to 2^24.

    Linear interpolation between the knots is within a relative 1e-6 of the power, for exponents in 0..1.
    """
    low, high = OCTAVES
    octave = np.repeat(np.arange(low, high), CELLS)
    cell = np.tile(np.arange(CELLS), high - low)
    knots = np.ldexp(1.0 + cell / CELLS, octave)
    return np.append(knots, np.ldexp(1.0, high)) ** exponent


@inlined
def root(x: float, table: Floats) -> float:
    """x ** exponent for x >= 0 and the exponent of `root_table`, interpolated; beyond its ends a value of the end cell."""
    bits = np.float64(x).view(np.int64)
    cell = np.uintp(min(max((bits >> 43) - ((1023 + OCTAVES[0]) << 9), 0), table.size - 2))
    part = (bits & 0x7FFFFFFFFFF) * 1.1368683772161603e-13
    return table[cell] + part * (table[cell + np.uintp(1)] - table[cell])
