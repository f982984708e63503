"""Sweeps. ``from evenstep.experiments.sweep import sweep`` is the promised path (docs/reference/python.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evenstep.experiments.sweep.sweeping import sweep

__all__ = ["sweep"]


def __getattr__(name: str) -> Any:
    """Import `sweep` at its first use, so that a part of this package can be imported alone."""
    if name != "sweep":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from evenstep.experiments.sweep.sweeping import sweep

    return sweep
