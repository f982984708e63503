"""Decision logs as files: JSON lines (``*.jsonl``), or msgpack in frames; in one file or in parts.

`workload.log_parts` says what a frame is, and how parts are named. A later part begins with the state of its dispatcher; if
that could be saved, a replay can begin there.

A writer that is killed may leave an incomplete record at the end of its last part. The reader drops it (`cut_off` is its
length); elsewhere, except before a part that follows a gap, such a record is damage. A writer that fails, on a full disk for
example, loses records: its next part says so (`Header.after_gap`), and a replay continues from the checkpoint of that part.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import IO

import msgspec

from evenstep.dispatch.log.records import KIND, VERSION, Checkpoint, Header, Record
from evenstep.errors import InputError, check_range
from evenstep.workload.log_parts import FRAME, first_left, has_part, later_parts, part_of, place_in_log

_BUFFER = 8192


class LogFile:
    """A decision log that writes records to a file; pass it to a dispatcher as `log`.

    The first record creates the file. If the file cannot be written, a method that has to write raises an `OSError`. Then
    call `give_up`, and later `begin_part` to continue in a new part. A negative number raises InputError.

    Args:
        path: of part 0; an existing file is replaced, and later parts of an older log are deleted. ``.jsonl`` = JSON lines,
            any other suffix = msgpack.
        part_bytes: bytes of records after which `is_full` tells the dispatcher to call `begin_part`; 0 = one part.
        keep: number of latest parts that are kept, older ones are deleted; 0 = all.

    Attributes:
        replaced: number of parts of an older log, other than part 0, that were deleted when this one began.
    """

    def __init__(self, path: Path, part_bytes: int = 0, keep: int = 0) -> None:
        check_range("decision log", "an integer >= 0", low=0, part_bytes=part_bytes, keep=keep)
        self.path, self.part_bytes, self.keep = path, part_bytes, keep
        self.part, self.replaced = 0, 0
        self._opening = 0  # bytes of the header and the state that a later part begins with
        self._has_begun = False
        self._header = Header()
        self._is_json = path.suffix == ".jsonl"
        self._encode = (msgspec.json.Encoder() if self._is_json else msgspec.msgpack.Encoder()).encode
        self._file: FileIO | None = None
        self._buffer = bytearray()
        self._whole = 0  # bytes of the part in the file; they are whole records

    def __call__(self, record: Record) -> None:
        """Buffer a record; the file gets it when 8 KiB are buffered, or at `flush`. A header of part 0 begins a new log."""
        if type(record) is Header and not record.part:
            self._header, self._has_begun = record, False
            self._open(0)
        data = self._encode(record)
        self._buffer += data + b"\n" if self._is_json else len(data).to_bytes(FRAME, "little") + data
        if len(self._buffer) >= _BUFFER:
            self.flush()

    def flush(self) -> None:
        """Write all buffered records to the file, so that other processes can read them; without a file nothing happens.

        It raises an `OSError` if the file at the path is gone or another one by now, or another process changed its size.
        """
        if self._file is None:
            return
        if not self._is_at_path(self._file):
            raise OSError(errno.ESTALE, "another file is at its path")
        if self._size(self._file) not in (None, self._whole):
            raise OSError(errno.ESTALE, "another process cut it or wrote to it")
        left = memoryview(self._buffer)
        while left:
            left = left[self._file.write(left) :]
        left.release()
        self._whole += len(self._buffer)
        self._buffer.clear()

    def close(self) -> None:
        """Write the buffered records, and close the file."""
        self.flush()
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def give_up(self) -> None:
        """Close the file after an error, cut after the last write that was complete; buffered records are lost.

        If nothing is left, a regular file that is still at the path is deleted. It never raises.
        """
        file, self._file = self._file, None
        self._buffer = bytearray()
        if file is None:
            return
        with suppress(OSError):
            if (self._size(file) or 0) > self._whole:
                file.truncate(self._whole)
        if not self._whole:
            with suppress(OSError):
                if self._is_at_path(file) and self._size(file) is not None:
                    part_of(self.path, self.part).unlink()
            self.part = max(0, self.part - 1)
        with suppress(OSError):
            file.close()

    def _is_at_path(self, file: FileIO) -> bool:
        """Whether the open file is still the one at its path, so that records are not lost; OSError if none is there."""
        found, ours = part_of(self.path, self.part).stat(), os.fstat(file.fileno())
        return (found.st_dev, found.st_ino) == (ours.st_dev, ours.st_ino)

    @staticmethod
    def _size(file: FileIO) -> int | None:
        """Bytes of an open file; None if it is a device or a pipe."""
        found = os.fstat(file.fileno())
        return found.st_size if stat.S_ISREG(found.st_mode) else None

    def _open(self, part: int) -> None:
        """Open the file of a part, empty. Until that succeeds once for a log, it deletes the files of an older log there.

        A file that is only named like a later part stays: its header has another part number, or it is no decision log. One
        without a whole record is deleted.
        """
        if not self._has_begun:
            older = [other for other in later_parts(self.path) if _is_part(part_of(self.path, other), other)]
            for other in older:
                part_of(self.path, other).unlink()
            if part > 0 and self.path.is_file():
                self.path.unlink()
            self.replaced = len(older)
        self._file = part_of(self.path, part).open("wb", buffering=0)
        self._has_begun = True
        self.part, self._opening, self._whole = part, 0, 0

    @property
    def is_full(self) -> bool:
        """Whether the part has `part_bytes` of records or more; header and state of a later part are not counted."""
        return 0 < self.part_bytes <= self._whole + len(self._buffer) - self._opening

    def begin_part(self, state: bytes, after_gap: bool = False) -> None:
        """Close the present part and begin the next one, with a header and the state of its dispatcher.

        If `keep` is above 0, the part that is `keep` numbers before it is deleted.

        Args:
            state: of `checkpoint.dump`; empty = it could not be saved.
            after_gap: records between the last part and this one are lost.
        """
        self.close()
        is_gone = after_gap and not part_of(self.path, self.part).exists()  # a reader ends at a number that is missing
        self._open(max(1, self.part + (not is_gone)))
        self(msgspec.structs.replace(self._header, part=self.part, after_gap=after_gap))
        self(Checkpoint(state))
        self.flush()
        self._opening = self._whole
        if self.keep and self.part >= self.keep:
            with suppress(OSError):
                part_of(self.path, self.part - self.keep).unlink()


def _is_part(path: Path, part: int) -> bool:
    """Whether a file is this part of a log, or has no whole record."""
    try:
        header = next(_records(path, True), None)
    except InputError:
        return False
    return header is None or (isinstance(header, Header) and header.part == part)


def read_log(path: Path) -> Iterator[Record]:
    """Read all whole records of a log lazily, part by part: first a `Header`, then the others in the order written.

    `path` is the log or one of its parts: the parts before it, and any that are deleted, are not read. If the first part
    read is not part 0, its `Checkpoint` follows the header. Later headers are skipped. So are later checkpoints, except that
    of a part before which records are lost. The last part is the one that is last when its reading begins.

    Raises:
        InputError: while it is read: no file, no decision log, another version, a part without its first state, damage.
    """
    path, first = place_in_log(first_left(path))
    part, is_last = first, False
    while not is_last:
        place = part_of(path, part)
        is_last = not has_part(path, part + 1)
        later = None if is_last else next(_records(part_of(path, part + 1), True), None)
        is_cut = is_last or (isinstance(later, Header) and later.after_gap)
        records = _records(place, is_cut)
        header = next(records, None)
        if header is None and is_last and part > first:
            return
        if header is None and is_cut and not is_last:  # its writer failed before the first record
            first += part == first
            part += 1
            continue
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
            if part == first or header.after_gap:
                yield checkpoint
        yield from records
        part += 1


def cut_off(path: Path) -> int:
    """Bytes at the end of a log's last part that are not a whole record, because the writer was killed; 0 = all is whole.

    `path` is as for `read_log`. Raises InputError if there is no such file.
    """
    path, part = place_in_log(first_left(path))
    while has_part(path, part + 1):
        part += 1
    place = part_of(path, part)
    pieces, before = (_lines, 0) if place.suffix == ".jsonl" else (_frames, FRAME)
    with _open(place) as file:
        whole = sum(before + len(piece) for piece in pieces(file, True))
        return file.tell() - whole  # not the file's size: its writer may add records meanwhile


def _records(path: Path, may_be_cut: bool) -> Iterator[Record]:
    """The records of one file, decoded lazily. An incomplete last one is dropped if `may_be_cut`.

    Raises InputError if the file cannot be read or a record is damaged.
    """
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
    """The file, opened to read bytes. Raises InputError if that fails."""
    try:
        return path.open("rb")
    except OSError as error:
        raise InputError(str(path), "file", "unreadable", "a decision log", f"{error.strerror}.") from None


def _lines(file: IO[bytes], may_be_cut: bool) -> Iterator[bytes]:
    """The whole lines of a file. At an incomplete last one it ends if `may_be_cut`, else raises EOFError."""
    for line in file:
        if not line.endswith(b"\n"):
            if may_be_cut:
                return
            raise EOFError
        yield line


def _frames(file: IO[bytes], may_be_cut: bool) -> Iterator[bytes]:
    """The content of the whole frames of a file. At an incomplete last one it ends if `may_be_cut`, else raises EOFError."""
    while head := file.read(FRAME):
        size = int.from_bytes(head, "little")
        piece = file.read(size)
        if len(head) < FRAME or len(piece) < size:
            if may_be_cut:
                return
            raise EOFError
        yield piece
