"""The files of a decision log: their names, and which file begins a log.

Part 0 has the given name; part n has ``.n`` before the last suffix. Another log may have such a name too, so the header in
the file decides. In msgpack each record comes in a frame: its length in four bytes, lowest first, then the record.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from evenstep.errors import InputError
from evenstep.workload import files

#: The word in the header of every log.
KIND = "evenstep-decision-log"
#: Bytes of a record's length.
FRAME = 4


def part_of(path: Path, part: int) -> Path:
    """The path of part `part` of a log whose part 0 is `path`."""
    return path if part == 0 else path.with_name(f"{path.stem}.{part}{path.suffix}")


def place_in_log(path: Path) -> tuple[Path, int]:
    """The path of part 0 of the log that a file belongs to, and the part that the file is."""
    stem, _, number = path.stem.rpartition(".")
    if stem and number.isdecimal() and not begins_log(path):
        return path.with_name(stem + path.suffix), int(number)
    return path, 0


def has_part(path: Path, part: int) -> bool:
    """Whether a log whose part 0 is `path` has this later part: a file of its name that does not begin another log."""
    place = part_of(path, part)
    return place.exists() and not begins_log(place)


def begins_log(path: Path) -> bool:
    """Whether a file is part 0 of a log, by its header."""
    import msgspec

    try:
        head = files.head(path)
        if is_json(head):
            header: Any = msgspec.json.decode(head.partition(b"\n")[0])
        else:
            header = msgspec.msgpack.decode(head[FRAME : FRAME + int.from_bytes(head[:FRAME], "little")])
    except (InputError, msgspec.DecodeError, UnicodeDecodeError):
        return False
    return isinstance(header, dict) and header.get("log") == KIND and header.get("part", 0) == 0


def is_json(head: bytes) -> bool:
    """Whether a log is JSON lines, by its first bytes: in msgpack the length of the first record has a byte that is 0."""
    return 0 not in head[:FRAME]
