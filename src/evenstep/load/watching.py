"""Polls the metrics pages of an emulator and a gateway during a run, in a thread."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field

from evenstep.engines.metrics.prometheus import lines, wanted
from evenstep.errors import EngineError, EvenstepError
from evenstep.load.models import get
from evenstep.load.processes import cpu_s
from evenstep.load.settings import Target

#: Key of each figure in a sample -> its metric: those an emulator reports for each rank, and those a gateway reports.
_ENGINE = {
    "running": "vllm:num_requests_running",
    "steps": "evenstep:steps_total",
    "stepped_s": "evenstep:step_seconds_total",
    "busy_s": "evenstep:busy_seconds_total",
    "late": "evenstep:late_steps_total",
    "tokens": "vllm:generation_tokens_total",
}
_GATEWAY = {
    "oldest_s": "evenstep_pool_oldest_seconds",
    "depth": "evenstep_pool_depth",
    "idle_device_s": "evenstep_barrier_idle_device_seconds_total",
    "steps": "evenstep_group_steps_total",
    "rounds": "evenstep_decisions_total",
    "fallbacks": "evenstep_fallback_total",
}
#: Figures that every rank of the group reports with the same value, so that their sum is divided by the ranks.
_SHARED = ("steps", "stepped_s", "late")


@dataclass(frozen=True, slots=True)
class Sample:
    """Figures of the metrics pages of emulator and gateway at one time.

    Args:
        at_s: time of the reading, by `time.monotonic`.
        engine: of the emulator: number of ``ranks``, ``running`` requests of all ranks, and totals since its start. Of the
            group: ``steps``, ``late`` steps, and the steps' seconds (``stepped_s``). Summed over ranks: seconds of their own
            parts of the steps (``busy_s``), and output ``tokens``.
        gateway: requests in its pool (``depth``), seconds that the oldest has waited (``oldest_s``), and totals since its
            start: worker seconds lost at the barrier (``idle_device_s``), detected ``steps``, decision ``rounds``, and those
            that least load decided (``fallbacks``); it lacks figures that the gateway does not report.
        cpu_s: CPU seconds of each watched process since its start, by name; nan if the system does not report them.
    """

    at_s: float
    engine: dict[str, float]
    gateway: dict[str, float]
    cpu_s: dict[str, float] = field(default_factory=dict[str, float])


@contextlib.contextmanager
def watched(
    engine: Target, gateway: Target | None, processes: Mapping[str, int], every_s: float = 0.25
) -> Generator[list[Sample]]:
    """Take samples in a thread during a ``with`` block: at its beginning, then with pauses of `every_s` seconds.

    Yields the samples so far, oldest first; failed readings are left out. The block's end waits for a reading under way.
    Further arguments as in `sample`.
    """
    samples, over = list[Sample](), threading.Event()

    def run() -> None:
        while not over.is_set():
            with contextlib.suppress(EvenstepError):
                samples.append(sample(engine, gateway, processes))
            over.wait(every_s)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield samples
    finally:
        over.set()
        thread.join()


def sample(engine: Target, gateway: Target | None, processes: Mapping[str, int]) -> Sample:
    """Read both metrics pages once.

    Args:
        engine: address of an emulator with one barrier group.
        gateway: address of a gateway's admin page; None = there is no gateway. If it cannot be read, its figures are empty.
        processes: ids, by name, of the processes whose CPU time is read.

    Raises:
        EvenstepError: the emulator's page cannot be read, or lacks its steps.
    """
    found = _figures(engine, _ENGINE)
    if missing := [_ENGINE[key] for key in _SHARED if key not in found]:
        raise EngineError(f"metrics page: {missing[0]} is missing; expected a number.")
    for key in _SHARED:
        found[key] /= found["ranks"]
    at_s = time.monotonic()
    told: dict[str, float] = {}
    if gateway is not None:
        with contextlib.suppress(EvenstepError):
            told = _figures(gateway, _GATEWAY)
    return Sample(at_s, found, told, {name: cpu_s(pid) for name, pid in processes.items()})


def _figures(target: Target, names: dict[str, str]) -> dict[str, float]:
    """Sum of each metric's lines on a metrics page, by its key in `names`; ``ranks`` = number of lines of the first."""
    _, page = get(target, "/metrics")
    told = lines(page, wanted(names.values()))
    found: dict[str, float] = {"ranks": float(sum(line.name == next(iter(names.values())) for line in told))}
    for key, name in names.items():
        if values := [line.value for line in told if line.name == name]:
            found[key] = sum(values)
    return found
