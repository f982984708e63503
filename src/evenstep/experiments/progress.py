"""Shows the progress of a running comparison: a bar on a terminal, and lines.

Both go to stderr. If stderr is not a terminal there is no bar, and lines go to another stream or nowhere, so that an error
is the only line on stderr.
"""

from __future__ import annotations

import sys
from typing import Any, TextIO


class Progress:
    """Receives the messages of a comparison, and shows nothing. Subclasses override the messages that they show.

    The order is `begin`, then `advance` for each run, then `end`; a sweep may repeat it. `say` may come at any time.
    """

    def begin(self, total: int) -> None:
        """Called before the runs, with their total number."""

    def say(self, line: str) -> None:
        """Called with a line to be shown, without a newline at its end."""

    def advance(self, label: str) -> None:
        """Called when a run has ended; `label` is its contender's name."""

    def hide(self) -> None:
        """Called before other output is printed to the terminal; `show` follows."""

    def show(self) -> None:
        """Called after that other output was printed."""

    def end(self) -> None: ...


class Bar(Progress):
    """Shows a bar of runs on a terminal; in a file or a pipe only lines.

    Args:
        stream: where the bar is drawn if it is a terminal; None = stderr.
        lines: gets the lines of `say` if `stream` is no terminal; None = they are dropped.
    """

    def __init__(self, stream: TextIO | None = None, lines: TextIO | None = None) -> None:
        self._stream = stream if stream is not None else sys.stderr
        self._lines = self._stream if self._stream.isatty() else lines
        self._bar: Any = None
        self._task: Any = None

    def begin(self, total: int) -> None:
        if not self._stream.isatty():
            return
        from rich import progress
        from rich.console import Console

        shown = progress.TextColumn("{task.description}"), progress.BarColumn()
        counted = progress.MofNCompleteColumn(), progress.TimeElapsedColumn()
        # output to stdout stays there; output to stderr appears above the bar, which disappears when it is stopped
        options: dict[str, Any] = {"transient": True, "auto_refresh": False, "redirect_stdout": False}
        self._bar = progress.Progress(*shown, *counted, console=Console(file=self._stream, force_jupyter=False), **options)
        self._task = self._bar.add_task("starting", total=total)
        self.show()

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
