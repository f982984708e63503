"""The files of one command: a file that it reads cannot be one that it writes, so a slip in a name costs no data."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path

from evenstep.errors import InputError


@dataclass(frozen=True, slots=True)
class _Files:
    """Existing files by device and inode: those read so far, and those to be replaced with the flag that names each."""

    read: set[tuple[int, int]] = field(default_factory=set)
    replaced: dict[tuple[int, int], str] = field(default_factory=dict)


_files: ContextVar[_Files | None] = ContextVar("files of the command", default=None)


@contextmanager
def one_command() -> Generator[None]:
    """Context manager: in its block `reads` and `writes` refuse a file that was given to both. Outside they do nothing."""
    before = _files.set(_Files())
    try:
        yield
    finally:
        _files.reset(before)


def reads(path: Path) -> None:
    """Note that the command reads a file. Raises an `InputError` if `writes` was called for the same file."""
    files, key = _files.get(), _key(path)
    if files is not None and key is not None:
        if key in files.replaced:
            raise _refusal(files.replaced[key], path)
        files.read.add(key)


def writes(path: Path, flag: str = "output") -> None:
    """Note that the command will replace a file. Raises an `InputError` if `reads` was called for the same file.

    A device, or a file that does not exist yet, always passes. `flag` names the file on the command line, for errors.
    """
    files, key = _files.get(), _key(path)
    if files is not None and key is not None:
        if key in files.read:
            raise _refusal(flag, path)
        files.replaced[key] = flag


def _key(path: Path) -> tuple[int, int] | None:
    """Device and inode of an existing regular file; None for anything else."""
    if "\0" in str(path) or not path.is_file():
        return None
    found = path.stat()
    return found.st_dev, found.st_ino


def _refusal(flag: str, path: Path) -> InputError:
    return InputError(flag, "file", str(path), "a file that the command does not read", "Name another file to write.")
