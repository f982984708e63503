"""Writing a file whole or not at all: a full disk leaves no half report, and is one clear error."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from evenstep.errors import InputError


@contextmanager
def replacing(path: Path) -> Generator[BinaryIO]:
    """A binary file that replaces `path` if the block ends without an error.

    It is written next to `path` and renamed, so a reader sees the old file or the new one. A device or a pipe is written in
    place; a link is followed.

    Raises:
        InputError: the folder is missing, the path is not writable, or the disk is full.
    """
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
            Path(name).chmod(0o666 & ~umask)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise cannot_write(path, error) from error


def write_text(path: Path, text: str) -> None:
    """Write a text file whole or not at all, as `replacing` does."""
    with replacing(path) as out:
        out.write(text.encode())


def cannot_write(path: Path, error: OSError) -> InputError:
    """The error for a file that could not be written."""
    reason = error.strerror or str(error)
    return InputError(str(path), "file", path.name, "a file that can be written", f"{reason}.")


def make_folder(path: Path) -> None:
    """Create a folder and its parents.

    Raises:
        InputError: it cannot be made.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(path, error) from error
