"""The one family of errors, split by the person who can mend them."""

from __future__ import annotations

import difflib
import math
from collections.abc import Collection, Iterable
from numbers import Integral, Real
from typing import Any

#: The largest integer of a setting: beyond it a float is not exact.
MOST = 1 << 53
_WHOLE = ("an integer", "a whole number")


class EvenstepError(Exception):
    """Base of the errors that evenstep reports on purpose.

    Any other exception that reaches a caller is a bug of evenstep, unless a docstring names it or it is the system's own.
    """


class InputError(EvenstepError):
    """A file, flag, config or request is invalid; its author can fix it.

    Reads ``<where>: <field> is <value>; expected <what>. <what to do>``.

    Args:
        where: file (and line), flag or object that holds the value.
        field: name of the field as the user wrote it.
        value: the offending value, shown cut at 120 characters, text and bytes by ``repr``. The attribute keeps it whole.
        expected: the accepted values, as a noun phrase.
        hint: the remedy, as a sentence; empty if ``expected`` is enough.
    """

    def __init__(self, where: str, field: str, value: object, expected: str, hint: str = "") -> None:
        self.where, self.field, self.value, self.expected, self.hint = where, field, value, expected, hint
        shown = repr(value) if isinstance(value, str | bytes) else str(value)
        if len(shown) > 120:
            shown = shown[:117] + "..."
        text = f"{where}: {field} is {shown}; expected {expected}."
        super().__init__(f"{text} {hint}".rstrip().replace("\n", " "))

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.where, self.field, self.value, self.expected, self.hint)


def check_range(
    where: str,
    expected: str,
    hint: str = "",
    /,
    *,
    low: float = -math.inf,
    above: float | None = None,
    high: float = math.inf,
    below: float | None = None,
    finite: bool = False,
    **given: float | None,
) -> None:
    """Raise an error for the first value that is not a real number (None, text), nan, or outside a range.

    If `expected` begins with ``an integer`` or ``a whole number``, values have to be integers of at most `MOST`, not 2.0.

    Args:
        where, expected, hint: arguments of the `InputError`.
        low, high: bounds of the range; a number equal to one is in the range.
        above, below: bounds that are not in the range themselves; None = no such bound.
        finite: True = inf and -inf are outside the range too.
        given: field -> value. A field called like a keyword, as `low`, cannot be given.

    Raises:
        InputError: names the field and its value.
    """
    kind = Integral if expected.startswith(_WHOLE) else Real
    for field, value in given.items():
        if kind is Integral and isinstance(value, Integral) and int(value) > MOST:
            raise InputError(where, field, value, f"{expected}, at most {MOST}", hint)
        if not (
            isinstance(value, kind)
            and low <= value <= high
            and (above is None or value > above)
            and (below is None or value < below)
            and not (finite and abs(value) == math.inf)
        ):
            raise InputError(where, field, value, expected, hint)


def check_range_if_given(where: str, expected: str, /, **given: Any) -> None:
    """Raise the `InputError` of `check_range` for a number outside a range, with its keywords; a value None passes."""
    check_range(where, expected, **{name: value for name, value in given.items() if value is not None})


class EngineError(EvenstepError):
    """An engine upstream broke its protocol or contract."""


class PolicyError(EvenstepError):
    """A policy broke its contract: over capacity, unknown worker, mutated view, and so on."""


def nearest(word: str, known: Iterable[str]) -> str:
    """A sentence that offers the known names most like ``word``: ``Did you mean a or b?``, three names at most.

    If no name is similar, it lists all: ``Known: a, b, c.`` Without known names it is empty text.
    """
    names = sorted(set(known))
    return meant(word, names) or (f"Known: {', '.join(names)}." if names else "")


def meant(word: str, known: Iterable[str]) -> str:
    """The question of `nearest`, for an error that lists the known names already; empty if no name is similar."""
    close = difflib.get_close_matches(word, sorted(set(known)), n=3, cutoff=0.5)
    return f"Did you mean {' or '.join(close)}?" if close else ""


def check_known(where: str, field: str, word: str, known: Collection[str], expected: str = "") -> None:
    """Raise an `InputError` about `word`, the value of `field`, if it is not in `known`; its hint offers the nearest.

    Without `expected` the error lists the known words.
    """
    if word not in known:
        hint = nearest(str(word), known) if expected else meant(str(word), known)
        raise InputError(where, field, word, expected or f"one of {', '.join(known)}", hint)
