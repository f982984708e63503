"""The display of a running comparison: a bar on a terminal, and lines.

The bar and the lines go to stderr. If stderr is not a terminal there is no bar, and lines go elsewhere or nowhere, so that
an error is the only line there.
"""

from __future__ import annotations

import sys
from typing import Any, TextIO


class Progress:
    """Receives the messages of a comparison; this one shows nothing. Override what you want to show.

    The order is `begin`, then `advance` for each run, then `end`. `say` may come at any time.
    """

    def begin(self, total: int) -> None:
        """Called before the runs, with their total number."""

    def say(self, line: str) -> None:
        """Called with a line to be shown, without a newline at its end."""

    def advance(self, label: str) -> None:
        """Called when a run has ended; `label` is its contender's name."""

    def hide(self) -> None:
        """Called before something else is printed to the terminal; `show` follows."""

    def show(self) -> None:
        """Called after what `hide` made room for is printed."""

    def end(self) -> None: ...


def rich_bar(stream: TextIO, **options: Any) -> Any:
    """A `rich.progress.Progress` on a stream: text, bar, count and elapsed time.

    The caller starts and stops it, and refreshes it: it does not redraw by itself. It is removed when it stops. `options` go
    to its constructor.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as RichProgress

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return RichProgress(*columns, console=Console(file=stream), transient=True, auto_refresh=False, **options)


class Bar(Progress):
    """A bar of runs on a terminal; in a file or a pipe only lines.

    Args:
        stream: where the bar is drawn if it is a terminal; stderr when left out.
        lines: takes the lines where `stream` is no terminal; None = no lines are shown.
    """

    def __init__(self, stream: TextIO | None = None, lines: TextIO | None = None) -> None:
        self._stream = stream if stream is not None else sys.stderr
        self._lines = self._stream if self._stream.isatty() else lines
        self._bar: Any = None
        self._task: Any = None

    def begin(self, total: int) -> None:
        if not self._stream.isatty():
            return
        # what goes to stdout stays there; what goes to stderr comes above the bar
        self._bar = rich_bar(self._stream, redirect_stdout=False)
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
