# pyright: basic
"""The cluster's loop for the plain door: without a kernel to call it comes back at every decision.

A file of its own, because it is the same loop compiled a second time, and only the plain door needs it.
"""

from __future__ import annotations

from evenstep.compiled import INT, declared, jit
from evenstep.sim.cluster_kernel import STATE_TYPES, continued

_continued = jit(continued)


@declared(None if INT is None else INT(*STATE_TYPES))
def advance(
    at_i,
    at_f,
    ints,
    floats,
    prompt,
    output,
    arrival,
    columns,
    links,
    think,
    profile,
    law,
    cached,
    done_i,
    done_f,
):
    """Go on until the run is done or the host is needed: see `cluster_kernel.loop`."""
    return _continued(
        None,
        at_i,
        at_f,
        ints,
        floats,
        prompt,
        output,
        arrival,
        columns,
        links,
        think,
        profile,
        law,
        cached,
        done_i,
        done_f,
    )
