"""One run through the reference and through both doors of the compiled simulator, compared in every bit.

A run that asks for its decisions takes the long loop; the same run without them the short one, where it fits.
"""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
from tests.oracles.cluster import simulate_reference

from evenstep.cost.linear import Linear
from evenstep.errors import EvenstepError
from evenstep.measure.digest import digest_of
from evenstep.measure.records import columns
from evenstep.routing.view import horizon_of
from evenstep.sim.cluster.short_state import fits
from evenstep.sim.cluster.simulation import simulate

#: Computed outside the reference.
ENERGY = ("energy_busy_idle_j", "energy_step_average_j")
STEP = Linear(overhead_s=0.25, per_token_s=0.01)


def differences(trace, policy, *, cluster, doors=("plain",), step_time=STEP, predictor=None, seed=0) -> list[str]:
    """What differs between the reference and each door, as sentences; `predictor` makes a fresh one a run."""
    new = predictor or (lambda: None)
    options = {"cluster": cluster, "step_time": step_time, "seed": seed}
    try:
        wanted = simulate_reference(trace, policy, predictor=new(), decisions=True, **options)
    except EvenstepError as error:
        wanted = error
    found: list[str] = []
    short = fits(cluster, step_time.table(), horizon_of(policy))
    for door, decisions in itertools.product(doors, (True, False) if short else (True,)):
        try:
            given = simulate(trace, policy, predictor=new(), door=door, decisions=decisions, **options)
        except EvenstepError as error:
            if type(error) is not type(wanted):
                found.append(f"{door}: {error!r}, the reference {wanted!r}")
            continue
        if isinstance(wanted, EvenstepError):
            found.append(f"{door}: no error, the reference {wanted!r}")
            continue
        found += [f"{door}: {text}" for text in _run_differences(wanted, given)]
    return found


def _same(column, ours, theirs) -> bool:
    """Equal bits; a sum of seconds, which decides nothing, may have been added in another order."""
    if ours.shape == theirs.shape and column == "local_sum_s":
        return bool(np.allclose(ours, theirs, rtol=1e-12, atol=0.0))
    return bool(np.array_equal(ours, theirs, equal_nan=ours.dtype == np.float64))


def _run_differences(wanted, given) -> list[str]:
    found: list[str] = []
    if given.digest != digest_of(wanted.requests, wanted.totals.makespan_s):
        found.append("digest")
    for name in ("requests", "decisions", "steps") if given.decisions is not None else ("requests", "steps"):
        ours, theirs = columns(getattr(wanted, name)), columns(getattr(given, name))
        for column, values in ours.items():
            if column not in ENERGY and not _same(column, values, theirs[column]):
                found.append(f"{name}.{column} is {theirs[column].tolist()}, the reference {values.tolist()}")
    for field in dataclasses.fields(wanted.totals):
        ours, theirs = getattr(wanted.totals, field.name), getattr(given.totals, field.name)
        if field.name == "counted":  # what a predictor counts is no part of the reference
            theirs = {name: count for name, count in theirs.items() if name.startswith(("prefix_", "held_"))}
        if ours != theirs:
            found.append(f"totals.{field.name} is {theirs}, the reference {ours}")
    return found
