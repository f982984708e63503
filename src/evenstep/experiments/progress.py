"""The display of a running comparison: a bar on a terminal, and lines.

The bar and the lines go to stderr. If stderr is not a terminal there is no bar, and lines go elsewhere or nowhere, so that
an error is the only line there.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, TextIO

from evenstep import compiled, kernel_cache


class Progress(Protocol):
    """The messages of a comparison for its display."""

    def begin(self, total: int) -> None:
        """That many runs are ahead."""
        ...

    def say(self, line: str) -> None:
        """Something worth a line."""
        ...

    def advance(self, label: str) -> None:
        """A run of this contender has ended."""
        ...

    def hide(self) -> None:
        """Something else is about to be printed."""
        ...

    def show(self) -> None:
        """It has been."""
        ...

    def end(self) -> None: ...


class Silent:
    """Watches nothing."""

    def begin(self, total: int) -> None: ...
    def say(self, line: str) -> None: ...
    def advance(self, label: str) -> None: ...
    def hide(self) -> None: ...
    def show(self) -> None: ...
    def end(self) -> None: ...


class Bar:
    """A bar of runs on a terminal; only the lines elsewhere.

    Args:
        stream: the terminal, if it is one; stderr when left out.
        lines: takes the lines where `stream` is no terminal; None = they are not shown.
    """

    def __init__(self, stream: TextIO | None = None, lines: TextIO | None = None) -> None:
        self._stream = stream if stream is not None else sys.stderr
        self._lines = self._stream if self._stream.isatty() else lines
        self._bar: Any = None
        self._task: Any = None

    def begin(self, total: int) -> None:
        if not self._stream.isatty():
            return
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=Console(file=self._stream),
            transient=True,
            auto_refresh=False,
            redirect_stdout=False,  # what goes to stdout stays there
            redirect_stderr=False,
        )
        self._bar.start()
        self._task = self._bar.add_task("starting", total=total)
        self._bar.refresh()

    def say(self, line: str) -> None:
        if self._bar is not None:
            self._bar.console.print(line, highlight=False, markup=False)
        elif self._lines is not None:
            print(line, file=self._lines, flush=True)

    def advance(self, label: str) -> None:
        if self._bar is not None:
            self._bar.update(self._task, advance=1, description=label, refresh=True)

    def hide(self) -> None:
        if self._bar is not None:
            self._bar.stop()

    def show(self) -> None:
        if self._bar is not None:
            self._bar.start()
            self._bar.refresh()

    def end(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def cold_kernels(policies: Sequence[object], loops: Sequence[str]) -> list[list[str]]:
    """For each policy the modules the disk cache does not have: its run's loop, and its kernel if it is one of ours.

    Args:
        policies: the policies to be run.
        loops: for each the loop its run takes (`cluster.host.loop_of`).
    """
    found: list[list[str]] = []
    for policy, loop in zip(policies, loops, strict=True):
        module, file = type(policy).__module__, compiled.kernel_file(policy)
        needed = [] if _in_cache(_loop_file(loop)) else [loop]
        if module.startswith("evenstep.") and file is not None and not _in_cache(file):
            needed.append(module)
        found.append(needed if compiled.numba is not None else [])
    return found


def compile_notice() -> str:
    """A line that says that kernels cannot be compiled; empty where they can."""
    if compiled.numba is None:
        return f"kernels run as {compiled.mode()}: install numba for compiled ones"
    return ""


def _loop_file(module: str) -> Path:
    return kernel_cache.ROOT.parent.joinpath(*module.split(".")).with_suffix(".py")


def _in_cache(file: Path) -> bool:
    """Whether the disk cache has this file's kernels."""
    return kernel_cache.place().has(file)
