"""Parses short notations for parts of a fleet: drift, outages, speeds, objectives.

On a command line, commas separate options, so a list inside an option is written with slashes (see `evenstep.cost.knots`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from evenstep import names, streams
from evenstep.config.number import numbers_of
from evenstep.errors import InputError, check_known
from evenstep.measure.metrics import Slo
from evenstep.sim.cluster.drift import Drift
from evenstep.sim.cluster.simulation import Outage
from evenstep.wording import counted

_DRIFT = ("growth", "tokens_per_step", "sequence")


def drift_of(text: str | None) -> Drift:
    """Parse a drift: ``growth=0.25``, ``growth=3,tokens_per_step=3`` or ``sequence=1/1/0.5``; None = +1 token a step.

    Growth and sequence are KV tokens that a request's load gains a step. `InputError` for an unknown option, a value out of
    range, or both a growth and a sequence.
    """
    if text is None:
        return Drift()
    if "=" not in text.partition(",")[0]:
        raise InputError("drift", "option", text, "key=value", f"Keys: {', '.join(_DRIFT)}.")
    options: dict[str, Any] = {**names.options(text, "drift")}
    for key in options:
        check_known("drift", "option", key, _DRIFT, "a known option")
    if "sequence" in options and "growth" in options:
        raise InputError("drift", "growth", options["growth"], "no growth with a sequence", "Leave one of them out.")
    if "sequence" in options:
        options["sequence"] = numbers_of("drift", "sequence", options["sequence"])
    return names.make(Drift, options, where="drift")


def slo_of(text: str | None) -> Slo | None:
    """Parse a latency objective, such as ``ttft=2,tpot=0.05`` or ``ttft=2s,tpot=50ms``; None gives None.

    A number without a unit is in seconds. A latency that is left out is not limited. `InputError` for an unknown key, or a
    value that is not a time above 0.
    """
    if text is None:
        return None
    where = "slo"
    if "=" not in text.partition(",")[0]:
        raise InputError(where, "objective", text, "ttft=SECONDS,tpot=SECONDS", "One of them is enough.")
    spec = names.options(text, where)
    made: dict[str, float] = {}
    for key, value in spec.items():
        check_known(where, "key", key, ("ttft", "tpot"), "ttft or tpot")
        digits, scale = (value[:-2], 1e-3) if value.endswith("ms") else (value.removesuffix("s"), 1.0)
        try:
            made[f"{key}_s"] = float(digits) * scale
        except ValueError:
            raise InputError(where, key, value, "seconds above 0, or such as 50ms") from None
    return Slo(**made)


def outages_of(texts: Sequence[str], workers: int) -> tuple[Outage, ...]:
    """Parse outages, ``STEP:WORKER`` (lost) and ``STEP:WORKER:back``, and return them sorted by step; workers count from 0.

    `InputError` for text of another form, an unknown worker, one lost again before it is back, or one that comes back
    without being lost.
    """
    found = sorted((_outage(text, workers) for text in texts), key=lambda one: one.step)
    lost: set[int] = set()
    for one in found:
        if one.back == (one.worker not in lost):
            text = f"{one.step}:{one.worker}" + (":back" if one.back else "")
            now = "a worker that is lost by then" if one.back else "a worker that is not lost already"
            raise InputError("outages", "outage", text, now)
        lost ^= {one.worker}
    return tuple(found)


def speeds_of(text: str, workers: int, seed: int) -> tuple[float, ...]:
    """Parse worker speeds: ``1,1.5,2``, ``8*1/8*0.5`` (16 speeds), or ``uniform:LOW:HIGH``, one drawn a worker by `seed`.

    A list may have fewer speeds than `workers`; they are returned as they are, and the law `PerWorker` repeats them.
    `InputError` for text of another form, a speed that is not above 0, or more speeds than workers.
    """
    kind, _, rest = text.partition(":")
    if kind == "uniform":
        bounds = numbers_of("worker speeds", "worker_speeds", rest.replace(":", "/")) if rest else ()
        if len(bounds) != 2 or not 0 < bounds[0] <= bounds[1]:
            raise InputError("worker speeds", "worker_speeds", text, "uniform:LOW:HIGH with 0 < LOW <= HIGH")
        drawn = streams.uniform(seed, "worker-speed", np.arange(workers))
        return tuple((bounds[0] + (bounds[1] - bounds[0]) * drawn).tolist())
    speeds = numbers_of("worker speeds", "worker_speeds", text.replace(",", "/"))
    if len(speeds) > workers:
        raise InputError("worker speeds", "worker_speeds", text, f"at most {counted(workers, 'number')}, one a worker")
    if min(speeds) <= 0:
        raise InputError("worker speeds", "worker_speeds", text, "numbers above 0")
    return speeds


def _outage(text: str, workers: int) -> Outage:
    step, _, rest = text.partition(":")
    worker, colon, back = rest.partition(":")
    is_number = step.isdecimal() and worker.isdecimal() and max(len(step), len(worker)) < 17
    if not (is_number and (back == "back" if colon else True)):
        raise InputError("outages", "outage", text, "STEP:WORKER or STEP:WORKER:back, e.g. 2000:3")
    if int(worker) >= workers:
        raise InputError("outages", "outage", text, f"a worker in 0..{workers - 1}")
    return Outage(int(step), int(worker), bool(colon))
