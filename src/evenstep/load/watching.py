"""Polls the metrics pages of engines and a gateway during a run, in a thread."""

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

#: Metrics an emulator reports for each rank, and metrics a gateway reports.
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
#: A page of which ranks share what they tell: their sum says it as often as there are ranks.
_SHARED = ("steps", "stepped_s", "late")


@dataclass(frozen=True, slots=True)
class Sample:
    """Both pages at one time; sums over ranks, except for values that a barrier group has in common.

    Args:
        at_s: of `time.monotonic`.
        engine: figures of the emulator: ``running`` requests, and since its start ``steps``, ``stepped_s`` (seconds in
            them), ``busy_s`` (of all ranks together), ``late`` steps and output ``tokens``; and the number of ``ranks``.
        gateway: ``oldest_s`` and ``depth`` of its pool, and since its start ``idle_device_s``, ``steps``, ``rounds`` and
            ``fallbacks``; unreported ones are missing, or all while it does not answer.
        cpu_s: CPU seconds of each watched process since its start, by its name; nan if the system does not say.
    """

    at_s: float
    engine: dict[str, float]
    gateway: dict[str, float]
    cpu_s: dict[str, float] = field(default_factory=dict[str, float])


@dataclass(slots=True, eq=False)
class Watch:
    """Reads pages during a ``with`` block, in a thread: at its beginning, and every `every_s` seconds. Use it once.

    Args:
        engine: an emulator with one barrier group.
        gateway: a gateway's page; None without a gateway.
        processes: process ids by name, whose CPU time is measured.
        every_s: seconds between readings.
        samples: the readings so far, oldest first; one that failed is missing.
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
        """Read both pages once, and return the figures; `samples` stays as it is.

        Raises:
            EvenstepError: the engines' page cannot be read. If the gateway's cannot, its figures are empty.
        """
        engine = _figures(self.engine, _ENGINE)
        if missing := [_ENGINE[key] for key in _SHARED if key not in engine]:
            raise EngineError(f"metrics page: {missing[0]} is missing; expected a number.")
        for key in _SHARED:
            engine[key] /= engine["ranks"]
        at_s = time.monotonic()
        gateway: dict[str, float] = {}
        if self.gateway is not None:
            with contextlib.suppress(EvenstepError):  # the figures of engines are known anyway
                gateway = _figures(self.gateway, _GATEWAY)
        return Sample(at_s, engine, gateway, {name: cpu_s(pid) for name, pid in self.processes.items()})

    def _run(self) -> None:
        while not self._over.is_set():
            with contextlib.suppress(EvenstepError):  # a page that is late is read the next time
                self.samples.append(self.read())
            self._over.wait(self.every_s)


def _figures(target: Target, names: dict[str, str]) -> dict[str, float]:
    """Sums by key, and the number of lines of the first one as ``ranks``."""
    _, page = get(target, "/metrics")
    told = lines(page, wanted(names.values()))
    found: dict[str, float] = {"ranks": float(sum(line.name == next(iter(names.values())) for line in told))}
    for key, name in names.items():
        if values := [line.value for line in told if line.name == name]:
            found[key] = sum(values)
    return found
