"""Members of a JSON object as spans of its bytes, so that one can be changed and the rest stays as it is."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from evenstep.errors import InputError

#: Where a member lies: start of its key, start of its value, end of its value.
Span = tuple[int, int, int]

_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])
_SPACE = re.compile(rb"[ \t\r\n]*+")
_KEY = re.compile(rb'"(?:[^"\\]|\\.)*+"[ \t\r\n]*+:[ \t\r\n]*+')


def members(text: bytes, where: str = "request") -> dict[str, Span]:
    """Where each member of an object lies, in the order of the text.

    Args:
        text: one JSON object.
        where: what the text is, for messages.

    Raises:
        InputError: not JSON, not an object, or a key that is there twice.
    """
    try:
        values = _MEMBERS.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        value = text[:40].decode("utf-8", "replace")
        raise InputError(where, "body", value, "a JSON object", f"{_said(error)}.") from None
    found: dict[str, Span] = {}
    name = ""
    at = _SPACE.match(text).end() + 1  # type: ignore[union-attr]  # matches at least nothing
    for name, value in values.items():
        at = _SPACE.match(text, at).end()  # type: ignore[union-attr]
        key = _KEY.match(text, at)
        stop = 0 if key is None else key.end() + len(value)
        if key is None or text[key.end() : stop] != bytes(value) or _name(key.group()) != name:
            raise InputError(where, name, "there twice", "each key once")
        found[name] = (at, key.end(), stop)
        at = _SPACE.match(text, stop).end() + 1  # type: ignore[union-attr]
    if values and text[at - 1 : at] != b"}":
        raise InputError(where, name, "there twice", "each key once")
    return found


def items(text: bytes) -> list[bytes]:
    """The elements of a JSON array, each as its bytes."""
    return [bytes(item) for item in _ITEMS.decode(text)]


def replaced(text: bytes, changes: Mapping[str, bytes | None], where: str = "request") -> bytes:
    """An object with some members set or, where None, removed; every other byte as it was.

    A new member is added behind the last. A member goes with the comma in front of it (the first: behind it).

    Raises:
        InputError: as `members`.
    """
    spans = members(text, where)
    names = list(spans)
    kept = [name for name in names if changes.get(name, b"") is not None]
    cuts: list[tuple[int, int, bytes]] = []
    for place, name in enumerate(names):
        key, value, stop = spans[name]
        if name in changes:
            new = changes[name]
            if new is not None:
                cuts.append((value, stop, new))
            elif kept and place < names.index(kept[0]):  # nothing stays in front of it: up to its successor
                cuts.append((key, spans[names[place + 1]][0], b""))
            else:
                cuts.append((spans[names[place - 1]][2] if place else key, stop, b""))
    fresh = [(name, new) for name, new in changes.items() if name not in spans and new is not None]
    if fresh:
        added = b",".join(msgspec.json.encode(name) + b":" + new for name, new in fresh)
        end = spans[names[-1]][2] if names else text.index(b"{") + 1
        cuts.append((end, end, b"," + added if kept else added))
    out: list[bytes] = []
    at = 0
    for start, stop, new in cuts:
        out += (text[at:start], new)
        at = stop
    out.append(text[at:])
    return b"".join(out)


def _name(key: bytes) -> str:
    return msgspec.json.decode(key[: key.rindex(b'"') + 1], type=str)


def _said(error: Exception) -> str:
    return "It is nested too deep" if isinstance(error, RecursionError) else str(error)
