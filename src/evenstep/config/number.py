"""Numbers in settings: the text that people write for them, and their ranges."""

from __future__ import annotations

import math
import re
from numbers import Integral
from types import NoneType
from typing import Any, TypeAlias

from evenstep.config.fields import options_of
from evenstep.errors import MOST, InputError

#: Numbers, or text such as ``1/1/0.5`` or ``8*1/8*0.5``: on a command line commas part options already.
Numbers: TypeAlias = tuple[float, ...] | str


def numeral(value: Any, hint: Any) -> Any:
    """Respell a numeral as JSON writes it: the text ``.05`` becomes the text ``0.05``, ``+3`` becomes ``3``.

    Only text is changed, and only if `hint` consists of int, float and None. Any other value is returned as it is,
    unchecked, as is text that is not a numeral.
    """
    if not isinstance(value, str) or not {int, float, NoneType}.issuperset(options_of(hint)):
        return value
    found = re.fullmatch(r"([-+]?)(\d*)(?:(\.)(\d*))?([eE][-+]?\d+)?", value, re.ASCII)
    if found is None or not (found[2] or found[4]):
        return value
    sign, whole, point, decimals, power = found.groups(default="")
    part = f".{decimals or '0'}" if point else ""
    return f"{sign.strip('+')}{whole.lstrip('0') or '0'}{part}{power}"


def numbers_of(where: str, field: str, value: Numbers) -> tuple[float, ...]:
    """A tuple of finite floats from numbers, or from text such as ``1/2/3*0.5``: 1, 2, and then three times 0.5.

    A tuple may be empty; text must hold a number. Other text, or a value that `finite` refuses, raises an `InputError`.
    """
    if not isinstance(value, str):
        return tuple(finite(where, field, x) for x in value)
    numbers: list[float] = []
    for part in value.split("/"):
        count, times, number = part.partition("*") if "*" in part else ("1", "*", part)
        if not (count.strip().isdecimal() and len(count) < 8 and int(count) > 0 and times):
            raise InputError(where, field, value, "numbers written x/y/z or 3*x/y, each at most 9999999 times")
        numbers += [finite(where, field, number)] * int(count)
    return tuple(numbers)


def finite(where: str, field: str, value: object) -> float:
    """Convert a number or text to a float. Raises an `InputError` with `where` and `field` if it is not a finite number."""
    try:
        number = float(value)  # type: ignore[arg-type]
    except OverflowError:
        raise InputError(where, field, value, "a finite number") from None
    except (TypeError, ValueError):
        raise InputError(where, field, str(value), "a number") from None
    if not math.isfinite(number):
        raise InputError(where, field, number, "a finite number")
    return number


def check_at_least(where: str, low: int, given: object, *names: str) -> None:
    """Raise an `InputError` for the first of the attributes `names` of `given` that is not an integer from `low` to `MOST`.

    None is accepted. The error calls it ``--name``, as a flag.
    """
    check_integers(where, low, **{f"--{name}": getattr(given, name) for name in names})


def check_integers(where: str, low: int, **given: object) -> None:
    """Raise an `InputError` for the first value that is not an integer from `low` to `MOST`. None passes; 2.0 does not."""
    for name, value in given.items():
        number = int(value) if isinstance(value, Integral) else low - 1
        if value is not None and not low <= number <= MOST:
            raise InputError(where, name, value, integers(low, number))


def integers(low: float, found: int) -> str:
    """The accepted integers as text: ``an integer >= <low>``, or both ends if the refused value `found` is above `MOST`."""
    return f"an integer from {low} to {MOST}" if found > MOST else f"an integer >= {low}"
