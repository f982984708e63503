"""Ejects failing engines for a while: counts failures that are the engine's own, and probes.

A refused connection is the engine's failure. Any other failure may be caused by the prompt: it counts against the engine
once the same request has got a token from another one. It is forgotten if the request fails everywhere. Faults of clients
never count. The last healthy engine is never ejected.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

State: TypeAlias = Literal["closed", "open", "probing"]


@dataclass(slots=True)
class Circuit:
    """The circuit breaker of one engine.

    Args:
        failures: in a row.
        state: ``closed`` = it gets requests; ``open`` = ejected; ``probing`` = ejected, and a probe was sent.
        cooldown_s: length of its next ejection.
    """

    failures: int = 0
    state: State = "closed"
    cooldown_s: float = 0.0


class Breaker:
    """Circuit breakers of all engines, by the engine's name.

    Args:
        failures: in a row, after which an engine is ejected.
        cooldown_s, cap_s: wait before it is probed, doubled after each bad probe, and the cap.

    Attributes:
        failing: engines that have failed since they last answered.
    """

    def __init__(self, failures: int, cooldown_s: float, cap_s: float) -> None:
        self.failures, self.cooldown_s, self.cap_s = failures, cooldown_s, cap_s
        self.circuits: dict[str, Circuit] = {}
        self.failing: set[str] = set()
        self._doubted: dict[int, list[str]] = {}  # request -> engines it failed on, perhaps by its own fault

    def limits(self, failures: int, cooldown_s: float, cap_s: float) -> None:
        """Set other limits, from the next failure on."""
        self.failures, self.cooldown_s, self.cap_s = failures, cooldown_s, cap_s

    def add(self, name: str) -> None:
        self.circuits[name] = Circuit(cooldown_s=self.cooldown_s)

    def remove(self, name: str) -> None:
        del self.circuits[name]
        self.failing.discard(name)

    def failed(self, name: str, request: int, is_certain: bool) -> bool:
        """Count a failed call to this engine, or keep it in doubt if the request itself may be the cause.

        Returns:
            Whether the engine should be ejected now.
        """
        if is_certain:
            return self._count(name)
        self._doubted.setdefault(request, []).append(name)
        return False

    def answered(self, name: str, request: int) -> list[str]:
        """Note that a request got a token here, so that its failures elsewhere count against those engines.

        Returns:
            The engines that should be ejected because of it.
        """
        if name in self.failing:
            self.failing.discard(name)
            self.circuits[name].failures = 0
        if not self._doubted:
            return []
        blamed = self._doubted.pop(request, [])
        return [other for other in blamed if other != name and other in self.circuits and self._count(other)]

    def forget(self, request: int) -> None:
        """Drop the doubtful failures of a request that is over; they remain unproven."""
        self._doubted.pop(request, None)

    def eject(self, name: str) -> float:
        """Open the engine's circuit; returns the seconds until it is probed."""
        circuit = self.circuits[name]
        circuit.state = "open"
        return circuit.cooldown_s

    def cooled(self, name: str) -> None:
        """Note that the engine's cooldown is over, and that a probe is sent."""
        self.circuits[name].state = "probing"

    def probed(self, name: str, ok: bool) -> float:
        """Handle a probe's result; returns the seconds until the next probe, 0 if the engine is back."""
        circuit = self.circuits[name]
        if ok:
            self.circuits[name] = Circuit(cooldown_s=self.cooldown_s)
            self.failing.discard(name)
            return 0.0
        circuit.cooldown_s = min(self.cap_s, 2 * max(circuit.cooldown_s, 0.001))
        circuit.state = "open"
        return circuit.cooldown_s

    def is_ejected(self, name: str) -> bool:
        return self.circuits[name].state != "closed"

    def _count(self, name: str) -> bool:
        circuit = self.circuits[name]
        circuit.failures += 1
        self.failing.add(name)
        return circuit.failures >= self.failures and circuit.state == "closed"
