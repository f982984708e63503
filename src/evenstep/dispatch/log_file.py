"""Decision logs as files: JSON lines (``*.jsonl``), or msgpack in frames, in parts of bounded size.

A frame is the length of a record in four bytes, lowest first, and the record. Part 0 has the name asked for; part n has
``.n`` before the last suffix. A replay begins at part 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import IO

import msgspec

from evenstep.dispatch.records import KIND, VERSION, Header, Record
from evenstep.errors import InputError

_FRAME = 4


class LogFile:
    """Takes records and writes them; hand it to a dispatcher as `log`.

    Args:
        path: of part 0; what is there is replaced.
        part_bytes: size from which the next part begins; 0 = one part.
        keep: parts that are kept, the oldest are deleted; 0 = all. Without part 0 a log can be compared, not replayed.

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
        elif self.part_bytes and self._written >= self.part_bytes:
            self._next_part()
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

    def _next_part(self) -> None:
        self._file.close()
        self.part, self._written = self.part + 1, 0
        self._file = part_of(self.path, self.part).open("wb")
        self._write(msgspec.structs.replace(self._header, part=self.part))
        if self.keep and self.part >= self.keep:
            part_of(self.path, self.part - self.keep).unlink(missing_ok=True)


def part_of(path: Path, part: int) -> Path:
    """Where part n of a log is."""
    return path if part == 0 else path.with_name(f"{path.stem}.{part}{path.suffix}")


def read_log(path: Path) -> Iterator[Record]:
    """All records of a log, part by part, from its first header on; later headers are left out.

    Raises:
        InputError: no such file, not a decision log, another version, a log that does not begin at part 0, or damage.
    """
    part = 0
    while part == 0 or part_of(path, part).exists():
        place = part_of(path, part)
        records = _records(place)
        header = next(records, None)
        if not isinstance(header, Header) or header.log != KIND:
            raise InputError(str(place), "file", "no decision log", "a log that `evenstep serve` wrote")
        if header.version != VERSION:
            raise InputError(str(place), "version", header.version, f"version {VERSION}")
        if header.part != part:
            hint = "A replay needs the log from its first part on; compare takes any part."
            raise InputError(str(place), "part", header.part, f"part {part}", hint)
        if part == 0:
            yield header
        yield from records
        part += 1


def _records(path: Path) -> Iterator[Record]:
    try:
        file = path.open("rb")
    except OSError as error:
        raise InputError(str(path), "file", "unreadable", "a decision log", f"{error.strerror}.") from None
    with file:
        pieces = file if path.suffix == ".jsonl" else _frames(file)
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


def _frames(file: IO[bytes]) -> Iterator[bytes]:
    while head := file.read(_FRAME):
        size = int.from_bytes(head, "little")
        piece = file.read(size)
        if len(head) < _FRAME or len(piece) < size:
            raise EOFError
        yield piece
