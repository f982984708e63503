"""Finds stop texts in an answer, and holds back text that may be the beginning of one."""

from __future__ import annotations


class Stopping:
    """Watches the text of one answer for its stop texts: `stops`, at least one, each not empty.

    The stop text that ends first ends the answer. Of several that end at the same character, it is the first in `stops`.
    """

    def __init__(self, stops: tuple[str, ...]) -> None:
        self._stops = stops
        self._held = ""

    def feed(self, text: str, may_stop: bool = True) -> tuple[str, str | None]:
        """Add text; returns the text that may be shown now, and the stop text if one ends in it, else None.

        Text that may be the beginning of a stop text is held back. A stop text and the text after it are dropped. Unless the
        answer `may_stop`, a stop text that ends in this text is text like any other.
        """
        before = len(self._held)
        self._held += text
        ends = [
            (place + len(stop), number)
            for number, stop in enumerate(self._stops if may_stop else ())
            if (place := self._held.find(stop, max(0, before - len(stop) + 1))) >= 0
        ]
        if ends:
            end, number = min(ends)
            stop = self._stops[number]
            shown, self._held = self._held[: end - len(stop)], ""
            return shown, stop
        held, size = self._held, len(self._held)
        keep = [k for stop in self._stops for k in range(1, min(len(stop), size + 1)) if held.endswith(stop[:k])]
        begins = size - max(keep, default=0)
        shown, self._held = held[:begins], held[begins:]
        return shown, None

    def rest(self) -> str:
        """Remove and return the text held back, to be shown if the answer ends without a stop text."""
        rest, self._held = self._held, ""
        return rest
