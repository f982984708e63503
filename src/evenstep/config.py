"""Settings from YAML files and flags: versioned, strict and layered; the origin of each value is kept.

Every YAML file of the project is a mapping with ``version: 1``; the other keys are the fields of a dataclass, nested where
the dataclass nests. An unknown key, a key given twice or a value that does not fit is an `InputError` that names file, line
and field; for an unknown key it offers the nearest names. `schema` publishes the same fields.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import math
import re
import sys
import types
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum, EnumMeta
from functools import cache
from numbers import Integral
from pathlib import Path
from textwrap import dedent
from typing import Any, Generic, Literal, TypeAlias, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from evenstep.errors import MOST, InputError, meant, nearest
from evenstep.in_use import reads

T = TypeVar("T")

#: Numbers, or text such as ``1/1/0.5`` or ``8*1/8*0.5``: on a command line commas part options already.
Numbers: TypeAlias = tuple[float, ...] | str
#: The version every YAML file of the project states.
VERSION = 1
_MOST_VALUES = 100_000  # that aliases may spell out; a file without aliases may have more


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed YAML file: its values, and the line of each value.

    Args:
        path: the file, as the user wrote it.
        values: key -> plain value, nested as in the file; ``version`` is left out.
        lines: line number, from 1, of each field by its path: ``pool.limit``, ``workers[2].url``.
    """

    path: str
    values: dict[str, Any]
    lines: dict[str, int]

    def where(self, field: str = "") -> str:
        """File and line of a field, or of its nearest container with a line, as ``compare.yaml line 4``; else the file."""
        line = self.lines.get(field)
        while line is None and field:
            field = field[: max(field.rfind("."), field.rfind("["), 0)]
            line = self.lines.get(field)
        return f"{self.path} line {line}" if line else self.path


@dataclass(frozen=True, slots=True)
class Layer:
    """Values from one place; later layers win.

    Args:
        origin: where they come from, as a person would say it: ``compare.yaml``, ``command line``.
        values: field name -> value; a field that is left out leaves the layers below in force.
        text: True if values are text (flags), to be converted to the type of their field; False if they have that type
            (YAML).
    """

    origin: str
    values: Mapping[str, Any]
    text: bool = False


@dataclass(frozen=True, slots=True)
class Settled(Generic[T]):
    """Settings after all layers were merged (`settle`).

    Args:
        value: the dataclass with the merged values.
        origin: field name -> origin of the last layer that set it; ``default`` for a field that no layer set.
    """

    value: T
    origin: dict[str, str]

    def refusal(self, name: str, expected: str, hint: str = "") -> InputError:
        """Return, not raise, the error for the setting `name`; `expected` and `hint` are as in `InputError`.

        It shows the origin, the value, and the name as its origin writes it: ``--max-tokens`` on the command line.
        """
        origin = self.origin[name]
        shown = "--" + name.replace("_", "-") if origin == "command line" else name
        return InputError(origin, shown, getattr(self.value, name), expected, hint)

    def check_numbers(self, at_least: Mapping[str, float], above_zero: Sequence[str] = ()) -> None:
        """Check that numeric settings are in range. A setting that is None is skipped.

        Args:
            at_least: setting -> least allowed value. An integer may be `MOST` at most, a float must be finite. Names without
                such a setting, and settings that are not numbers, are skipped.
            above_zero: settings that have to be finite and > 0; each must exist and be a number or None.

        Raises:
            InputError: the first number out of range (see `refusal`).
        """
        for name, low in at_least.items():
            number = getattr(self.value, name, None)
            if isinstance(number, int):
                if not low <= number <= MOST:
                    raise self.refusal(name, integers(low, number))
            elif isinstance(number, float) and not (math.isfinite(number) and number >= low):
                raise self.refusal(name, f"a finite number >= {low}")
        for name in above_zero:
            number = getattr(self.value, name)
            if number is not None and not (math.isfinite(number) and number > 0):
                raise self.refusal(name, "a finite number > 0")


def read_yaml(path: str | Path) -> Document:
    """Read a YAML file of ours: a mapping with ``version: 1``.

    ``1e-7`` and ``1_000`` are numbers. ``no``, and integers in octal, in hexadecimal or with leading zeros, are text.

    Raises:
        InputError: unreadable file, not YAML, not a mapping, a key twice, an alias that contains itself, a missing or other
            version, or a file that the command will replace (`in_use`).
    """
    import yaml

    shown = str(path)
    reads(Path(path))
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(shown or "YAML file", "file", shown, "a readable file", f"{error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise InputError(shown, "file", shown, "UTF-8 text", f"Byte {error.start} is not.") from error
    lines: dict[str, int] = {}
    try:
        loader = _loader()(text)
        node = loader.get_single_node()
        most = max(_MOST_VALUES, len(text))
        _lines_of(node, "", lines, shown, most)  # before merge keys (<<) become keys of the mapping that has them
        values = loader.construct_document(node) if node is not None else None
    except (yaml.YAMLError, ValueError, LookupError, AttributeError, RecursionError) as error:  # of explicit tags, too
        mark = getattr(error, "problem_mark", None)
        where = f"{shown} line {mark.line + 1}" if mark else shown
        raise InputError(where, "text", getattr(error, "problem", "") or "not YAML", "YAML") from error
    if not isinstance(values, dict):
        held = {type(None): "empty", list: "a list", str: "text"}.get(type(values), type(values).__name__)
        raise InputError(shown, "content", held, "a mapping of keys to values")
    found = cast("dict[str, Any]", values)
    document = Document(shown, {k: v for k, v in found.items() if k != "version"}, lines)
    version = found.get("version", "missing")
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


def load(path: str | Path, kind: type[T]) -> T:
    """Read a YAML file of ours into a dataclass of type `kind`. Keys that are left out get the dataclass's defaults.

    Raises:
        InputError: a file that `read_yaml` refuses, an unknown key, a missing one without a default, or a value that does
            not fit.
    """
    document = read_yaml(path)
    return convert(document.values, kind, where=document)


def convert(values: Mapping[str, Any], kind: type[T], where: str | Document, *, text: bool = False) -> T:
    """Make a dataclass from plain values, nested as the dataclass nests. An unknown key is an error at every depth.

    Args:
        where: what errors call the place: a `Document`, which knows its lines, or a name.
        text: convert text to the type of the field, as flags need it; if False, text fits text fields only.

    Raises:
        InputError: an unknown key (with the nearest names), a missing one without a default, a value that does not fit, or
            an integer beyond `MOST`, of either sign.
    """
    import msgspec

    _reject_unknown(values, kind, "", where)
    for field, value in values.items() if text else ():
        check_utf_8(_place(where, field), field, value)
    try:
        made = msgspec.convert(dict(values), kind, strict=not text)
    except msgspec.ValidationError as error:
        raise _worded(str(error), values, kind, where) from None
    for field, number in _too_large(made, kind, ""):
        raise InputError(_place(where, field), field, number, f"an integer from {-MOST} to {MOST}")
    return made


def settle(kind: type[T], *layers: Layer) -> Settled[T]:
    """Merge layers of settings, convert each value to its field's type, and remember which layer set it.

    Args:
        kind: the dataclass. Its defaults are the lowest layer; some layer must set each field without a default.
        layers: the lowest first. A later one wins for each field that it sets; a nested value is replaced as a whole.

    Raises:
        InputError: an unknown key, or a value that does not fit; it names the layer's origin.
        TypeError: no layer sets a field without a default.
    """
    merged: dict[str, Any] = {}
    known = fields_of(kind)
    origin = dict.fromkeys(known, "default")
    for layer in layers:
        _reject_unknown(layer.values, kind, "", layer.origin)
        for name, value in layer.values.items():
            merged[name] = _one(kind, name, value, layer)
            origin[name] = layer.origin
    return Settled(kind(**merged), origin)


def schema(kind: type[Any], title: str) -> dict[str, Any]:
    """The JSON Schema (2020-12) of a YAML file with ``version`` and the fields of `kind`, each with its description."""
    (name,), parts = objects(kind)
    for part in parts.values():
        part.pop("description", None)
    return published(title, parts.pop(name), parts)


def published(title: str, body: dict[str, Any], parts: Mapping[str, Any]) -> dict[str, Any]:
    """A complete JSON Schema: title, the fields of `body`, a required ``version``, and `parts` as its ``$defs``.

    `body` is the schema of a mapping, with its ``properties``. It is changed in place: the version is added.
    """
    body["properties"] = {"version": {"const": VERSION}} | {k: v for k, v in body["properties"].items() if k != "version"}
    body["required"] = ["version", *(name for name in body.get("required", []) if name != "version")]
    definitions = {"$defs": dict(parts)} if parts else {}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title, **body, **definitions}


def objects(
    *kinds: type[Any], hook: Callable[[Any], dict[str, Any]] | None = None
) -> tuple[list[str], dict[str, dict[str, Any]]]:
    """JSON schemas of dataclasses and all dataclasses in them: no unknown keys, descriptions from the docstrings' ``Args:``.

    Args:
        hook: gives the schema of a type that is neither a dataclass nor a plain value. Without it such a type is a
            TypeError.

    Returns:
        The schema names of `kinds`, in their order; and the schemas of all these dataclasses by name, for ``$defs``.
    """
    import msgspec

    tops, parts = msgspec.json.schema_components(kinds, schema_hook=hook, ref_template="#/$defs/{name}")
    names = [top["$ref"].rpartition("/")[2] for top in tops]
    by_name = {k.__name__: k for kind in kinds for k in _reachable(kind)} | dict(zip(names, kinds, strict=True))
    for name, part in parts.items():
        if "properties" in part:
            kind = by_name[name]
            part["additionalProperties"] = False
            part.pop("title", None)
            part["description"] = re.sub(r"\s+", " ", docstring(kind).partition("\n\n")[0]).replace("`", "")
            for value in part["properties"].values():
                if value.get("default") == {}:  # told by msgspec from 0.23 on
                    del value["default"]
            for field, text in meaning(kind).items():
                if field in part["properties"]:
                    part["properties"][field]["description"] = text
    return names, parts


def _loader() -> Any:
    """A class of safe PyYAML loader that reads unquoted words as YAML 1.2 does: ``no`` is text, ``1e-7`` is a number."""
    import yaml

    class Loader(yaml.SafeLoader): ...

    keep = {"tag:yaml.org,2002:null", "tag:yaml.org,2002:merge"}
    Loader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in rules if tag in keep]
        for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    digits = r"\d[\d_]*"
    number = (
        rf"^[-+]?(?:(?:{digits}\.?[\d_]*|\.{digits})[eE][-+]?\d+|{digits}\.[\d_]*|\.{digits}|\.(?:inf|Inf|INF))$"
        r"|^\.(?:nan|NaN|NAN)$"
    )
    for name, pattern, first in (
        ("bool", r"^(?:true|True|false|False)$", "tTfF"),
        ("int", r"^[-+]?(?:0|[1-9][\d_]*)$", "-+0123456789"),
        ("float", number, "-+0123456789."),
    ):
        Loader.add_implicit_resolver(f"tag:yaml.org,2002:{name}", re.compile(pattern), list(first))
    return Loader


def _lines_of(node: Any, path: str, lines: dict[str, int], shown: str, most: int, around: tuple[Any, ...] = ()) -> None:
    """Write the line of every key and list item below a YAML node, which stands at `path`, into `lines`.

    A key given twice, an alias of one of the nodes `around` it, or more than `most` lines raise an `InputError` that names
    the file `shown`.
    """
    import yaml

    if any(one is node for one in around):
        where = f"{shown} line {lines[path]}"
        raise InputError(where, path, "an alias of what holds it", "a value that ends", "Write the value out.")
    if len(lines) > most:
        raise InputError(shown, "values", f"more than {most}", "fewer", "Its aliases repeat others.")
    around = (*around, node)
    if isinstance(node, yaml.ScalarNode):
        _join_pairs(node, path, shown)
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            lines[f"{path}[{index}]"] = item.start_mark.line + 1
            _lines_of(item, f"{path}[{index}]", lines, shown, most, around)
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in (pair for pair in node.value if isinstance(pair[0], yaml.ScalarNode)):
            line = key.start_mark.line + 1
            _join_pairs(key, path, shown)
            name = f"{path}.{key.value}".lstrip(".")
            if key.value in seen:
                raise InputError(f"{shown} line {line}", "key", name, "each key once")
            seen.add(key.value)
            lines[name] = line
            _lines_of(value, name, lines, shown, most, around)


def _join_pairs(node: Any, path: str, shown: str) -> None:
    """Join surrogate pairs, which escapes may write, in a YAML scalar at `path`; half a pair is an `InputError`."""
    if not is_utf_8(node.value):
        try:
            node.value = node.value.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            where = f"{shown} line {node.start_mark.line + 1}"
            raise InputError(where, path or "text", node.value, "text without half a surrogate pair") from None


def fields_of(kind: Any) -> dict[str, Any]:
    """Field name -> its default, None without one, for the constructor's fields of a dataclass or struct `kind`."""
    import msgspec

    found: Sequence[Any] = dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else msgspec.structs.fields(kind)
    missing = (dataclasses.MISSING, msgspec.NODEFAULT)
    return {
        f.name: f.default_factory() if f.default_factory not in missing else None if f.default in missing else f.default
        for f in found
        if getattr(f, "init", True)
    }


def _reject_unknown(values: Any, hint: Any, path: str, where: str | Document) -> None:
    """Raise an `InputError` for the first unknown key in `values` at any depth; `hint` is their type, `path` their field."""
    kind = record_in(hint)
    if kind is not None and isinstance(values, Mapping):
        known = fields_of(kind)
        given = cast("Mapping[Any, Any]", values)
        for key in given:
            if key not in known:
                field = f"{path}.{key}".lstrip(".")
                hint = renamed(kind, str(key)) or nearest(str(key), known)
                raise InputError(_place(where, field), "key", field, "a known key", hint)
        hints = get_type_hints(kind)
        for key, value in given.items():
            _reject_unknown(value, hints[key], f"{path}.{key}".lstrip("."), where)
        return
    origin, inside = get_origin(hint), get_args(hint)
    if origin in (list, tuple) and isinstance(values, list) and inside:
        for index, value in enumerate(cast("list[Any]", values)):
            _reject_unknown(value, inside[0], f"{path}[{index}]", where)
    if origin is dict and isinstance(values, Mapping) and inside:
        for key, value in cast("Mapping[Any, Any]", values).items():
            _reject_unknown(value, inside[1], f"{path}.{key}".lstrip("."), where)


def renamed(kind: Any, name: str) -> str:
    """A sentence on a former field: its new name from the class attribute `RENAMED`, or the text in `RETIRED`; else ""."""
    found = getattr(kind, "RENAMED", {}).get(name, "")
    return f"It is called {found}." if found else getattr(kind, "RETIRED", {}).get(name, "")


def _options(hint: Any) -> tuple[Any, ...]:
    """The types of a union, or a tuple of the type alone."""
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def is_record(kind: Any) -> bool:
    """True if a type has fields: a dataclass, or a struct of msgspec."""
    return dataclasses.is_dataclass(kind) or hasattr(kind, "__struct_fields__")


def record_in(hint: Any) -> Any:
    """The one dataclass or msgspec struct that a type is or its union has, not X in ``list[X]``; None for 0 or several."""
    found = [option for option in _options(hint) if is_record(option)]
    return found[0] if len(found) == 1 else None


def _place(where: str | Document, field: str) -> str:
    """The place that an error names for a field: file and line of a `Document`, else `where` itself."""
    return where.where(field) if isinstance(where, Document) else where


def _worded(message: str, values: Mapping[str, Any], kind: Any, where: str | Document) -> InputError:
    """The `InputError` for a message of msgspec about `values`, which should be of type `kind`."""
    said, _, path = message.partition(" - at `")
    field = _named(path.removeprefix("key` in `").strip("`$."), values, kind)
    if path.startswith("key"):
        for name in (f"{field}.{key}" for key in _value_at(values, field) if not isinstance(key, str)):
            return InputError(_place(where, name), "key", name, "text", "Write it in quotes.")
    missing = re.search(r"missing required (?:field|argument) [`'](\w+)[`']", said)
    if missing:
        name = f"{field}.{missing[1]}".lstrip(".")
        return InputError(_place(where, field), name, "missing", "a value")
    value = _value_at(values, field)
    # Text in place of a list may be an item of it; a mapping is one without its dash, and names its secrets.
    is_item = said.startswith("Expected `array`") and not isinstance(value, Mapping)
    value = unless_secret(f"{field}[0]" if is_item else field, value)
    hint = _hint_at(kind, field) if said.startswith("Invalid enum value") else None
    expected = expectation(said, hint)
    return InputError(_place(where, field), field or "content", value, expected, meant(str(value), _choices(hint)))


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


def numeral(value: Any, hint: Any) -> Any:
    """Respell a numeral as JSON writes it: the text ``.05`` becomes the text ``0.05``, ``+3`` becomes ``3``.

    Only text is changed, and only if `hint` consists of int, float and None. Any other value is returned as it is,
    unchecked, as is text that is not a numeral.
    """
    if not isinstance(value, str) or not {int, float, types.NoneType}.issuperset(_options(hint)):
        return value
    found = re.fullmatch(r"([-+]?)(\d*)(?:(\.)(\d*))?([eE][-+]?\d+)?", value, re.ASCII)
    if found is None or not (found[2] or found[4]):
        return value
    sign, whole, point, decimals, power = found.groups(default="")
    part = f".{decimals or '0'}" if point else ""
    return f"{sign.strip('+')}{whole.lstrip('0') or '0'}{part}{power}"


def of_text(value: Any, hint: Any) -> Any:
    """Convert the text of a flag or a variable to the type `hint`. Raises msgspec.ValidationError if it does not fit.

    Bytes that are no UTF-8 stay as they are in text, such as a path, and fit no other type.
    """
    import msgspec

    try:
        return msgspec.convert(numeral(value, hint), hint, strict=False)
    except UnicodeEncodeError:
        return msgspec.convert(value.encode(errors="replace").decode(), hint, strict=False)


def expectation(said: str, hint: Any) -> str:
    """The values that would have been accepted, as a noun phrase for `InputError.expected`, such as ``a number``.

    Args:
        said: msgspec's message about the refused value, such as ``Expected `int`, got `str` - at `$.pool.limit` ``.
        hint: the field's type, or None. A `Literal` or `Enum` gives ``one of <choices>``, others what `said` expected.
    """
    if choices := _choices(hint):
        return f"one of {', '.join(choices)}"
    text = said.partition(" - at `$")[0].partition(", got ")[0].removeprefix("Expected ").rstrip(".")
    return _WORDS.get(text.strip("`"), text)


def _choices(hint: Any) -> list[str]:
    """The words that a `Literal` or `Enum` type allows; empty for any other type."""
    if isinstance(hint, EnumMeta):
        return [str(choice.value) for choice in cast("type[Enum]", hint)]
    return [str(choice) for choice in get_args(hint)] if get_origin(hint) is Literal else []


def _hint_at(kind: Any, field: str) -> Any:
    """The type of the field of `kind` with this dotted path, inside lists and mappings too; None if it does not exist."""
    for part in re.findall(r"[^.\[\]]+", field):
        found = record_in(kind)
        kind = get_type_hints(found).get(part) if found is not None else next(reversed(get_args(kind)), None)
    return kind


def _named(field: str, values: Any, kind: Any) -> str:
    """The path of a value that does not fit, with its keys in place of each ``[...]``: msgspec writes any key as that."""
    import msgspec

    before, dots, after = field.partition("[...]")
    found, hint = _value_at(values, before), _hint_at(kind, before)
    if dots and get_origin(hint) is dict and isinstance(found, Mapping):
        for key, value in cast("Mapping[Any, Any]", found).items():
            try:
                msgspec.convert(value, get_args(hint)[1])
            except msgspec.ValidationError:
                return _named(f"{before}.{key}{after}", values, kind)
    return field


def _value_at(values: Any, field: str) -> Any:
    """The value at a dotted path in plain values; the text ``not as expected`` if there is no such place."""
    for part in re.findall(r"[^.\[\]]+", field):
        try:
            values = values[int(part)] if isinstance(values, list) else values[part]
        except (KeyError, IndexError, ValueError, TypeError):
            return "not as expected"
    return values


def _one(kind: Any, name: str, value: Any, layer: Layer) -> Any:
    """Convert a value to the type of the field `name` of `kind`; an `InputError` names the origin of `layer`."""
    import msgspec

    hint = get_type_hints(kind)[name]
    try:
        made = of_text(value, hint) if layer.text else msgspec.convert(value, hint)
    except msgspec.ValidationError as error:
        shown = "--" + name.replace("_", "-") if layer.text else name
        question = meant(str(value), _choices(hint))
        raise InputError(layer.origin, shown, unless_secret(name, value), expectation(str(error), hint), question) from None
    for field, number in _too_large(made, hint, name):
        shown = "--" + name.replace("_", "-") if layer.text else field
        raise InputError(layer.origin, shown, number, f"an integer from {-MOST} to {MOST}")
    return made


def _too_large(value: Any, hint: Any, path: str) -> Iterator[tuple[str, int]]:
    """Yield path and value of each integer beyond `MOST` in a converted value; `hint` is its type, `path` its field.

    Compiled code and JSON have 64 bits. What has the type Any, such as a policy's options, is not looked at.
    """
    kind, inside = record_in(hint), _items_of(hint)
    if isinstance(value, int):
        if int in _options(hint) and abs(value) > MOST:
            yield path, value
    elif kind is not None and isinstance(value, kind):
        for name, inner in _typed_fields(kind).items():
            yield from _too_large(getattr(value, name), inner, f"{path}.{name}".lstrip("."))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(cast("Sequence[Any]", value)):
            yield from _too_large(item, inside, f"{path}[{index}]")
    elif isinstance(value, Mapping):
        for key, item in cast("Mapping[Any, Any]", value).items():
            yield from _too_large(item, inside, f"{path}.{key}".lstrip("."))


@cache
def _typed_fields(kind: Any) -> dict[str, Any]:
    """Field name -> its type, for the constructor's fields of a record class."""
    hints = get_type_hints(kind)
    return {name: hints[name] for name in fields_of(kind)}


def _items_of(hint: Any) -> Any:
    """The type of the items of a list or tuple, or of the values of a mapping, alone or in a union; None for other types."""
    for option in _options(hint):
        if get_origin(option) in (list, tuple):
            return get_args(option)[0]
        if get_origin(option) in (dict, Mapping):
            return get_args(option)[1]
    return None


def _reachable(kind: Any) -> list[Any]:
    """All dataclasses and structs that occur in a type, at any depth, the type itself included."""
    found: list[Any] = []
    pending = [kind]
    while pending:
        hint = pending.pop()
        if is_record(hint) and hint not in found:
            found.append(hint)
            pending.extend(get_type_hints(hint).values())
        pending.extend(get_args(hint))
    return found


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
