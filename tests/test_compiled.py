"""The door to numba."""

from __future__ import annotations

import importlib
import math
import os
import re
import resource
import subprocess
import sys
import types
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from evenstep import compiled, names, numba_internals
from evenstep.errors import InputError


@dataclass(frozen=True)
class Parameters:
    horizon: int = 3
    discount: float = 0.5
    exact: bool = True
    bound: float | None = None
    order: Literal["margin", "free-slots"] = "free-slots"


@dataclass(frozen=True)
class Numbers:
    few: tuple[float, ...] = (2.0, 0.5)
    none: tuple[float, ...] = ()
    more: int = 7


@dataclass(frozen=True)
class Words:
    name: str = "free text"


def test_fields_become_numbers_in_the_order_they_are_declared():
    found = compiled.parameters(Parameters())
    assert found.dtype == np.float64
    assert found[:3].tolist() == [3.0, 0.5, 1.0]
    assert math.isnan(found[3])
    assert found[4] == 1.0


def test_a_tuple_of_numbers_is_led_by_its_length():
    assert compiled.parameters(Numbers()).tolist() == [2.0, 2.0, 0.5, 0.0, 7.0]


def test_a_choice_that_cannot_be_numbered_is_refused():
    with pytest.raises(TypeError, match="not a Literal"):
        compiled.parameters(Words())


def test_the_mode_says_what_runs_the_kernels():
    assert compiled.mode().startswith("numba ")


CHECKED = """
import numpy as np
from evenstep import compiled as c

def at(values, place):
    return values[place]

at = c.numba.njit(boundscheck=c.CHECKED, _nrt=False)(at)
print(c.mode(), c.kernel_cache.place().folder.parent.name)
for call in (lambda: at(np.arange(4), 4), lambda: at(b"abcd", 4), lambda: c.check(False)):
    try:
        call()
    except IndexError:
        print("refused")
assert at(np.arange(4), 3) == 3 and at(b"abcd", 3) == 100
"""


@pytest.mark.slow
def test_the_checked_build_refuses_indices_outside_their_arrays_and_has_a_cache_of_its_own():
    seen = subprocess.run(
        [sys.executable, "-c", CHECKED],
        env=os.environ | {"EVENSTEP_CHECKED": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    first, *rest = seen.stdout.splitlines()
    assert first.endswith("checked (slow) checked"), seen.stderr
    assert rest == ["refused"] * 3 and not seen.returncode, seen.stderr


def test_without_numba_kernels_are_plain_python_with_the_same_bits():
    code = (
        "from evenstep import compiled, streams, draws as k; import numpy as np\n"
        "np.seterr(over='ignore')\n"
        "assert compiled.mode() == 'plain Python (slow)'\n"
        "print(float(k.uniform(7, streams.stream_number('p2c'), 3, 1)) == streams.uniform(7, 'p2c', 3, 1))"
    )
    seen = subprocess.run(
        [sys.executable, "-c", code], env={"EVENSTEP_PLAIN": "1"}, capture_output=True, text=True, check=False
    )
    assert seen.stdout == "True\n", seen.stderr


def test_a_policy_without_a_rule_has_no_kernel():
    assert compiled.kernel_of(3) is None and compiled.kernel_file(3) is None


def test_a_kernel_handed_over_by_its_address_gives_the_same_bits():
    from evenstep.request import Trace
    from evenstep.scheduling.policies.vllm import Vllm
    from evenstep.sim.engine import host as engine_host
    from evenstep.sim.engine.simulation import Engine, simulate_engine

    trace = Trace(prompt_tokens=np.arange(1, 40), output_tokens=np.arange(1, 40)[::-1].copy())
    engine = Engine(kv_tokens=200, token_budget=16)
    usual = simulate_engine(trace, Vllm(), engine=engine).digest
    made = engine_host.Course.__init__

    def often(self, *args):
        made(self, *args)
        self.called_often()

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(engine_host.Course, "__init__", often)
        assert simulate_engine(trace, Vllm(), engine=engine).digest == usual


def compiled_code_in(function, path=(), seen=None):
    """Paths by which a function reaches compiled code through its globals."""
    seen = set() if seen is None else seen
    if function in seen:
        return
    seen.add(function)
    for name in function.__code__.co_names:
        value = function.__globals__.get(name)
        for one in vars(value).values() if isinstance(value, types.SimpleNamespace) else [value]:
            if hasattr(one, "py_func"):
                yield (*path, function.__name__, name)
            elif isinstance(one, types.FunctionType) and one.__module__.startswith("evenstep"):
                yield from compiled_code_in(one, (*path, function.__name__), seen)
        if isinstance(value, types.ModuleType):
            used = [getattr(value, attribute, None) for attribute in function.__code__.co_names]
            if any(hasattr(one, "py_func") for one in used):
                yield (*path, function.__name__, name)


@pytest.mark.parametrize(
    ("room", "name", "entry"),
    [
        (room, name, entry)
        for room, entry in (("routing", "route"), ("scheduling", "form_batch"))
        for name in names.members(room)
    ],
)
def test_the_plain_form_of_a_rule_reaches_no_compiled_code(room, name, entry):
    """`policy check` compares the two forms: a kernel left compiled would be compared with itself."""
    module = importlib.import_module(f"evenstep.{room}.policies.{name.replace('-', '_')}")
    assert not [*compiled_code_in(compiled.as_plain(getattr(module, entry)))]


_LIMITED = pytest.mark.skipif(
    sys.platform != "linux" or not (Path(np.__file__).parents[1] / "scipy.libs").is_dir(),
    reason="the limit is checked on Linux, with SciPy's own OpenBLAS",
)


def limited(code: str, limit: str) -> subprocess.CompletedProcess[str]:
    """A process that imports `compiled`, sets its limit of memory to an expression of `used`, both in MiB, and runs `code`."""
    code = (
        "import resource, sys; from pathlib import Path; import evenstep.compiled; from evenstep.cli.main import main;"
        "used = int(Path('/proc/self/statm').read_text().split()[0]) * resource.getpagesize() >> 20;"
        f"resource.setrlimit(resource.RLIMIT_AS, (({limit}) << 20, -1)); {code}"
    )
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=100, env=environment
    )


@_LIMITED
def test_a_limit_of_memory_with_which_scipy_would_never_end_loading_is_one_error():
    """SciPy's OpenBLAS asked for memory again and again, so that `evenstep compare` never ended."""
    ended = limited("sys.exit(main(['compare', 'sample:azure-conv', '--limit', '20']))", "used + 60")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert re.fullmatch(
        r"evenstep: limit of memory \(ulimit -v\) is '\d+ MiB'; expected at least \d+ MiB\. "
        r"Raise it, or set OPENBLAS_NUM_THREADS=1\.\n",
        ended.stderr,
    )


@_LIMITED
def test_a_limit_of_memory_does_not_refuse_commands_that_run_no_kernel():
    """`policy list` said of each policy that it could not be used."""
    ended = limited("sys.exit(main(['policy', 'list']))", "used + 60")
    assert (ended.returncode, ended.stderr) == (0, "") and "cannot be used" not in ended.stdout


@_LIMITED
@pytest.mark.parametrize(
    ("name", "asked", "refused"),
    [
        ("GOTO_NUM_THREADS", "0", True),
        ("OPENBLAS_NUM_THREADS", "100", True),
        ("OPENBLAS_NUM_THREADS", " 8", False),
        ("OMP_NUM_THREADS", "8,2", False),
    ],
)
def test_a_limit_of_memory_is_judged_by_the_threads_that_openblas_starts(monkeypatch, name, asked, refused):
    """On many cores, runs were refused that had worked with OMP_NUM_THREADS, or because OpenBLAS starts at most 64."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limits = {resource.RLIMIT_STACK: 8 << 20, resource.RLIMIT_AS: used + (2500 << 20)}
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (limits[kind], -1))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(192)))
    monkeypatch.delitem(sys.modules, "scipy.linalg", raising=False)
    for each in numba_internals._THREADS:
        monkeypatch.delenv(each, raising=False)
    monkeypatch.setenv(name, asked)
    with pytest.raises(InputError, match="ulimit") if refused else nullcontext():
        numba_internals._check_memory()
    limits[resource.RLIMIT_AS] += 200 << 20
    numba_internals._check_memory()
