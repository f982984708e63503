# pyright: basic
"""The short loop for the plain door: see `plain_door_kernel`."""

from __future__ import annotations

from evenstep.compiled import INT, declared, jit
from evenstep.sim.short_loop_kernel import SHORT_TYPES, continued

_continued = jit(continued)


@declared(None if INT is None else INT(*SHORT_TYPES))
def advance(ints, floats, prompt, output, arrival, columns, done_i, done_f):
    """Go on until the run is done or the host is needed: see `short_loop_kernel.continued`."""
    return _continued(None, ints, floats, prompt, output, arrival, columns, done_i, done_f)
