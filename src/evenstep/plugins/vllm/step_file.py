"""The file in which an engine records its steps: CSV, one line for each step, one file for each rank."""

from __future__ import annotations

import errno
import fcntl
import os
import sys
from pathlib import Path

from evenstep.errors import InputError

COLUMNS = ("rank", "wave", "step", "start_s", "seconds", "running", "kv_tokens", "produced")


class StepFile:
    """Appends steps; a line is in the file when `add` returns, so that a killed engine loses none.

    A step that cannot be written, on a full disk for example, is dropped without an error; stderr tells of the first.

    Args:
        folder: made when missing.
        rank: of the engine; the file is ``steps-<rank>.csv``, and an old one is continued.

    Raises:
        InputError: the folder cannot be written, or another process writes this rank's file.
    """

    def __init__(self, folder: Path, rank: int) -> None:
        self.path, self.rank, self._lost = folder / f"steps-{rank}.csv", rank, 0
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        except OSError as error:
            raise InputError("step records", "folder", str(folder), "a folder to write in", f"{error.strerror}.") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._file)
            hint = "Give each engine its own EVENSTEP_STEPS_RANK, or none."
            raise InputError("step records", "rank", rank, "a rank no other process records", hint) from None
        if os.fstat(self._file).st_size == 0:
            self._write()

    def add(self, wave: int, step: int, start_s: float, seconds: float, running: int, kv_tokens: int, produced: int) -> None:
        """Append one step; its line is in the file on return. A step that cannot be written is dropped without an error.

        Args:
            wave, step: numbers of the step; ranks in lock-step give the same numbers to the same step.
            start_s: Unix time at which it began.
            seconds: duration, from then until its tokens were known.
            running: requests that hold memory.
            kv_tokens: KV tokens that they held while it ran, the step's own tokens included.
            produced: output tokens that it made; a request whose prompt goes on in the next step makes none.
        """
        self._write(f"{self.rank},{wave},{step},{start_s:.6f},{seconds:.6f},{running},{kv_tokens},{produced}")

    def close(self) -> None:
        """Close the file; another process may then record this rank."""
        os.close(self._file)

    def _write(self, line: str = "") -> None:
        """Append a line, if any, and the header before it to an empty file.

        A line that cannot be written whole is dropped, as the class says.
        """
        before = os.fstat(self._file).st_size
        lines = ([] if before else [",".join(COLUMNS)]) + ([line] if line else [])
        whole = "".join(f"{one}\n" for one in lines).encode()
        try:
            if os.write(self._file, whole) < len(whole):
                os.ftruncate(self._file, before)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            self._lost += 1
            if self._lost == 1:
                print(f"evenstep: {self.path}: {error.strerror}; steps are lost until there is room", file=sys.stderr)
