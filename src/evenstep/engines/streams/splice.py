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
_KEY = re.compile(rb'("(?:[^"\\]|\\.)*+")[ \t\r\n]*+:[ \t\r\n]*+')


def members(text: bytes, where: str = "request") -> dict[str, Span]:
    """The position of each member of an object, in the order of the text.

    Args:
        text: one JSON object.
        where: a name for the text, for messages.

    Raises:
        InputError: not JSON, not an object, or a duplicate key.
    """
    try:
        values = _MEMBERS.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        value = text[:40].decode("utf-8", "replace")
        raise InputError(where, "body", value, "a JSON object", f"{_said(error)}.") from None
    found = _laid_out(text, values)
    if found is not None:
        return found
    found = {}
    name, at = "", _past_space(text, 0) + 1
    for name, value in values.items():
        if text[at] <= 32:
            at = _past_space(text, at)
        start = at + len(key := b'"%b":' % name.encode())
        if not text.startswith(key, at):
            start = _value_of(text, at, name)
        elif text[start] <= 32:
            start = _past_space(text, start)
        raw = bytes(value)
        if not start or not text.startswith(raw, start):
            raise InputError(where, name, "there twice", "each key once")
        stop = start + len(raw)
        found[name] = (at, start, stop)
        at = (stop if text[stop] > 32 else _past_space(text, stop)) + 1
    if values and text[at - 1] != 125:
        raise InputError(where, name, "there twice", "each key once")
    return found


def _laid_out(text: bytes, values: Mapping[str, msgspec.Raw]) -> dict[str, Span] | None:
    """As `members`, of an object written as most writers do, with no space or with one after each colon and comma.

    None where it is written in another way, or a key is there twice.
    """
    name = next(iter(values), "")
    gap = 1 if text[len(name) + 4 : len(name) + 5] == b" " else 0
    sizes = [len(value) for value in values.values()]
    if 1 + sum(map(len, values)) + sum(sizes) + len(sizes) * (2 * gap + 4) - gap != len(text):
        return None
    found: dict[str, Span] = {}
    at, more, step = 1, gap + 3, gap + 1
    for name, size in zip(values, sizes, strict=True):
        start = at + len(name) + more
        stop = start + size
        found[name] = (at, start, stop)
        at = stop + step
    if gap:  # without gaps no other text is as short
        begin, between = 0, list[bytes]()
        for _, start, stop in found.values():
            between.append(text[begin:start])
            begin = stop
        if b"".join(between) != ('{"' + '": , "'.join(found) + '": ').encode() or not text.endswith(b"}"):
            return None
    return found


def items(text: bytes) -> list[bytes]:
    """The elements of a JSON array, each as its bytes."""
    return [bytes(item) for item in _ITEMS.decode(text)]


def replaced(
    text: bytes,
    changes: Mapping[str, bytes | None],
    where: str = "request",
    spans: Mapping[str, Span] | None = None,
) -> bytes:
    """An object with some members set or, where None, removed; every other byte as it was.

    A new member is appended. A member is removed with the comma before it (the first: with the one after it).

    Args:
        text: one JSON object.
        changes: JSON of the new values, by key.
        where: a name for the text, for messages.
        spans: of `members`, if known.

    Raises:
        InputError: as `members`.
    """
    if spans is None:
        spans = members(text, where)
    names = list(spans)
    if spans.keys().isdisjoint(changes):
        return _with_more(text, changes, spans[names[-1]][2] if names else text.index(b"{") + 1, bool(names))
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


def _with_more(text: bytes, changes: Mapping[str, bytes | None], end: int, has_members: bool) -> bytes:
    """An object with new members after its last one, which ends at `end`."""
    added = b",".join([msgspec.json.encode(name) + b":" + new for name, new in changes.items() if new is not None])
    return b"%b%b%b%b" % (text[:end], b"," if has_members and added else b"", added, text[end:])


def _past_space(text: bytes, at: int) -> int:
    byte = text[at]
    if byte not in b" \t\r\n":
        return at
    return at + 1 if text[at + 1] not in b" \t\r\n" else _SPACE.match(text, at).end()  # type: ignore[union-attr]


def _value_of(text: bytes, at: int, name: str) -> int:
    """Where the value of the key written at a place starts; 0 where another key is written there."""
    key = f'"{name}":'.encode()
    if text.startswith(key, at):
        return _past_space(text, at + len(key))
    found = _KEY.match(text, at)
    if found is None or msgspec.json.decode(found[1], type=str) != name:
        return 0
    return found.end()


def _said(error: Exception) -> str:
    return "It is nested too deep" if isinstance(error, RecursionError) else str(error)
