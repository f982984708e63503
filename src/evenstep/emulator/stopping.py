"""Finds stop texts in an answer, and holds back text that may be the beginning of one."""

from __future__ import annotations


class Stopping:
    """Watches the text of one answer for its stop texts: `stops`, at least one, each not empty.

    The stop text that is complete first ends the answer. Of several that are complete at once, it is the one that begins
    first, then the longest.
    """

    def __init__(self, stops: tuple[str, ...]) -> None:
        self._stops = stops
        self._held = ""

    def feed(self, text: str) -> tuple[str, str | None]:
        """Add text; returns the text that may be shown now, and the stop text if one is complete, else None.

        Text that may be the beginning of a stop text is held back. A stop text and the text after it are dropped.
        """
        self._held += text
        places = [(self._held.find(stop), -len(stop), stop) for stop in self._stops if stop in self._held]
        if places:
            place, _, stop = min(places)
            shown, self._held = self._held[:place], ""
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
