"""Decision logs as files: JSON lines (``*.jsonl``), or msgpack in frames, in parts of bounded size.

A frame is the length of a record in four bytes, lowest first, and the record. Part 0 has the name asked for; part n has
``.n`` before the last suffix. A part holds what its dispatcher was when it began, so a replay begins at any of them.

A writer that is killed leaves a part of a record at the end of its last part. It is left out (`cut_off` says how long it
is); anywhere else it is damage.
"""

from __future__ import annotations

import glob
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import msgspec

from evenstep.dispatch.records import KIND, VERSION, Checkpoint, Header, Record
from evenstep.errors import InputError

_FRAME = 4


class LogFile:
    """Takes records and writes them; hand it to a dispatcher as `log`.

    Args:
        path: of part 0; what is there is replaced.
        part_bytes: size from which the next part begins; 0 = one part.
        keep: parts that are kept, the oldest are deleted; 0 = all.

    Raises:
        InputError: a negative number.
        OSError: the file cannot be written.
    """

    def __init__(self, path: Path, part_bytes: int = 0, keep: int = 0) -> None:
        for field, value in (("part_bytes", part_bytes), ("keep", keep)):
            if value < 0:
                raise InputError("decision log", field, value, "an integer >= 0")
        self.path, self.part_bytes, self.keep = path, part_bytes, keep
        self.part, self._written = 0, 0
        self._header = Header()
        self._is_json = path.suffix == ".jsonl"
        self._json, self._msgpack = msgspec.json.Encoder(), msgspec.msgpack.Encoder()
        self._file: IO[bytes] = path.open("wb")

    def __call__(self, record: Record) -> None:
        if isinstance(record, Header):
            self._header = record
        self._write(record)

    def flush(self) -> None:
        """See that everything so far can be read by others."""
        self._file.flush()

    def close(self) -> None:
        self._file.close()

    def _write(self, record: Record) -> None:
        if self._is_json:
            data = self._json.encode(record) + b"\n"
        else:
            data = self._msgpack.encode(record)
            data = len(data).to_bytes(_FRAME, "little") + data
        self._file.write(data)
        self._written += len(data)

    @property
    def is_full(self) -> bool:
        """Whether the next event belongs into a new part."""
        return 0 < self.part_bytes <= self._written

    def begin_part(self, state: bytes) -> None:
        """Begin the next part with the state of its dispatcher (`checkpoint.dump`)."""
        self._file.close()
        self.part, self._written = self.part + 1, 0
        self._file = part_of(self.path, self.part).open("wb")
        self._write(msgspec.structs.replace(self._header, part=self.part))
        self._write(Checkpoint(state))
        self._written = 0
        if self.keep and self.part >= self.keep:
            part_of(self.path, self.part - self.keep).unlink(missing_ok=True)


def part_of(path: Path, part: int) -> Path:
    """Where part n of a log is."""
    return path if part == 0 else path.with_name(f"{path.stem}.{part}{path.suffix}")


def parts_of(path: Path) -> tuple[Path, int]:
    """Where part 0 of a log is or was, and the first part to be read of it.

    Args:
        path: of part 0, deleted or not, or of a later part.
    """
    stem, _, number = path.stem.rpartition(".")
    if stem and number.isdecimal() and path.exists():
        return path.with_name(stem + path.suffix), int(number)
    if not path.exists():
        numbers = [
            int(found)
            for other in path.parent.glob(f"{glob.escape(path.stem)}.*{glob.escape(path.suffix)}")
            if (found := other.name[len(path.stem) + 1 : len(other.name) - len(path.suffix)]).isdecimal()
        ]
        return path, min(numbers, default=0)
    return path, 0


def read_log(path: Path) -> Iterator[Record]:
    """All whole records of a log, part by part, from its first header on; later headers and checkpoints are left out.

    Args:
        path: of the log or of one of its parts: the parts before it, and any that are deleted, are not read.

    Raises:
        InputError: no such file, not a decision log, another version, a part without the state it began with, or damage.
    """
    path, first = parts_of(path)
    part = first
    while part == first or part_of(path, part).exists():
        place = part_of(path, part)
        is_last = not part_of(path, part + 1).exists()
        records = _records(place, is_last)
        header = next(records, None)
        if header is None and is_last and part > first:
            return
        if not isinstance(header, Header) or header.log != KIND:
            raise InputError(str(place), "file", "no decision log", "a log that `evenstep serve` wrote")
        if header.version != VERSION:
            raise InputError(str(place), "version", header.version, f"version {VERSION}")
        if header.part != part:
            raise InputError(str(place), "part", header.part, f"part {part}", "Was the file renamed?")
        if part == first:
            yield header
        if part:
            checkpoint = next(records, None)
            if checkpoint is None and is_last and part > first:
                return
            if not isinstance(checkpoint, Checkpoint):
                raise InputError(str(place), "checkpoint", "missing", "the state that the part began with")
            if part == first:
                yield checkpoint
        yield from records
        part += 1


def cut_off(path: Path) -> int:
    """Bytes at the end of a log that are no whole record.

    Args:
        path: as for `read_log`.

    Raises:
        InputError: no such file.
    """
    path, part = parts_of(path)
    while part_of(path, part + 1).exists():
        part += 1
    place = part_of(path, part)
    with _open(place) as file:
        if place.suffix == ".jsonl":
            end = sum(len(line) for line in file if line.endswith(b"\n"))
        else:
            end = sum(_FRAME + len(piece) for piece in _frames(file, True))
    return place.stat().st_size - end


def _records(path: Path, may_be_cut: bool) -> Iterator[Record]:
    with _open(path) as file:
        pieces = (_lines if path.suffix == ".jsonl" else _frames)(file, may_be_cut)
        decode = (msgspec.json.Decoder if path.suffix == ".jsonl" else msgspec.msgpack.Decoder)(Record).decode
        read = 0
        try:
            for piece in pieces:
                yield decode(piece)
                read += 1
        except (msgspec.DecodeError, EOFError, UnicodeDecodeError) as error:
            where = f"{path}, record {read + 1}"
            said = "cut off" if isinstance(error, EOFError) else str(error)
            raise InputError(where, "record", said, "a record of a decision log") from None


def _open(path: Path) -> IO[bytes]:
    try:
        return path.open("rb")
    except OSError as error:
        raise InputError(str(path), "file", "unreadable", "a decision log", f"{error.strerror}.") from None


def _lines(file: IO[bytes], may_be_cut: bool) -> Iterator[bytes]:
    for line in file:
        if not line.endswith(b"\n"):
            if may_be_cut:
                return
            raise EOFError
        yield line


def _frames(file: IO[bytes], may_be_cut: bool) -> Iterator[bytes]:
    while head := file.read(_FRAME):
        size = int.from_bytes(head, "little")
        piece = file.read(size)
        if len(head) < _FRAME or len(piece) < size:
            if may_be_cut:
                return
            raise EOFError
        yield piece
