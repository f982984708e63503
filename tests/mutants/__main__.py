"""`python -m tests.mutants routing/policies/least_load`: change a module one operator at a time, and see whether its tests notice.

Runs the module's own test file and the contracts of its room for each mutant in a process of its own; a part of a rule
(`routing/bf_io/gains`) has the tests of the rule. All code runs as plain Python if the module has compiled functions. Prints
each mutant that survives. Exit code 1 where more than one in ten does.
"""

from __future__ import annotations

import argparse
import importlib
import math
import os
import random
import re
import resource
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
LEAST_CAUGHT = 0.9
#: A function that numba compiles. A changed one must run plain: the cache holds the kernel of the file as it is.
COMPILED = re.compile(r"^\s*@(?:\w+\.)?(?:part|rule|jit|declared|inlined|compiled|\w+_kernel)\b|\bdeclared\(", re.MULTILINE)
#: CPU seconds that tests may take, and how many times as long as without a mutant: a busy machine notices no mutant.
PATIENCE_S, LONGER = 120, 10


def main() -> int:
    asked = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__.splitlines()[0])
    asked.add_argument("module", help="room/name, as in src/evenstep")
    asked.add_argument("--functions", nargs="*", help="only these; default: all of the module")
    asked.add_argument("--tests", nargs="*", help="test files; default: the module's own, and its room's contracts")
    asked.add_argument("--most", type=int, default=0, help="mutants to try, drawn by chance; 0 = all")
    asked.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    found = asked.parse_args()
    from tests.mutants.mutate import mutants

    path = ROOT / "src" / "evenstep" / f"{found.module}.py"
    room, name = found.module.split("/")[0], found.module.split("/")[-1]
    files = sorted((ROOT / "tests" / room).rglob(f"test_{name}.py"))[:1]
    if not files and path.parent.name != room:  # a part of a rule: the tests of the rule
        name = path.parent.name
        files = [one for one in sorted((ROOT / "tests" / room).rglob(f"test_{name}*.py")) if "oracle" not in one.name]
    tests = found.tests or [*(str(file.relative_to(ROOT)) for file in files), f"tests/contracts/test_{room}.py"]
    source = path.read_text(encoding="utf-8")
    if COMPILED.search(source):
        os.environ["EVENSTEP_PLAIN"] = "1"
    every = list(mutants(source, set(found.functions) if found.functions else None))
    if found.most:
        every = sorted(random.Random(0).sample(every, min(found.most, len(every))), key=lambda one: one.line)
    module = "evenstep." + found.module.replace("/", ".")
    for needed in ("pytest", "hypothesis", "numpy.testing", module):  # once, in place of once in each process
        importlib.import_module(needed)
    if run(module, None, tests, name, PATIENCE_S):
        print(f"{found.module}: its tests fail, or take {PATIENCE_S} s of CPU, without any change; mend that first")
        return 2
    patience_s = min(PATIENCE_S, 10 + LONGER * math.ceil(resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime))
    with ThreadPoolExecutor(found.processes) as pool:
        verdicts = list(pool.map(lambda one: run(module, one.source, tests, name, patience_s), every))
    survived = [one for one, is_caught in zip(every, verdicts, strict=True) if not is_caught]
    for one in survived:
        print(f"survived  {path.relative_to(ROOT)}:{one.line}  {one.said}")
    share = 1 - len(survived) / len(every) if every else 1.0
    print(f"{found.module}: {len(every) - len(survived)} of {len(every)} mutants caught ({share:.0%})")
    return int(share < LEAST_CAUGHT)


def run(module: str, source: str | None, tests: list[str], name: str, patience_s: int) -> bool:
    """Whether the tests fail, or take too long, on a module with this source; None = as it is."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0
    resource.setrlimit(resource.RLIMIT_CPU, (patience_s, patience_s))  # an endless loop is noticed, too
    signal.alarm(30 * PATIENCE_S)
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    try:
        import pytest

        if source is not None:
            made = importlib.import_module(module)
            exec(compile(source, str(made.__file__), "exec"), vars(made))
        paths = [path for path in tests if (ROOT / path).exists()]
        only = ["-k", f"{name} or {name.replace('_', '-')}"]  # of the contracts, those of this member
        code = pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *only, *paths])
    except BaseException:
        code = 1
    os._exit(int(code))


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main())
