"""Reads the bytes of trace files, plain or gzip; a file that cannot be read is an `InputError` that names it."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from io import BufferedIOBase
from itertools import islice
from pathlib import Path

from evenstep.errors import InputError
from evenstep.in_use import reads

#: Bytes of a file, after decompression, that a format's `recognises` gets.
HEAD_BYTES = 1 << 20
_GZIP = b"\x1f\x8b"


def head(path: Path) -> bytes:
    """The first `HEAD_BYTES` bytes of a file, decompressed if it is gzip; `InputError` if it cannot be read (`content`)."""
    return content(path, HEAD_BYTES)


def content(path: Path, size: int = -1, lines: int | None = None) -> bytes:
    """All bytes of a file, or its first `size` bytes, or `lines` lines, decompressed if gzip. It may then not be replaced.

    Raises:
        InputError: missing, a directory, a pipe, unreadable, empty, damaged gzip, or a file that the command will replace.
    """
    if path.is_dir():
        raise InputError(str(path), "file", "a directory", "a file", "Name one trace file.")
    if path.is_fifo():
        hint = "Traces are read more than once: write it to a file first."
        raise InputError(str(path), "file", "a pipe", "a file", hint)
    with _opened(path) as file:
        data = file.read(size) if lines is None else b"".join(islice(file, lines))
    if not data:
        raise InputError(str(path), "file", "empty", "a trace with at least one row")
    return data


def lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of a file one by one, so that a long file is never whole in memory.

    Lines keep newlines only if the decompressed file has `HEAD_BYTES` bytes or more. `InputError` if it cannot be read.
    """
    first = head(path)
    if len(first) < HEAD_BYTES:
        pieces = first.split(b"\n")
        yield from pieces if pieces[-1] else pieces[:-1]
        return
    with _opened(path) as file:
        yield from file


def decoded(path: Path, data: bytes) -> str:
    """Decode bytes of a file as UTF-8, without a byte order mark; `InputError` names file and line of a NUL or bad byte."""
    try:
        if b"\0" in data:
            raise UnicodeDecodeError("utf-8", data, data.index(b"\0"), data.index(b"\0") + 1, "a NUL byte")
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        shown = data[error.start : error.start + 8]
        place = f"{path.name}:{data.count(bytes([10]), 0, error.start) + 1}"
        raise InputError(place, "bytes", shown, "UTF-8 text", "The file is binary or damaged.") from None


@contextmanager
def _opened(path: Path) -> Generator[BufferedIOBase]:
    """Open a file to read it, decompressed if gzip, and note it as read (`in_use`); `InputError` for OS and gzip errors."""
    try:
        if "\0" in str(path):  # the system calls would raise a ValueError
            raise FileNotFoundError
        reads(path)
        with path.open("rb") as raw:
            packed = raw.read(2) == _GZIP
            raw.seek(0)
            with gzip.open(raw) if packed else raw as file:
                yield file
    except FileNotFoundError:
        raise InputError(str(path), "file", "missing", "an existing file", "Check the path.") from None
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise InputError(str(path), "file", "damaged gzip", "a whole gzip file", f"{error}.") from None
    except OSError as error:
        raise InputError(str(path), "file", "unreadable", "a readable file", f"{error.strerror or error}.") from None
