"""Finds members of a JSON object as spans of its bytes, so that one can be changed while the rest stays."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from itertools import accumulate
from operator import add

import msgspec

from evenstep.errors import InputError

#: The position of a member: start of its key, start of its value, end of its value.
Span = tuple[int, int, int]

_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])
_SPACE = re.compile(rb"[ \t\r\n]*+")
_LONGEST_KEYS = 2048  # most bytes, without the values, of an object whose layout is cached
_MAY_BE_HALF = re.compile("truncated|escape|surrogate")  # msgspec's errors for half of a surrogate pair, and others
_TO_HALF = re.compile(
    rb"(?:[^\\]++|\\[\"\\/bfnrt]|\\u(?![dD][89a-fA-F])[0-9a-fA-F]{4}|\\u[dD][89abAB]..\\u[dD][c-fC-F]..)*+"
    rb"(?=\\u[dD][89a-fA-F][0-9a-fA-F]{2})",
    re.DOTALL,
)
_KEY = re.compile(rb'("(?:[^"\\]|\\.)*+")[ \t\r\n]*+:[ \t\r\n]*+')


def values_of(text: bytes, where: str = "request") -> dict[str, msgspec.Raw]:
    """The JSON of each member of the object `text` by key, as windows on `text`, in the order of the text.

    `where` is the name of the text in errors.

    Raises:
        InputError: not JSON, not an object, or a duplicate key.
    """
    values = _decoded(text, where)
    if _laid_out(text, values) is None:
        _walked(text, values, where)
    return values


def members(text: bytes, where: str = "request") -> dict[str, Span]:
    """The `Span` of each member of the object `text` by key, in the order of the text; `where` names the text in errors.

    A span is three indices into `text`: start of the key's quote, start of the value, end of the value. An `InputError` if
    `text` is not JSON, not an object, or has a duplicate key.
    """
    values = _decoded(text, where)
    found = _laid_out(text, values)
    if found is None:
        return _walked(text, values, where)
    ends, pieces = found
    return {
        name: (end - len(value) - len(piece) + piece.index(b'"'), end - len(value), end)
        for (name, value), piece, end in zip(values.items(), pieces, ends[1:], strict=True)
    }


def _decoded(text: bytes, where: str) -> dict[str, msgspec.Raw]:
    """The JSON of each member of an object by key, of duplicates the last; an `InputError` if it is not a JSON object."""
    try:
        return _MEMBERS.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        half = _TO_HALF.match(text) if _MAY_BE_HALF.search(str(error)) else None
        if half is not None:
            value = f"half of a surrogate pair at byte {half.end()}"
            hint = r"An escape from \ud800 to \udfff is half of a character, as in \ud83d\ude00."
            raise InputError(where, "body", value, "JSON of whole characters", hint) from None
        value = text[:40].decode("utf-8", "replace")
        hint = "It is nested too deep." if isinstance(error, RecursionError) else f"{error}."
        raise InputError(where, "body", value, "a JSON object", hint) from None


def _laid_out(text: bytes, values: Mapping[str, msgspec.Raw]) -> tuple[list[int], tuple[bytes, ...]] | None:
    """For an object in a usual layout: the end of each member, after a first 0, and the bytes before each value; else None.

    Usual is no space, or one, after each colon and comma. None also if a key is there twice.
    """
    sizes = list(map(len, values.values()))
    if not sizes or len(text) - sum(sizes) > _LONGEST_KEYS:
        return None
    names = tuple(values)
    pieces, widths = _pieces(names, text[len(names[0]) + 4 : len(names[0]) + 5] == b" ")
    ends = list(accumulate(map(add, widths, sizes), initial=0))
    return (ends, pieces) if ends[-1] + 1 == len(text) and all(map(text.startswith, pieces, ends)) else None


@lru_cache(maxsize=512)
def _pieces(names: tuple[str, ...], is_spaced: bool) -> tuple[tuple[bytes, ...], tuple[int, ...]]:
    """The bytes before the value of each member in a usual layout (comma, key, colon), and their lengths."""
    between, colon = (", ", ": ") if is_spaced else (",", ":")
    pieces = tuple(f'{between if place else "{"}"{name}"{colon}'.encode() for place, name in enumerate(names))
    return pieces, tuple(map(len, pieces))


def _walked(text: bytes, values: Mapping[str, msgspec.Raw], where: str) -> dict[str, Span]:
    """The `Span` of each member by key, for an object in any layout, whose parsed members are `values` (`members`)."""
    found: dict[str, Span] = {}
    name, at = "", _past_space(text, 0) + 1
    for name, value in values.items():
        if text[at] <= 32:
            at = _past_space(text, at)
        start = _value_of(text, at, name)
        raw = bytes(value)
        if not start or not text.startswith(raw, start):
            raise InputError(where, name, "there twice", "each key once")
        stop = start + len(raw)
        found[name] = (at, start, stop)
        at = (stop if text[stop] > 32 else _past_space(text, stop)) + 1
    if values and text[at - 1] != 125:
        raise InputError(where, name, "there twice", "each key once")
    return found


def items(text: bytes) -> list[bytes]:
    """The elements of the JSON array `text`, each as its JSON; raises `msgspec.MsgspecError` for anything else."""
    return [bytes(item) for item in _ITEMS.decode(text)]


def extended(text: bytes, more: Mapping[str, bytes]) -> bytes:
    """The object `text`, which is not empty, with the members `more` appended; every other byte stays. Nothing is checked.

    `more` is the JSON of the new values by key. The object has none of the keys, and they need no escapes in JSON.
    """
    end = text.rindex(b"}")
    return b"%b%b%b" % (text[:end], b"".join([b',"%b":%b' % (name.encode(), new) for name, new in more.items()]), text[end:])


def replaced(
    text: bytes, changes: Mapping[str, bytes | None], where: str = "request", spans: Mapping[str, Span] | None = None
) -> bytes:
    """An object with some members set, or removed if None; every other byte stays.

    A new member is appended. A member is removed with the comma before it (the first: with the one after it).

    Args:
        changes: JSON of the new values, by key.
        where: a name for the text, for errors.
        spans: result of `members` for this text; None = it is computed here.

    Raises:
        InputError: without `spans`: not JSON, not an object, or a duplicate key.
    """
    if spans is None:
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
            elif kept and place < names.index(kept[0]):  # no member stays before it: cut up to the next one
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


def _past_space(text: bytes, at: int) -> int:
    """The index of the first byte from `at` on that is not white space."""
    byte = text[at]
    if byte not in b" \t\r\n":
        return at
    return at + 1 if text[at + 1] not in b" \t\r\n" else _SPACE.match(text, at).end()  # type: ignore[union-attr]


def _value_of(text: bytes, at: int, name: str) -> int:
    """The index where the value of the key at `at` starts; 0 if the key there is not `name`."""
    key = f'"{name}":'.encode()
    if text.startswith(key, at):
        return _past_space(text, at + len(key))
    found = _KEY.match(text, at)
    if found is None or msgspec.json.decode(found[1], type=str) != name:
        return 0
    return found.end()
