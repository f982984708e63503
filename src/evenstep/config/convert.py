"""Plain values, such as those of a YAML file, converted to settings classes.

An unknown key or a value that does not fit is an `InputError` that names file, line and field; for an unknown key it offers
the nearest names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar, cast, get_args, get_origin

from evenstep.config.fields import is_record, options_of, record_in, renamed, types_of
from evenstep.config.messages import check_utf_8, choices, expectation, unless_secret
from evenstep.config.number import numeral
from evenstep.config.yaml_file import Document
from evenstep.errors import MOST, InputError, meant, nearest

T = TypeVar("T")


def convert(document: Document, kind: type[T], *, text: bool = False) -> T:
    """Make a dataclass from a document, nested as the dataclass nests. Keys that are left out get the dataclass's defaults.

    `text` converts text to the type of the field, as flags need it; if False, text fits text fields only.

    Raises:
        InputError: an unknown key at any depth, a missing one without a default, a value that does not fit, or an integer
            beyond `MOST`, of either sign.
    """
    import msgspec

    refuse_unknown("", document.values, kind, document)
    for field, value in document.values.items() if text else ():
        check_utf_8(document.where(field), field, value)
    try:
        made = msgspec.convert(document.values, kind, strict=not text)
    except msgspec.ValidationError as error:
        raise _refusal(document, kind, not text, str(error)) from None
    refuse_too_large("", made, kind, document)
    return made


def of_text(value: Any, hint: Any) -> Any:
    """Convert the text of a flag or a variable to the type `hint`. Raises msgspec.ValidationError if it does not fit.

    Bytes that are no UTF-8 stay as they are in text, such as a path, and fit no other type.
    """
    import msgspec

    try:
        return msgspec.convert(numeral(value, hint), hint, strict=False)
    except UnicodeEncodeError:
        return msgspec.convert(value.encode(errors="replace").decode(), hint, strict=False)


def refuse_unknown(path: str, value: Any, hint: Any, document: Document) -> None:
    """Raise an `InputError` for the first unknown key in a value of type `hint` at `path`, at any depth."""
    kind = record_in(hint)
    if kind is not None and isinstance(value, Mapping):
        known = types_of(kind)
        for key in cast("Mapping[Any, Any]", value):
            if key not in known:
                field = _below(path, key)
                remedy = renamed(kind, str(key)) or nearest(str(key), known)
                raise InputError(document.where(field), "key", field, "a known key", remedy)
    for part in _parts(path, value, hint):
        refuse_unknown(*part, document)


def refuse_too_large(path: str, value: Any, hint: Any, document: Document, shown: str = "") -> None:
    """Raise an `InputError` for the first integer beyond `MOST` in a converted value; `shown` is its name if not the path.

    Compiled code and JSON have 64 bits. What has the type Any, such as a policy's options, is not looked at.
    """
    if isinstance(value, int) and int in options_of(hint) and abs(value) > MOST:
        raise InputError(document.where(path), shown or path, value, f"an integer from {-MOST} to {MOST}")
    for part in _parts(path, value, hint):
        refuse_too_large(*part, document, shown)


def _refusal(document: Document, kind: Any, strict: bool, said: str) -> InputError:
    """The `InputError` for a document that should be of type `kind`; `said` is what msgspec says of it."""
    is_key = " - at `key` in" in said
    field, value, hint, said = _innermost("", document.values, kind, strict, said)
    if is_key:
        return InputError(document.where(field), "key", field, "text", "Write it in quotes.")
    if said.startswith("Object missing required"):
        return InputError(document.where(field), _below(field, said.split("`")[1]), "missing", "a value")
    # Text in place of a list may be an item of it; a mapping is one without its dash, and names its secrets.
    is_item = said.startswith("Expected `array`") and not isinstance(value, Mapping)
    value = unless_secret(f"{field}[0]" if is_item else field, value)
    choice = hint if said.startswith("Invalid enum value") else None
    expected = expectation(said, choice)
    return InputError(document.where(field), field or "content", value, expected, meant(str(value), choices(choice)))


def _innermost(path: str, value: Any, hint: Any, strict: bool, said: str) -> tuple[str, Any, Any, str]:
    """Path, value and type of the first innermost part that does not fit, and what msgspec says; `said` is of the whole."""
    import msgspec

    for part in _parts(path, value, hint):
        try:
            msgspec.convert(*part[1:], strict=strict)
        except msgspec.ValidationError as error:
            return _innermost(*part, strict, str(error))
    return path, value, hint, said


def _parts(path: str, value: Any, hint: Any) -> Iterator[tuple[str, Any, Any]]:
    """Path, value and type of the parts of a value of type `hint`, plain or converted: fields, items, or keys and values."""
    for option in options_of(hint):
        origin, inside = get_origin(option), get_args(option)
        if is_record(option) and isinstance(value, Mapping):
            yield from ((_below(path, key), one, types_of(option)[key]) for key, one in value.items())
        elif is_record(option) and isinstance(value, option):
            yield from ((_below(path, name), getattr(value, name), of) for name, of in types_of(option).items())
        elif origin in (list, tuple) and isinstance(value, list | tuple):
            yield from ((f"{path}[{index}]", one, inside[0]) for index, one in enumerate(value))
        elif origin in (dict, Mapping) and isinstance(value, Mapping):
            for key, one in value.items():
                yield from ((_below(path, key), key, inside[0]), (_below(path, key), one, inside[1]))


def _below(path: str, key: Any) -> str:
    """The path of a key of the mapping at `path`."""
    return f"{path}.{key}".lstrip(".")
