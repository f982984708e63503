"""Finds the folder of compiled kernels on disk, and deletes stale ones, without loading the compiler.

It is in ``NUMBA_CACHE_DIR`` if that is set and writable, else next to the sources if they are writable. Else it is in the
first writable one of ``XDG_CACHE_HOME``, the home's ``.cache``, and the folder for temporary files. Without any, kernels are
not kept and every process compiles. Folders elsewhere are named after a hash of the sources, so that versions never share
them. Kernels next to sources that cannot be written are loaded too, e.g. those that were compiled while a container image
was built. The checked build (`compiled`) has its own folders.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

ROOT = Path(__file__).parent
#: True if kernels run as plain Python until this process changes over (`late`); set before `compiled` is imported.
begins_plain = False
_NAME = "evenstep"


@dataclass(frozen=True, slots=True)
class Place:
    """The place of compiled kernels."""

    is_beside: bool  # True if they are in the ``__pycache__`` of each source's folder; `folder` is then None
    folder: Path | None = None  # the folder that holds them otherwise; None with `is_beside` False = they are not kept
    #: True if kernels next to the sources, where nothing can be written, are loaded before any is compiled; none of them is
    #: older than any source
    reads_beside: bool = False

    @property
    def is_kept(self) -> bool:
        """True if compiled kernels outlive the process that compiled them."""
        return self.is_beside or self.folder is not None

    def folder_of(self, source: Path) -> Path | None:
        """The folder, maybe missing, for the kernels of a source file, given by absolute path; None = not kept by evenstep.

        A file outside evenstep gets a folder named after a hash of its own folder; with `is_beside` it gets None.
        """
        if self.is_beside and source.is_relative_to(ROOT):
            return source.parent / "__pycache__"
        if self.folder is None:
            return None
        if source.is_relative_to(ROOT):
            return self.folder / ".".join(source.parent.relative_to(ROOT.parent).parts)
        return self.folder / hashlib.sha256(str(source.parent).encode()).hexdigest()[:16]

    def shipped_folder(self, source: Path) -> Path | None:
        """The folder next to a source of evenstep from which its kernels are only loaded; None = there is none."""
        return source.parent / "__pycache__" if self.reads_beside and source.is_relative_to(ROOT) else None

    def has(self, source: Path) -> bool:
        """True if this place has a compiled kernel of `source`, a file that exists, and it is not older than that file.

        In a `folder`, which is named after evenstep's sources, any age counts; also in that of `shipped_folder`.
        """
        written = source.stat().st_mtime if self.is_beside else 0.0
        folders = [folder for folder in (self.folder_of(source), self.shipped_folder(source)) if folder is not None]
        indices = [index for folder in folders for index in folder.glob(f"{source.stem}.*.nbi")]
        return any(index.stat().st_mtime >= written for index in indices)

    def is_noted(self, what: str) -> bool:
        """True if `note` has recorded that all kernels of `what` are here, with the present sources, Python and kind of CPU.

        `what` is any text on which caller and recorder agree. False if kernels are not kept.
        """
        if self.reads_beside and Place(True).is_noted(what):
            return True
        file = self._note_of(what)
        try:
            return file is not None and file.stat().st_mtime >= (_newest_source() if self.is_beside else 0.0)
        except OSError:
            return False

    def note(self, what: str) -> None:
        """Record for `is_noted` that all kernels of `what` are here. If the file cannot be written, nothing is recorded."""
        file = self._note_of(what)
        if file is not None:
            with suppress(OSError):
                file.touch()

    def _note_of(self, what: str) -> Path | None:
        """The file that `note` makes for `what`; None if kernels are not kept."""
        folder = ROOT / "__pycache__" if self.is_beside else self.folder
        name = hashlib.sha256(f"{sys.version} {platform.machine()} {what}".encode()).hexdigest()[:16]
        return None if folder is None else folder / f"{name}.compiled"

    def lock_file(self) -> Path | None:
        """The file whose bytes are locked while kernels are compiled (`kernel_locks`); None = kernels are not kept."""
        folder = ROOT / "__pycache__" if self.is_beside else self.folder
        return None if folder is None else folder / "compiling.lock"

    def said(self) -> str:
        """Text for operators: where kernels are kept, or that they are not kept; empty if they are next to their sources."""
        if self.is_beside:
            return ""
        if self.folder is None:
            return (
                "no folder can be written, so they are not kept: every start compiles; "
                "give XDG_CACHE_HOME or TMPDIR a folder that can be written"
            )
        return f"kept in {self.folder}"


def is_checked() -> bool:
    """True if kernels are compiled in the checked build (`compiled`)."""
    return os.environ.get("EVENSTEP_CHECKED") == "1"


@cache
def place() -> Place:
    """The place where this process keeps its kernels, by the rules at the top of this file.

    The first call decides for the whole process. It makes folders, and tests them by writing a temporary file.
    """
    if is_checked():  # the two builds share no folder
        bases = (ROOT / "__pycache__", *_bases())
        return Place(False, next((found for base in bases if (found := _usable(base / "checked")) is not None), None))
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    if chosen and (folder := _usable(Path(chosen))) is not None:
        return Place(False, folder)
    if _is_writable(ROOT / "__pycache__"):
        return Place(True)
    return Place(False, next((found for base in _bases() if (found := _usable(base)) is not None), None), _are_shipped())


def _are_shipped() -> bool:
    """Whether there are kernels next to the sources, none of them older than any source."""
    indices = [index for index in ROOT.rglob("*.nbi") if index.parent.name == "__pycache__"]
    return bool(indices) and min(index.stat().st_mtime for index in indices) >= _newest_source()


def _bases() -> Iterator[Path]:
    """Folders outside the sources to try, best first; the temporary one is created, with access for this user only."""
    named = os.environ.get("XDG_CACHE_HOME")
    if named:
        yield Path(named) / _NAME
    with suppress(RuntimeError):  # a user without a home
        yield Path.home() / ".cache" / _NAME
    with suppress(OSError):  # no folder for temporary files can be written
        shared = Path(tempfile.gettempdir()) / f"{_NAME}-{os.getuid() if hasattr(os, 'getuid') else 'cache'}"
        if _is_ours(shared):
            yield shared


def _usable(base: Path) -> Path | None:
    """The folder for kernels of the present sources below `base`, made if missing; None if it cannot be written."""
    folder = base / f"kernels-{fingerprint()}"
    return folder if _is_writable(folder) else None


def _is_writable(folder: Path) -> bool:
    """Make a folder and write a temporary file there; False if that fails."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _is_ours(folder: Path) -> bool:
    """Make a folder in a shared place; False if that fails or others may use it, since kernels are loaded as code."""
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError:
        return False
    is_own = not hasattr(os, "getuid") or (found.st_uid == os.getuid() and not found.st_mode & 0o077)
    return stat.S_ISDIR(found.st_mode) and is_own


def lend_to_drawing() -> None:
    """Let matplotlib and fontconfig keep their caches next to the kernels' folder, by setting environment variables.

    It sets ``MPLCONFIGDIR``; and ``XDG_CACHE_HOME`` with ``NUMBA_CACHE_DIR``, unless ``XDG_CACHE_HOME`` is set. It does
    nothing if ``MPLCONFIGDIR`` is set, or if kernels are next to their sources or not kept.
    """
    folder = place().folder
    if folder is None or "MPLCONFIGDIR" in os.environ:
        return
    os.environ["MPLCONFIGDIR"] = str(folder.parent / "matplotlib")
    if "XDG_CACHE_HOME" not in os.environ:
        os.environ["NUMBA_CACHE_DIR"] = str(folder.parent)  # where processes that this one starts look for kernels
        os.environ["XDG_CACHE_HOME"] = str(folder.parent)


@cache
def fingerprint() -> str:
    """A hash of all sources of evenstep and of Python's version, 16 hex digits."""
    found = hashlib.sha256(sys.version.encode())
    for source in sorted(ROOT.rglob("*.py")):
        found.update(str(source.relative_to(ROOT)).encode())
        found.update(source.read_bytes())
    return found.hexdigest()[:16]


def text_of(kernel: FunctionType) -> str:
    """A hash of all that a user's plain kernel is compiled from: evenstep, and the files and constants of what it names."""
    made, new, seen = hashlib.sha256(fingerprint().encode()), list[Any]([kernel]), set[int]()
    while new:
        value = new.pop()
        value = getattr(value, "py_func", value)
        if isinstance(value, FunctionType | type):
            file = _file_of(value)
            if id(value) in seen or (file is not None and file.is_relative_to(ROOT)):
                continue
            seen.add(id(value))
            made.update(b"" if file is None else file.read_bytes())
            if isinstance(value, FunctionType):
                for code in _codes(value.__code__):
                    made.update(code.co_code)
                    new += [const for const in code.co_consts if not isinstance(const, CodeType)]
                new += _named(value)
        elif isinstance(value, tuple):
            made.update(f"{len(value)} of".encode())  # pyright: ignore[reportUnknownArgumentType]
            new += value
        elif isinstance(value, int | float | complex | str | bytes | Enum):
            made.update(repr(value).encode())
        elif hasattr(value, "tobytes") and hasattr(value, "dtype"):  # an array, or a number of NumPy's
            made.update(repr((value.dtype, value.shape)).encode() + value.tobytes())
    return made.hexdigest()


def _file_of(value: FunctionType | type) -> Path | None:
    """The source file of a function or class; None if there is none."""
    if isinstance(value, FunctionType):
        file = value.__code__.co_filename
    else:
        file = getattr(sys.modules.get(value.__module__), "__file__", None)
    return Path(file) if file is not None and Path(file).is_file() else None


def _codes(code: CodeType) -> Iterator[CodeType]:
    """The code of a function, and of all functions inside it."""
    yield code
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from _codes(const)


def _named(function: FunctionType) -> list[Any]:
    """The values of a function's globals and closure. For a module among them, what it may take from there.

    Of NumPy only the version counts: numba has its own forms of its functions, and asking it for some names warns.
    """
    names = [name for code in _codes(function.__code__) for name in code.co_names]
    values: list[Any] = [function.__globals__.get(name) for name in names]
    values += [cell.cell_contents for cell in function.__closure__ or ()]
    modules = list[ModuleType]()
    for value in values:  # grows: a package has modules
        package = value.__name__.partition(".")[0] if isinstance(value, ModuleType) else "evenstep"
        if package == "evenstep" or value in modules:
            continue
        modules.append(value)
        if package == "numpy":
            values.append(sys.modules["numpy"].__version__)
        else:
            values += [getattr(value, name, None) for name in names]
    return values


def _newest_source() -> float:
    """The latest time of change of any source of evenstep, seconds since 1970."""
    return max(source.stat().st_mtime for source in ROOT.rglob("*.py"))


_IMPORT = re.compile(r"^from evenstep\.([\w.]+) import (?:\(([^)]*)\)|(.*))$", re.MULTILINE)


def _imported(root: Path, source: Path) -> set[Path]:
    """The files below `root`, the folder of evenstep, from which the file `source` itself imports: not those they import."""
    found: set[Path] = set()
    for module, many, few in _IMPORT.findall(source.read_text(encoding="utf-8")):
        folder = root.joinpath(*module.split("."))
        found |= {folder.with_suffix(".py"), *(folder / f"{name}.py" for name in re.findall(r"\w+", many or few))}
    return {path for path in found if path.is_file()}


def drop_stale(root: Path) -> None:
    """Delete, folder by folder, index files of kernels older than the newest source of their folder: they compile anew.

    A folder's sources are the kernels' own files, all that these import from evenstep at any depth, and both files that use
    numba, which checks only the first. `root` is the folder of evenstep, whose kernels are next to their sources.
    """
    for room in (root, *(path for path in root.rglob("*") if path.is_dir() and path.name != "__pycache__")):
        indices = list(room.glob("__pycache__/*.nbi"))
        if not indices:
            continue
        made = {room / f"{index.name.split('.')[0]}.py" for index in indices}
        sources, new = {root / "compiled.py", root / "numba_internals.py"}, {path for path in made if path.is_file()}
        while new:
            sources |= new
            new = set[Path]().union(*(_imported(root, path) for path in new)) - sources
        newest = max(source.stat().st_mtime for source in sources)
        for index in indices:
            with suppress(OSError):
                if index.stat().st_mtime < newest:
                    index.unlink()


class Announcer:
    """Announces that kernels are being compiled, because that takes long. Only the first announcement is passed on.

    Attributes:
        say: called with the line; None = nothing is passed on, and a later announcement may still be.
    """

    def __init__(self) -> None:
        self.say: Callable[[str], None] | None = None
        self._said = False

    def __call__(self) -> None:
        """Announce that this process is about to compile kernels."""
        more = place().said()
        self._tell(f"compiling kernels, up to a minute or two{'; ' + more if more else ', kept for later runs'}")

    def meanwhile(self, doing: str) -> None:
        """Make the announcement, unless one was made; then pass on `doing`, a line on how this process works until then."""
        self()
        if self.say is not None:
            self.say(doing)

    def waiting(self) -> None:
        """Tell `say`, unless it was told before, that another process compiles kernels and this one waits for it."""
        self._tell("another process compiles kernels; waiting for it, then loading them")

    def _tell(self, line: str) -> None:
        """Pass `line` on to `say`, unless an earlier line was passed on."""
        if self.say is not None and not self._said:
            self._said = True
            self.say(line)


announce = Announcer()
