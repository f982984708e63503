"""A tiny sweep for the tests."""

from __future__ import annotations

from typing import Any

from evenstep.experiments.progress import Progress

TINY: dict[str, Any] = {
    "source": "sample:azure-conv",
    "fixed": {"limit": 60, "slots": 4, "seeds": 2},
    "over": {"workers": [2, 4]},
    "policies": ["jsq", "br-0"],
}


def tiny(**changes: Any) -> dict[str, Any]:
    """The tiny sweep with other keys."""
    return {**TINY, **changes}


class Heard(Progress):
    """Remembers what it is told; may stop the sweep as Ctrl-C would.

    Args:
        stop_after: runs after which it does.
    """

    def __init__(self, stop_after: int | None = None) -> None:
        self.lines: list[str] = []
        self.labels: list[str] = []
        self._stop_after = stop_after

    def say(self, line: str) -> None:
        self.lines.append(line)

    def advance(self, label: str) -> None:
        self.labels.append(label)
        if len(self.labels) == self._stop_after:
            raise KeyboardInterrupt
