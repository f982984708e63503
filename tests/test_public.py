"""What `import evenstep` promises, and what it must not cost."""

from __future__ import annotations

import subprocess
import sys

import pytest

import evenstep

HEAVY = (
    "numba",
    "numpy",
    "scipy",
    "pyarrow",
    "matplotlib",
    "highspy",
    "yaml",
    "rich",
    "msgspec",
    "orjson",
    "aiohttp",
    "lightgbm",
    "ray",
    "textual",
)


def test_the_public_names_are_these():
    assert evenstep.__all__ == [
        "HOLD",
        "Cluster",
        "EvenstepError",
        "InputError",
        "Linear",
        "RoutingDecision",
        "RoutingView",
        "Run",
        "Trace",
        "compare",
        "read_trace",
        "simulate",
    ]


@pytest.mark.parametrize("name", evenstep.__all__)
def test_every_public_name_resolves_and_says_what_it_is(name):
    assert getattr(evenstep, name) is not None
    assert name in dir(evenstep)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = evenstep.nothing


def test_importing_evenstep_loads_nothing_heavy():
    code = f"import sys, evenstep; print(sorted(set({HEAVY!r}) & set(sys.modules)))"
    seen = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert seen.stdout == "[]\n"


def test_the_version_is_the_one_of_the_package():
    from importlib.metadata import version

    assert evenstep.__version__ == version("evenstep")
