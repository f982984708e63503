"""Writes a file completely or not at all, so that a full disk leaves no half report; a failure is one clear error."""

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
    """Context manager that yields a binary file to write, and replaces `path` with it if the block ends without an error.

    The data go to a temporary file next to `path`, which is renamed at the end. After an error `path` is unchanged. A device
    or pipe is written directly; of a symbolic link, the target is replaced.

    Raises: InputError for any OSError, such as a missing folder or a full disk, and if this command has read `path`.
    """
    writes(path)
    try:
        if path.exists() and not path.is_file():
            with path.open("wb") as out:
                yield out
            return
        path = path.resolve()
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:40]}.", suffix=".part")
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
    """Write a UTF-8 text file, completely or not at all, replacing an old one. Raises InputError as `replacing` does.

    Bytes of a file's name that are no UTF-8 become question marks.
    """
    with replacing(path) as out:
        out.write(text.encode(errors="replace"))


def html_path(path: str | Path) -> Path:
    """The path of a report to write. Raises InputError if its name does not end in ``.html``; case does not count."""
    path = Path(path)
    if path.suffix.lower() != ".html":
        raise InputError("report", "path", str(path), "a name that ends in .html")
    return path


def cannot_write(path: Path, error: OSError) -> InputError:
    """Make the InputError, without raising it, that says that `path` cannot be written, with the reason given by `error`."""
    reason = error.strerror or str(error)
    return InputError(str(path), "file", path.name, "a file that can be written", f"{reason}.")


def make_folder(path: Path) -> None:
    """Create a folder and its parents if missing. Raises InputError if that fails, for instance if a file has its name."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(path, error) from error
