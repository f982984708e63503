"""Polls the metrics pages of an emulator and a gateway during a run, in a thread."""

from __future__ import annotations

import contextlib
import threading
import time
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


@dataclass(slots=True, eq=False)
class Watch:
    """Reads both metrics pages in a thread during a ``with`` block: at its beginning, then with pauses of `every_s` seconds.

    The block's end waits for a reading under way. Use an object once.

    Args:
        engine: address of an emulator with one barrier group.
        gateway: address of a gateway's admin page; None = there is no gateway.
        processes: ids, by name, of the processes whose CPU time is read.
        samples: readings so far, oldest first; failed ones are left out.
    """

    engine: Target
    gateway: Target | None
    processes: dict[str, int] = field(default_factory=dict[str, int])
    every_s: float = 0.25
    samples: list[Sample] = field(default_factory=list[Sample])
    _over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread = field(init=False)

    def __enter__(self) -> None:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def read(self) -> Sample:
        """Read both pages once, and return the figures without adding them to `samples`.

        If the emulator's page cannot be read, or lacks its steps, `EvenstepError` is raised. If the gateway's page cannot be
        read, its figures are empty.
        """
        engine = _figures(self.engine, _ENGINE)
        if missing := [_ENGINE[key] for key in _SHARED if key not in engine]:
            raise EngineError(f"metrics page: {missing[0]} is missing; expected a number.")
        for key in _SHARED:
            engine[key] /= engine["ranks"]
        at_s = time.monotonic()
        gateway: dict[str, float] = {}
        if self.gateway is not None:
            with contextlib.suppress(EvenstepError):
                gateway = _figures(self.gateway, _GATEWAY)
        return Sample(at_s, engine, gateway, {name: cpu_s(pid) for name, pid in self.processes.items()})

    def _run(self) -> None:
        """Add readings to `samples` until the block ends; failed ones are skipped."""
        while not self._over.is_set():
            with contextlib.suppress(EvenstepError):
                self.samples.append(self.read())
            self._over.wait(self.every_s)


def _figures(target: Target, names: dict[str, str]) -> dict[str, float]:
    """Sum of each metric's lines on a metrics page, by its key in `names`; ``ranks`` = number of lines of the first."""
    _, page = get(target, "/metrics")
    told = lines(page, wanted(names.values()))
    found: dict[str, float] = {"ranks": float(sum(line.name == next(iter(names.values())) for line in told))}
    for key, name in names.items():
        if values := [line.value for line in told if line.name == name]:
            found[key] = sum(values)
    return found
