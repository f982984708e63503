"""The files of one command: a file that it reads cannot be one that it writes, so a slip in a name costs no data."""

from __future__ import annotations

import stat
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TypeAlias

from evenstep.errors import InputError

_Key: TypeAlias = tuple[int, int]
#: A file of at least so many bytes is announced before it is read.
LONG = 100_000_000
_Say: TypeAlias = Callable[[str], None]
#: Existing files by device and inode: those read so far, and those to be replaced with the flag that names each;
#: and what is called with a line on a long file.
_files: ContextVar[tuple[set[_Key], dict[_Key, str], _Say] | None] = ContextVar("files of the command", default=None)


@contextmanager
def one_command(say: _Say = lambda line: None) -> Generator[None]:
    """Context manager: in its block `reads` and `writes` refuse a file that was given to both. Outside they do nothing.

    `say` is called with a line before a file of `LONG` bytes or more is read.
    """
    before = _files.set((set(), {}, say))
    try:
        yield
    finally:
        _files.reset(before)


def reads(path: Path) -> None:
    """Note that the command reads a file. Raises an `InputError` if `writes` has noted the same file."""
    files, key = _files.get(), _key(path)
    if files is not None and key is not None:
        read, replaced, say = files
        if key in replaced:
            raise _refusal(replaced[key], path)
        if key not in read and (size := path.stat().st_size) >= LONG:
            say(f"reading {path.name}, {size / 1e6:,.0f} MB")
        read.add(key)


def writes(path: Path, flag: str = "output") -> None:
    """Note that the command will replace a file. Raises an `InputError` if `reads` was called for the same file.

    Anything but an existing regular file passes, and is not noted. `flag` names the file on the command line, for errors.
    """
    files, key = _files.get(), _key(path)
    if files is not None and key is not None:
        read, replaced, _ = files
        if key in read:
            raise _refusal(flag, path)
        replaced[key] = flag


def _key(path: Path) -> _Key | None:
    """Device and inode of an existing regular file; None for anything else."""
    try:
        found = path.stat()
    except (OSError, ValueError):  # there is none, or it cannot be reached, or this is no path
        return None
    return (found.st_dev, found.st_ino) if stat.S_ISREG(found.st_mode) else None


def _refusal(flag: str, path: Path) -> InputError:
    return InputError(flag, "file", str(path), "a file that the command does not read", "Name another file to write.")
