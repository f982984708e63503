"""The files of a decision log, called parts: their names, and which file is the first part of a log.

Part 0 has the given name; part n has ``.n`` before the last suffix. Another log may have such a name too, so the header in
the file decides. A msgpack log has four bytes before each record: its length, little-endian.
"""

from __future__ import annotations

import glob
from pathlib import Path
from typing import Any

from evenstep.errors import InputError
from evenstep.workload import files

#: The word in the header of every log.
KIND = "evenstep-decision-log"
#: Bytes of a record's length.
FRAME = 4


def part_of(path: Path, part: int) -> Path:
    """The path of part number `part` of a log; `path` is that of its part 0."""
    return path if part == 0 else path.with_name(f"{path.stem}.{part}{path.suffix}")


def place_in_log(path: Path) -> tuple[Path, int]:
    """The path of part 0 of the log that a file belongs to, and the number of the part that this file is, by its name.

    A file without ``.n`` before its suffix, or with the header of a log's first part, is part 0. Part 0 need not exist.
    """
    stem, _, number = path.stem.rpartition(".")
    if stem and number.isdecimal() and not begins_log(path):
        return path.with_name(stem + path.suffix), int(number)
    return path, 0


def has_part(path: Path, part: int) -> bool:
    """True if the file of part `part`, 1 or more, exists and does not begin another log; `path` is that of part 0."""
    place = part_of(path, part)
    return place.exists() and not begins_log(place)


def begins_log(path: Path) -> bool:
    """True if a file is part 0 of a decision log, by its header; False if it is another file or cannot be read."""
    header = _header(path)
    return bool(header) and header.get("part", 0) == 0


def follows_gap(path: Path) -> bool:
    """True if a part's header says that records before it are lost; the part before it may end within a record."""
    return bool(_header(path).get("after_gap"))


def later_parts(path: Path) -> list[int]:
    """Numbers of the later parts of the log `path`, from the names of the files in its folder, in no order."""
    names = path.parent.glob(f"{glob.escape(path.stem)}.*{glob.escape(path.suffix)}")
    found = [other.name[len(path.stem) + 1 : len(other.name) - len(path.suffix)] for other in names]
    return [int(text) for text in found if text.isdecimal() and text == str(int(text))]


def first_left(path: Path) -> Path:
    """The file at which to begin a log: `path`, or its earliest later part if `path` is missing or empty and has one."""
    if path.exists() and (not path.is_file() or path.stat().st_size):
        return path
    parts = (part_of(path, part) for part in sorted(later_parts(path)))
    found = next((part for part in parts if not begins_log(part)), path)
    return found if _header(found) else path


def _header(path: Path) -> dict[str, Any]:
    """The header of a part of a decision log; {} if the file is another one or cannot be read."""
    import msgspec

    try:
        head = files.head(path)
        if is_json(head):
            header: Any = msgspec.json.decode(head.partition(b"\n")[0])
        else:
            header = msgspec.msgpack.decode(head[FRAME : FRAME + int.from_bytes(head[:FRAME], "little")])
    except (InputError, msgspec.DecodeError, UnicodeDecodeError):
        return {}
    return header if isinstance(header, dict) and header.get("log") == KIND else {}


def is_json(head: bytes) -> bool:
    """True if `head`, a log's first bytes, is JSON lines; False if msgpack, where one of the first four bytes is 0."""
    return 0 not in head[:FRAME]
