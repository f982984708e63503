"""Records on disk that a gateway's kernels are compiled, and checks it without importing the compiler."""

from __future__ import annotations

import os
from contextlib import suppress
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from evenstep import kernel_cache, names
from evenstep.errors import InputError


def is_compiled(policy: str, predictor: str) -> bool:
    """Whether `note_compiled` recorded all kernels for this policy and predictor, each ``NAME[:key=value,...]``.

    True as well if no kernel is needed: without numba, or with EVENSTEP_PLAIN=1. An unknown policy raises nothing here.
    """
    if find_spec("numba") is None or os.environ.get("EVENSTEP_PLAIN") == "1":
        return True
    return kernel_cache.place().is_noted(_described(policy, predictor))


def note_compiled(policy: str, predictor: str) -> None:
    """Record that all kernels are compiled: `is_compiled` of the same texts is True until a source or numba changes."""
    if find_spec("numba") is not None:
        kernel_cache.place().note(_described(policy, predictor))


def _described(policy: str, predictor: str) -> str:
    """The text to record kernels by: policy, predictor, numba's version, and the time of the file if a policy is a file."""
    file = Path()
    with suppress(InputError):  # an invalid name is refused elsewhere
        file = Path(names.parse(policy)["name"].partition(":")[0])
    age = file.stat().st_mtime_ns if file.suffix == ".py" and file.is_file() else 0
    return f"gateway {policy} {predictor} {age} numba {version('numba')}"
