"""The progress bar of ``load`` and ``demo``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evenstep.load.run import Progress


class LoadBar:
    """A progress bar on stderr, from the first `show` to `end`; if stderr is not a terminal, nothing is shown."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._task: Any = None

    def show(self, at: Progress, name: str = "") -> None:
        """Draw the progress of a run, with `name` before it. The first call, and the first after `end`, starts a new bar."""
        if not sys.stderr.isatty():
            return
        if self._bar is None:
            from evenstep.experiments.progress import rich_bar

            self._bar = rich_bar(sys.stderr)
            self._bar.start()
            self._task = self._bar.add_task("", total=at.total)
        rate = at.tokens / at.now_s if at.now_s > 0 else 0.0
        failed = f", {at.failed:,} failed" if at.failed else ""
        said = f"{name}{': ' if name else ''}{at.running:,} under way, {rate:,.0f} tokens/s{failed}"
        self._bar.update(self._task, completed=at.done, description=said, refresh=True)

    def say(self, line: str) -> None:
        """Print a line on stderr if that is a terminal; call it only before the first `show`."""
        if sys.stderr.isatty():
            print(line, file=sys.stderr, flush=True)

    def end(self) -> None:
        """Remove the bar from the terminal, if there is one; the next `show` starts a new one."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
