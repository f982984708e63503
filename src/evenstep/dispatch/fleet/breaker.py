"""Ejects failing engines for a while: counts failures that are the engine's own, and probes.

A refused connection is the engine's failure. Any other failure may be caused by the prompt: it counts against the engine
once another engine has answered the same request. It is forgotten if the request ends before that. Faults of clients never
count. The last healthy engine of a role is never ejected.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

State: TypeAlias = Literal["closed", "open"]


@dataclass(slots=True)
class Circuit:
    """The circuit breaker of one engine."""

    failures: int = 0  # failures in a row that count against the engine
    state: State = "closed"  # ``closed`` = it gets requests; ``open`` = ejected
    cooldown_s: float = 0.0  # seconds from its ejection, or last bad probe, to the probe after it


class Breaker:
    """Circuit breakers of all engines, by the engine's name. It only says when to eject and probe; `Fleet` acts.

    Args:
        failures: failures in a row after which an engine is ejected.
        cooldown_s, cap_s: seconds before it is probed, doubled after each bad probe, and the longest such wait.

    Attributes:
        circuits: name -> circuit of each engine in the fleet.
        failing: names of engines with a counted failure since they last answered.
    """

    def __init__(self, failures: int, cooldown_s: float, cap_s: float) -> None:
        self.failures, self.cooldown_s, self.cap_s = failures, cooldown_s, cap_s
        self.circuits: dict[str, Circuit] = {}
        self.failing: set[str] = set()
        self._doubted: dict[int, list[str]] = {}  # request -> engines it failed on, perhaps by its own fault

    def limits(self, failures: int, cooldown_s: float, cap_s: float) -> None:
        """Set other limits, as in the constructor, from the next failure on; an ejected engine keeps its `cooldown_s`."""
        self.failures, self.cooldown_s, self.cap_s = failures, cooldown_s, cap_s

    def add(self, name: str) -> None:
        self.circuits[name] = Circuit()

    def remove(self, name: str) -> None:
        del self.circuits[name]
        self.failing.discard(name)

    def failed(self, name: str, request: int, is_certain: bool) -> bool:
        """Note a failed call to this engine, and return whether the engine should be ejected now.

        It counts at once if `is_certain`. Else the request itself may be the cause: the failure waits for `answered` or
        `forget`, and False is returned.
        """
        if is_certain:
            return self._count(name)
        self._doubted.setdefault(request, []).append(name)
        return False

    def answered(self, name: str, request: int) -> list[str]:
        """Note that the engine `name` answered a request: the request's failures in doubt now count against other engines.

        The engine's own failures in a row become 0. Returns the other engines to eject now, usually an empty list.
        """
        if name in self.failing:
            self.failing.discard(name)
            self.circuits[name].failures = 0
        if not self._doubted:
            return []
        blamed = self._doubted.pop(request, [])
        return [other for other in blamed if other != name and other in self.circuits and self._count(other)]

    def forget(self, request: int) -> None:
        """Drop the failures in doubt of a request that is over; they never count against an engine."""
        self._doubted.pop(request, None)

    def eject(self, name: str) -> float:
        """Open the engine's circuit; returns the seconds until it is to be probed, which the caller schedules."""
        circuit = self.circuits[name]
        circuit.state, circuit.cooldown_s = "open", min(self.cap_s, self.cooldown_s)
        return circuit.cooldown_s

    def probed(self, name: str, ok: bool) -> float:
        """Handle a probe's result: `ok` closes the circuit with no failures, else its cooldown doubles, up to `cap_s`.

        Returns the seconds until the next probe; 0 if the engine is back.
        """
        circuit = self.circuits[name]
        if ok:
            self.circuits[name] = Circuit()
            self.failing.discard(name)
            return 0.0
        circuit.cooldown_s = min(self.cap_s, 2 * max(circuit.cooldown_s, 0.001))
        return circuit.cooldown_s

    def is_ejected(self, name: str) -> bool:
        return self.circuits[name].state != "closed"

    def _count(self, name: str) -> bool:
        """Count one failure against the engine; returns whether it should be ejected now."""
        circuit = self.circuits[name]
        circuit.failures += 1
        self.failing.add(name)
        return circuit.failures >= self.failures and circuit.state == "closed"
