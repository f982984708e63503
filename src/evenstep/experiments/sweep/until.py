"""The stopping rule for replicates: parses ``ci(idle_share) < 2%``, and evaluates it at a point.

The left side is half the 95 % interval of a metric's mean over replicates. The right side is a number in the metric's
own unit, or with ``%`` a share of the mean. Several conditions are joined by ``and``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from evenstep.errors import InputError, check_known
from evenstep.measure.comparison import Interval

_FORM = "ci(METRIC) < NUMBER, with % for a share of the mean, e.g. ci(idle_share) < 2%"
_TOKEN = re.compile(r"\s*(?:(?P<number>\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+)|(?P<word>\w+)|(?P<sign>[()<%]))")


@dataclass(frozen=True, slots=True)
class Until:
    """The stopping rule."""

    text: str  # as the user wrote it
    # at least one, which must all hold: metric (a field of the summary), limit, and True if the limit is a share of the
    # metric's mean (0.02 = 2 %); else it is in the metric's unit
    conditions: tuple[tuple[str, float, bool], ...]

    def holds(self, interval: Callable[[str], Interval | None]) -> bool:
        """True if, in all conditions, half the metric's interval is below the limit, or 0.

        `interval` gives a metric's interval, None where a replicate has no value. Without a value or an interval a condition
        does not hold.
        """

        def is_met(metric: str, limit: float, relative: bool) -> bool:
            found = interval(metric)
            if found is None or found.half is None:
                return False
            return found.half == 0 or found.half < limit * (abs(found.value) if relative else 1.0)

        return all(is_met(*condition) for condition in self.conditions)


def parse_until(text: str, metrics: Collection[str], where: str = "until") -> Until:
    """Parse a stopping rule: conditions ``ci(METRIC) < NUMBER``, or ``NUMBER%`` of the mean, joined by ``and``.

    `metrics` are the known names. `where` is the flag, or the line of the file, that has the text. `InputError`, with the
    position from 1, for an unknown metric, a number not above 0, or another unexpected word.
    """
    words = _words(text, where)
    found: list[tuple[str, float, bool]] = []
    place = 0

    def take(kind: str, expected: str) -> tuple[int, str]:
        nonlocal place
        position, actual, word = words[place]
        if actual != kind:
            raise _refused(where, text, position, word, expected)
        place += 1
        return position, word

    while True:
        take("ci", "`ci(`")
        take("(", "`(`")
        position, metric = take("word", "the name of a metric")
        check_known(where, f"metric at position {position}", metric, metrics, "a known metric")
        take(")", "`)`")
        take("<", "`<`")
        position, number = take("number", "a number")
        limit = float(number)
        if not 0 < limit < math.inf:
            raise _refused(where, text, position, number, "a number above 0")
        relative = words[place][1] == "%"
        place += relative
        found.append((metric, limit / 100 if relative else limit, relative))
        if words[place][1] == "end":
            return Until(text, tuple(found))
        take("and", "`%`, `and` or the end")


def next_count(count: int, most: int) -> int:
    """The next total number of replicates after `count`: half as many more, at least one more, but no more than `most`."""
    return min(most, count + max(1, count // 2))


def _words(text: str, where: str) -> Sequence[tuple[int, str, str]]:
    """(position from 1, kind, text) of every word and of the end; kind: ``word``, ``number``, ``end`` or the text."""
    found: list[tuple[int, str, str]] = []
    place = 0
    while text[place:].strip():
        match = _TOKEN.match(text, place)
        if match is None:
            start = place + len(text[place:]) - len(text[place:].lstrip())
            raise _refused(where, text, start + 1, text[start], "a name, a number or one of ( ) < %")
        group = str(match.lastgroup)
        word, place = match[group], match.end()
        found.append((match.start(group) + 1, word if group == "sign" or word in ("ci", "and") else group, word))
    return [*found, (len(text) + 1, "end", "the end")]


def _refused(where: str, text: str, position: int, word: str, expected: str) -> InputError:
    field = f"position {position} of {text!r}"
    return InputError(where, field, word, expected, f"Write {_FORM}.")
