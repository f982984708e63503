"""The YAML files of the project: a mapping with ``version: 1``; the line of each value is kept for errors."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evenstep.errors import InputError
from evenstep.in_use import reads

#: The version every YAML file of the project states.
VERSION = 1


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed YAML file: its values, and the line of each value. Values from elsewhere are a document without lines.

    Args:
        path: the file, as the user wrote it; or what errors call the other place.
        values: key -> plain value, nested as in the file; ``version`` is left out.
        lines: line number, from 1, of each field by its path: ``pool.limit``, ``workers[2].url``.
    """

    path: str
    values: dict[str, Any] = field(default_factory=dict[str, Any])
    lines: dict[str, int] = field(default_factory=dict[str, int])

    def where(self, field: str = "") -> str:
        """File and line of a field, or of its nearest container with a line, as ``compare.yaml line 4``; else the file."""
        line = self.lines.get(field)
        while line is None and field:
            field = field[: max(field.rfind("."), field.rfind("["), 0)]
            line = self.lines.get(field)
        return f"{self.path} line {line}" if line else self.path


def read_yaml(path: str | Path) -> Document:
    """Read a YAML file of ours: a mapping with ``version: 1``.

    ``1e-7`` and ``1_000`` are numbers. ``no``, and integers in octal, in hexadecimal or with leading zeros, are text.

    Raises:
        InputError: unreadable file, not YAML, not a mapping, a key twice, an alias that contains itself, a missing or other
            version, or a file that the command will replace (`in_use`).
    """
    from evenstep.config.yaml_text import parsed

    shown = str(path)
    reads(Path(path))
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(shown or "YAML file", "file", shown, "a readable file", f"{error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise InputError(shown, "file", shown, "UTF-8 text", f"Byte {error.start} is not.") from error
    values, lines = parsed(text, shown)
    if not isinstance(values, dict):
        held = {type(None): "empty", list: "a list", str: "text"}.get(type(values), type(values).__name__)
        raise InputError(shown, "content", held, "a mapping of keys to values")
    version = values.pop("version", "missing")
    document = Document(shown, values, lines)
    if type(version) is not int or version != VERSION:
        hint = f"Add the line `version: {VERSION}`." if version == "missing" else ""
        raise InputError(document.where("version"), "version", version, str(VERSION), hint)
    return document


@contextmanager
def in_file(path: str | Path, about: str) -> Generator[None]:
    """Context manager that raises an `InputError` of its block again, with file and line of its field as the place.

    Args:
        path: the YAML file; it is read again when such an error occurs.
        about: errors whose `where` is this text get ``<file> line <n>`` as `where`. All others pass as they are.
    """
    try:
        yield
    except InputError as error:
        if error.where != about:
            raise
        where = read_yaml(path).where(error.field)
        raise InputError(where, error.field, error.value, error.expected, error.hint) from None
