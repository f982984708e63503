"""The settings of recording: two environment variables give the folder of an engine's step records, and its rank."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from evenstep.errors import InputError, nearest

FOLDER, RANK = "EVENSTEP_STEPS_FOLDER", "EVENSTEP_STEPS_RANK"


@dataclass(frozen=True, slots=True)
class Recording:
    """Where to record steps, and as which rank."""

    folder: Path  # where the files go; made when missing
    rank: int = -1  # number of the engine; -1 = `rank_of` finds one


def recording(environ: Mapping[str, str]) -> Recording | None:
    """The recording that the environment asks for; None = no recording.

    Raises InputError for a rank that is no integer >= 0, a rank without a folder, or an unknown ``EVENSTEP_STEPS...``.
    """
    for name in environ:
        if name.startswith("EVENSTEP_STEPS") and name not in (FOLDER, RANK):
            raise InputError("environment", "variable", name, "a known one", nearest(name, (FOLDER, RANK)))
    rank = environ.get(RANK, "")
    if rank and not rank.isdecimal():
        raise InputError("environment", RANK, rank, "an integer >= 0")
    folder = environ.get(FOLDER, "")
    if not folder:
        if rank:
            raise InputError("environment", FOLDER, "missing", "a folder", f"Or unset {RANK}.")
        return None
    return Recording(Path(folder), int(rank) if rank else -1)


def rank_of(asked: Recording, launched: int, is_parallel: bool, pid: int) -> int:
    """The engine's number: from the environment (`asked`), else its data-parallel rank, else its process id `pid`.

    `launched` is the data-parallel rank in vLLM's settings; 0 does not count for a single engine (`is_parallel` False).
    """
    if asked.rank >= 0:
        return asked.rank
    return launched if is_parallel or launched else pid
