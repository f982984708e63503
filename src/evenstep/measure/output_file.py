"""Writing a file whole or not at all: a full disk leaves no half report, and is one clear error."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from evenstep.errors import InputError
from evenstep.in_use import writes


@contextmanager
def replacing(path: Path) -> Generator[BinaryIO]:
    """A context manager that gives a binary file, which replaces `path` if the block ends without an error.

    The file is written next to `path` and renamed, so a reader sees the old file or the new one. After an error the old one
    stays. A device or a pipe is written in place; a link is followed.

    Raises:
        InputError: the folder is missing, the path is not writable, the disk is full, or the command has read the file; also
            for an OSError in the block.
    """
    writes(path)
    try:
        if path.exists() and not path.is_file():
            with path.open("wb") as out:
                yield out
            return
        path = path.resolve()
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
        try:
            with os.fdopen(handle, "wb") as out:
                yield out
            umask = os.umask(0)
            os.umask(umask)
            Path(name).chmod(path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~umask)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise cannot_write(path, error) from error


def write_text(path: Path, text: str) -> None:
    """Write a text file in UTF-8, whole or not at all; replaces an old one, and raises InputError as `replacing` does."""
    with replacing(path) as out:
        out.write(text.encode())


def cannot_write(path: Path, error: OSError) -> InputError:
    """The error, not raised here, that says that a file could not be written and why, in the words of `error`."""
    reason = error.strerror or str(error)
    return InputError(str(path), "file", path.name, "a file that can be written", f"{reason}.")


def make_folder(path: Path) -> None:
    """Create a folder and its parents if missing; `InputError` if it cannot be made, as where a file has its name."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(path, error) from error
