"""A cache of finished runs of sweeps: in memory, and on disk, one small file each, named by the key of the run's inputs."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import orjson

from evenstep.errors import InputError
from evenstep.measure.output_file import make_folder, replacing

_VERSION = 1


class Cache:
    """Results of runs, JSON objects by key, in memory and, with a folder, on disk. Of them nan and inf come back as None.

    The disk is read at most once for each key. A damaged file counts as missing; `damaged` is the number of those met.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self.damaged = 0
        self._known: dict[str, dict[str, Any] | None] = {}

    def get(self, key: str) -> dict[str, Any] | None:
        """The stored result, not to be changed; None if absent or damaged. `InputError` if the file cannot be opened."""
        if key not in self._known:
            self._known[key] = self._read(key)
        return self._known[key]

    def kept(self, key: str) -> dict[str, Any]:
        """The stored result, as `get`, for a key that has one; otherwise an `AssertionError`."""
        found = self.get(key)
        assert found is not None
        return found

    def put(self, key: str, result: dict[str, Any]) -> None:
        """Store a result in memory and, with a folder, in its file; an earlier one is replaced.

        Other processes see the whole file or none. A missing folder is made. `InputError` if the file cannot be written.
        """
        text = orjson.dumps(result)
        self._known[key] = orjson.loads(text)  # the same values as read from disk
        if self.folder is not None:
            path = self._path(self.folder, key)
            make_folder(path.parent)
            head = {"version": _VERSION, "key": key, "sha256": hashlib.sha256(text).hexdigest()}
            with replacing(path) as out:
                out.write(orjson.dumps(head) + b"\n" + text + b"\n")

    def _read(self, key: str) -> dict[str, Any] | None:
        if self.folder is None:
            return None
        path = self._path(self.folder, key)
        try:
            head, _, text = path.read_bytes().partition(b"\n")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise InputError(str(path), "file", path.name, "a file that can be read", f"{error}.") from error
        text = text.removesuffix(b"\n")
        expected = {"version": _VERSION, "key": key, "sha256": hashlib.sha256(text).hexdigest()}
        try:
            if orjson.loads(head) == expected:
                return orjson.loads(text)
        except orjson.JSONDecodeError:
            pass
        self.damaged += 1
        return None

    @staticmethod
    def _path(folder: Path, key: str) -> Path:
        return folder / key[:2] / f"{key}.json"
