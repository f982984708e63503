"""What predictors are asked and taught in tests."""

from __future__ import annotations

import numpy as np

from evenstep.predict.view import NOTHING, Active, Finished


def ints(*values):
    return np.array(values, dtype=np.int64)


def active(*ages, first=0, key=0, prompt=10, cap=0):
    """Running requests first, first + 1, ... of these ages, all of one prompt."""
    n = len(ages)
    alike = [np.full(n, value, np.int64) for value in (prompt, key, cap)]
    return Active(np.arange(first, first + n), ints(*ages), *alike, NOTHING)


def finished(*lengths, first=1000, key=0, prompt=10):
    """Completions of these output lengths, requests first, first + 1, ..., all of one prompt."""
    n = len(lengths)
    return Finished(np.arange(first, first + n), np.full(n, prompt, np.int64), ints(*lengths), np.full(n, key, np.int64))


def both_stages(lengths, age, horizon):
    """p and mu by the words of the definition, from a list; None where nothing is known."""
    survivors = [o for o in lengths if o > age]
    if not survivors:
        return None
    inside = [o - age for o in survivors if o <= age + horizon]
    return len(inside) / len(survivors), sum(inside) / len(inside) if inside else float(horizon)
