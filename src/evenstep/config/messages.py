"""What an error shows of a value, and how it says what was expected."""

from __future__ import annotations

import re
from enum import Enum, EnumMeta
from typing import Any, Literal, cast, get_args, get_origin

from evenstep.errors import InputError

#: msgspec's text for a type -> the text of our errors.
_WORDS = {
    "int": "an integer",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "a mapping",
    "int | array": "an integer or a list of integers",
    "float | str": "a number or text",
    "int | null": "an integer",
    "float | null": "a number",
    "str | null": "text",
    "Number out of range": "a finite number",
}


def expectation(said: str, hint: Any) -> str:
    """The values that would have been accepted, as a noun phrase for `InputError.expected`, such as ``a number``.

    Args:
        said: msgspec's message about the refused value, such as ``Expected `int`, got `str` - at `$.pool.limit` ``.
        hint: the field's type, or None. A `Literal` or `Enum` gives ``one of <choices>``, others what `said` expected.
    """
    if known := choices(hint):
        return f"one of {', '.join(known)}"
    text = said.partition(" - at `$")[0].partition(", got ")[0].removeprefix("Expected ").rstrip(".")
    return _WORDS.get(text.strip("`"), text)


def choices(hint: Any) -> list[str]:
    """The words that a `Literal` or `Enum` type allows; empty for any other type."""
    if isinstance(hint, EnumMeta):
        return [str(choice.value) for choice in cast("type[Enum]", hint)]
    return [str(choice) for choice in get_args(hint)] if get_origin(hint) is Literal else []


def unless_secret(field: str, value: Any) -> Any:
    """The value as an error may show it: ``(hidden)`` if the field is a secret, or the value names one and goes on.

    Secrets are ``keys``, its items and those of ``workers``, each ``key``, ``api_key``, ``token`` and ``salt``, and what is
    given in place of the sections ``admin`` and ``decisions``, which have one. Empty text, ``missing`` and None are never
    hidden, nor is text that ends with such a name, as ``total-token`` does.
    """
    is_secret = re.search(r"^(admin|decisions)$|(^|\.)(keys|(keys|workers)\[\d+\]|key|api_key|token|salt)$", field)
    holds_one = re.search(r"\b(key|api_key|token|salt)\b[\s\"'\])}]*[^\s\"'\])}]", str(value))
    return "(hidden)" if (is_secret or holds_one) and value not in ("", "missing", None) else value


def is_utf_8(text: str) -> bool:
    """Whether text can be written as UTF-8: it has no half of a surrogate pair, as which Python reads other bytes."""
    return re.search("[\ud800-\udfff]", text) is None


def check_utf_8(where: str, field: str, value: Any) -> None:
    """Raise an `InputError` if text of a command line or variable, alone or in a list, has bytes that are no UTF-8."""
    for text in value if isinstance(value, list) else [value]:
        if isinstance(text, str) and not is_utf_8(text):
            raise InputError(where, field, unless_secret(field, text), "UTF-8 text")
