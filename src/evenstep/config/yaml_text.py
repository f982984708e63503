"""Parses YAML text: plain values, and the line of each."""

from __future__ import annotations

import re
from typing import Any

import yaml

from evenstep.config.messages import is_utf_8
from evenstep.errors import InputError

_MOST_VALUES = 100_000  # that aliases may spell out; a file without aliases may have more


class _Loader(yaml.SafeLoader):
    """Reads unquoted words as YAML 1.2 does: ``no`` is text, ``1e-7`` is a number."""


_Loader.yaml_implicit_resolvers = {}
_DIGITS = r"\d[\d_]*"
_FLOAT = (
    rf"^[-+]?(?:(?:{_DIGITS}\.?[\d_]*|\.{_DIGITS})[eE][-+]?\d+|{_DIGITS}\.[\d_]*|\.{_DIGITS}|\.(?:inf|Inf|INF))$"
    r"|^\.(?:nan|NaN|NAN)$"
)
for _name, _pattern, _first in (
    ("null", r"^(?:~|null|Null|NULL|)$", ["~", "n", "N", ""]),
    ("merge", r"^<<$", "<"),
    ("bool", r"^(?:true|True|false|False)$", "tTfF"),
    ("int", r"^[-+]?(?:0|[1-9][\d_]*)$", "-+0123456789"),
    ("float", _FLOAT, "-+0123456789."),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_name}", re.compile(_pattern), [*_first])


def parsed(text: str, shown: str) -> tuple[Any, dict[str, int]]:
    """The value of a YAML text, None if it is empty, and the line of each value in it by its path (`Document`).

    Raises an `InputError` for the file `shown`: not YAML, a key twice, half a surrogate pair, or aliases without an end.
    """
    lines: dict[str, int] = {}
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        most = max(_MOST_VALUES, len(text))
        _put_lines(node, "", lines, shown, most)  # before merge keys (<<) become keys of the mapping that has them
        return loader.construct_document(node) if node is not None else None, lines
    except (yaml.YAMLError, ValueError, LookupError, AttributeError, RecursionError) as error:  # of explicit tags, too
        mark = getattr(error, "problem_mark", None)
        where = f"{shown} line {mark.line + 1}" if mark else shown
        raise InputError(where, "text", getattr(error, "problem", "") or "not YAML", "YAML") from error


def _put_lines(node: Any, path: str, lines: dict[str, int], shown: str, most: int, around: tuple[Any, ...] = ()) -> None:
    """Write the line of every key and list item below a YAML node, which stands at `path`, into `lines`.

    Surrogate pairs become letters. Half a pair, a key given twice, an alias of one of the nodes `around` it, or more than
    `most` lines raise an `InputError`.
    """
    if any(one is node for one in around):
        where = f"{shown} line {lines[path]}"
        raise InputError(where, path, "an alias of what holds it", "a value that ends", "Write the value out.")
    if len(lines) > most:
        raise InputError(shown, "values", f"more than {most}", "fewer", "Its aliases repeat others.")
    around = (*around, node)
    if isinstance(node, yaml.ScalarNode) and not is_utf_8(node.value):  # escapes may write surrogate pairs
        try:
            node.value = node.value.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            where = f"{shown} line {node.start_mark.line + 1}"
            raise InputError(where, path or "text", node.value, "text without half a surrogate pair") from None
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            lines[f"{path}[{index}]"] = item.start_mark.line + 1
            _put_lines(item, f"{path}[{index}]", lines, shown, most, around)
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in (pair for pair in node.value if isinstance(pair[0], yaml.ScalarNode)):
            line = key.start_mark.line + 1
            _put_lines(key, path, lines, shown, most, around)
            name = f"{path}.{key.value}".lstrip(".")
            if key.value in seen:
                raise InputError(f"{shown} line {line}", "key", name, "each key once")
            seen.add(key.value)
            lines[name] = line
            _put_lines(value, name, lines, shown, most, around)
