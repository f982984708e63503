"""Notes on disk that a gateway's kernels are compiled, and checks it without importing the compiler."""

from __future__ import annotations

import os
from contextlib import suppress
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from evenstep import kernel_cache, names
from evenstep.errors import InputError


def is_compiled(policy: str, predictor: str) -> bool:
    """Whether all kernels for this policy and predictor, each as ``NAME[:key=value,...]``, were noted as being on disk.

    True as well if no kernel is needed: without numba, or with EVENSTEP_PLAIN=1. An unknown policy is not refused here.
    """
    if find_spec("numba") is None or os.environ.get("EVENSTEP_PLAIN") == "1":
        return True
    return kernel_cache.place().is_noted(_described(policy, predictor))


def note_compiled(policy: str, predictor: str) -> None:
    """Note on disk that these kernels are compiled; `is_compiled` is then True for both texts, until sources change."""
    if find_spec("numba") is not None:
        kernel_cache.place().note(_described(policy, predictor))


def _described(policy: str, predictor: str) -> str:
    """A policy, a predictor and the compiler; of a policy in a file its age, too."""
    file = Path()
    with suppress(InputError):  # it is refused soon
        file = Path(names.parse(policy)["name"].partition(":")[0])
    age = file.stat().st_mtime_ns if file.suffix == ".py" and file.is_file() else 0
    return f"gateway {policy} {predictor} {age} numba {version('numba')}"
