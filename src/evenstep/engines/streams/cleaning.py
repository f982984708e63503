"""Removes from a chunk the members that only evenstep asked for; every other byte stays."""

from __future__ import annotations

import re

from evenstep.engines.streams import splice
from evenstep.engines.view import Off

_IDS = re.compile(rb'([,{])[ \t\r\n]*+"((?:prompt_)?token_ids)"[ \t]*+:[ \t]*+\[[\d, \t\r\n]*+\]')
_PROMPT_IDS_KEY = b'"prompt_token_ids":['
_PROMPT_IDS = re.compile(rb'("prompt_token_ids"[ \t]*+:)[ \t]*+\[[\d, \t\r\n]*+\]')


def without_usage(data: bytes, off: Off) -> bytes:
    """The chunk `data` with its ``usage`` member, which must be present, removed (`off` is ``absent``) or set to null.

    A flat usage object at the end is cut off without parsing: with no brace between it and the end it is a member of the
    chunk itself. Otherwise the members are parsed one by one.
    """
    at = data.rfind(b',"usage":{')
    if at > 0 and data.find(b"}", at) == len(data) - 2:
        return data[:at] + (b"}" if off == "absent" else b',"usage":null}')
    return splice.replaced(data, {"usage": None if off == "absent" else b"null"}, "engine")


def without_ids(data: bytes) -> bytes:
    """The chunk `data` with ``token_ids`` and ``prompt_token_ids`` at any depth, if lists of numbers, set to null."""
    at = data.find(b'token_ids":[')
    if at < 0 and b'token_ids"' not in data:
        return data
    if at > 0 and data[at - 1] == 34 and data.find(b'token_ids":[', at + 12) < 0:  # a single list without white space
        return data[: at + 11] + b"null" + data[data.index(b"]", at) + 1 :]
    return _IDS.sub(rb'\1"\2":null', data)


def without_prompt_ids(data: bytes) -> bytes:
    """The chunk `data` with each ``prompt_token_ids`` list set to null."""
    return _PROMPT_IDS.sub(rb"\1null", data)


def cut_prompt_ids(data: bytes) -> tuple[bytes, list[bytes]]:
    """The chunk `data` with each ``prompt_token_ids`` list emptied to ``[]``, and the removed lists as JSON, in order.

    The end of a list is searched for, without parsing, since it may take megabytes. A list after a space stays, and so do
    one with a quote or bracket inside and all after that.
    """
    at, pieces, lists = 0, list[bytes](), list[bytes]()
    while (begin := data.find(_PROMPT_IDS_KEY, at)) >= 0:
        begin += len(_PROMPT_IDS_KEY)
        end = data.find(b"]", begin)
        if end < 0 or data.find(b'"', begin, end) >= 0 or data.find(b"[", begin, end) >= 0:
            break
        pieces += data[at:begin], b"]"
        lists.append(data[begin - 1 : end + 1])
        at = end + 1
    return (b"".join([*pieces, data[at:]]), lists) if lists else (data, lists)


def with_prompt_ids(event: bytes, lists: list[bytes]) -> bytes:
    """The event with the lists that `cut_prompt_ids` removed put back, in order; unchanged if their number does not fit."""
    empty, (first, *pieces) = _PROMPT_IDS_KEY + b"]", event.split(_PROMPT_IDS_KEY + b"]")
    if len(pieces) != len(lists):  # lists were removed for the client, or the engine sent empty ones
        return event
    told = [empty[:-2] + ids + piece for ids, piece in zip(lists, pieces, strict=True)]
    return b"".join([first, *told])


def is_list_of_ids(ids: bytes) -> bool:
    """True if a JSON list has only digits, commas and white space in it; their order is not checked: ``[,]`` passes."""
    return ids.translate(None, b"0123456789, \t\r\n") == b"[]"


def framed(raw: bytes, old: bytes, new: bytes) -> bytes:
    """The event `raw` with its data `old` replaced by `new`.

    Other lines of the event, such as ``id:``, stay if `old` occurs exactly once in it; else only a ``data:`` line is left.
    """
    if len(raw) == len(old) + 8 and raw.startswith(b"data: ") and raw.endswith(b"\n\n"):
        return b"data: " + new + b"\n\n"
    if raw.count(old) == 1:
        return raw.replace(old, new)
    return b"data: " + new + b"\n\n"


def with_fingerprint(event: bytes, fingerprint: bytes) -> bytes:
    """The event with the member ``system_fingerprint``, JSON, appended unless it has one or the value is empty or null."""
    at = event.rfind(b"}")
    if not fingerprint or fingerprint == b"null" or b'"system_fingerprint"' in event:
        return event
    return event[:at] + b',"system_fingerprint":' + fingerprint + event[at:]
