"""The fields of a settings class, a dataclass or a struct of msgspec: their types and descriptions."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import sys
from contextlib import suppress
from functools import cache
from textwrap import dedent
from types import UnionType
from typing import Any, Union, cast, get_args, get_origin, get_type_hints


def is_record(kind: Any) -> bool:
    """True if a type has fields: a dataclass, or a struct of msgspec."""
    return dataclasses.is_dataclass(kind) or hasattr(kind, "__struct_fields__")


def options_of(hint: Any) -> tuple[Any, ...]:
    """The types of a union, or a tuple of the type alone."""
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def record_in(hint: Any) -> Any:
    """The dataclass or msgspec struct that a type is or its union has, not X in ``list[X]``; None if there is none."""
    return next(filter(is_record, options_of(hint)), None)


@cache
def types_of(kind: Any) -> dict[str, Any]:
    """Field name -> its type, for the constructor's fields of a dataclass or struct."""
    hints = get_type_hints(kind)
    fields = dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ()
    return {name: hints[name] for name in getattr(kind, "__struct_fields__", [f.name for f in fields if f.init])}


def renamed(kind: Any, name: str) -> str:
    """A sentence on a former field: its new name from the class attribute `RENAMED`, or the text in `RETIRED`; else ""."""
    found = getattr(kind, "RENAMED", {}).get(name, "")
    return f"It is called {found}." if found else getattr(kind, "RETIRED", {}).get(name, "")


def docstring(kind: type) -> str:
    """The docstring of a class, without its indentation; from the source if ``python -OO`` dropped it; empty if none."""
    text = kind.__doc__ or ""  # Python 3.13 has cleaned it, earlier ones have not
    if sys.flags.optimize > 1:
        with suppress(OSError, SyntaxError, TypeError):  # no source, as of object; or none that can be read by itself
            text = ast.get_docstring(cast("ast.ClassDef", ast.parse(dedent(inspect.getsource(kind))).body[0])) or ""
    return inspect.cleandoc(text)


def meaning(kind: Any) -> dict[str, str]:
    """Field name -> its description in one line, from the ``Args:`` in the docstrings of a class and its base classes.

    A class overrides its base classes. Names that one entry lists with commas share its description.
    """
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        _, _, tail = docstring(base).partition("Args:")
        body = re.split(r"\n\s*(?:Raises|Returns|Source|Example)s?:", tail)[0]
        for fields, text in re.findall(r"^ +([a-z_]\w*(?:, [a-z_]\w*)*): (.*(?:\n {5,}.*)*)", body, flags=re.M):
            for field in fields.split(", "):
                found[field] = re.sub(r"\s+", " ", text).strip()
    return found
