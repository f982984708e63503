"""A pytest plugin: every module of `src` must be run by some test (``pytest --every-module-runs``, in `make test-full`).

A module is run when one of its functions or methods starts in a process of the tests. The profiler of the standard library
sees that. It makes tests up to 1.7 times as slow, so only the full tier asks, and slow tests do not count. Three kinds of module cannot show it and count as run when a module that
ran imports them: those that define no function, those whose functions are compiled (``*_kernel.py``, and files with
``@rule``), and those that run in processes of their own (`ELSEWHERE`).
"""

from __future__ import annotations

import ast
import cProfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.house import SOURCE, House

#: Modules that only other processes run: the vLLM plug-in is loaded by vLLM's own.
ELSEWHERE = ("plugins/",)


class Executed:
    """Notes which modules run; the process that leads the others judges."""

    def __init__(self) -> None:
        self.profiler = cProfile.Profile(builtins=False)
        self.ran: set[str] = set()

    def pytest_sessionstart(self) -> None:
        self.profiler.enable()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item):
        """Leaves the slow tests alone: they run for minutes what others run for moments."""
        if item.get_closest_marker("slow") is None:
            return (yield)
        self.profiler.disable()
        try:
            return (yield)
        finally:
            self.profiler.enable()

    def pytest_testnodedown(self, node: Any) -> None:
        self.ran |= set(getattr(node, "workeroutput", {}).get("modules_run", ()))

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        self.profiler.disable()
        # a module's own top level is a code object too: importing is not running
        entries: Iterable[Any] = self.profiler.getstats()
        self.ran |= {
            e.code.co_filename for e in entries if getattr(e.code, "co_name", "<module>") != "<module>"
        }
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput["modules_run"] = sorted(self.ran)
            return
        left = never_run(House(), self.ran)
        if left:
            print(f"\nmodules that no test runs: {', '.join(left)}")
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


def never_run(house: House, ran: Iterable[str]) -> list[str]:
    """Modules that no test ran.

    Args:
        house: the sources.
        ran: files of which a function started.
    """
    files = {Path(name) for name in ran}
    counted = {module for module, file in house.file_of.items() if file in files}
    silent = {
        module
        for module, file in house.file_of.items()
        if module not in counted and not speaks(house.tree[file], file, house.root)
    }
    counted |= reached(house.imports, counted, silent)
    return [
        str(file.relative_to(house.root))
        for module, file in house.file_of.items()
        if module not in counted and file.name not in {"__init__.py", "__main__.py"}
    ]


def speaks(tree: ast.Module, file: Path, root: Path = SOURCE) -> bool:
    """Whether a module has functions that a profiler of this process would see."""
    if file.name.endswith("_kernel.py") or file.relative_to(root).as_posix().startswith(ELSEWHERE):
        return False
    return any(
        isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and not any(
            "rule" in ast.unparse(mark) or "kernel" in ast.unparse(mark) for mark in node.decorator_list
        )
        for node in ast.walk(tree)
    )


def reached(imports: Mapping[str, set[str]], ran: set[str], silent: set[str]) -> set[str]:
    """Silent modules that are imported by one that ran, or by another such."""
    found, new = set[str](), ran
    while new:
        new = {other for module in new for other in imports[module] if other in silent} - found
        found |= new
    return found
