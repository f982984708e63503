"""Stop texts: decides how much of an answer may be shown while a stop text may still be coming."""

from __future__ import annotations


class Stopping:
    """Watches one answer for its stop texts.

    Args:
        stops: one or more texts, each not empty; the one that is complete first ends the answer. Of several complete at
            once it is the first to begin, then the longest.
    """

    def __init__(self, stops: tuple[str, ...]) -> None:
        self._stops = stops
        self._held = ""

    def feed(self, text: str) -> tuple[str, str | None]:
        """Add text; returns the text that may be shown now, and the stop text if one is complete, else None.

        What could be the beginning of a stop text is held back; nothing of a stop text itself is ever shown.
        """
        self._held += text
        places = [(self._held.find(stop), -len(stop), stop) for stop in self._stops if stop in self._held]
        if places:
            place, _, stop = min(places)
            shown, self._held = self._held[:place], ""
            return shown, stop
        keep = max(_overlap(self._held, stop) for stop in self._stops)
        shown, self._held = self._held[: len(self._held) - keep], self._held[len(self._held) - keep :]
        return shown, None

    def rest(self) -> str:
        """The text held back, to be shown if the answer ends for another reason; it is held no longer."""
        rest, self._held = self._held, ""
        return rest


def _overlap(text: str, stop: str) -> int:
    """Length of the longest end of a text that begins a stop text."""
    for size in range(min(len(text), len(stop) - 1), 0, -1):
        if text.endswith(stop[:size]):
            return size
    return 0
