"""Sweeps. ``from evenstep.experiments.sweep import sweep`` is the promised path (docs/reference/python.md)."""

from evenstep.experiments.sweep.sweeping import sweep

__all__ = ["sweep"]
