"""The sample files of the trace formats: a file's format is the one whose name its own begins with (`azure_2024.csv`)."""

from __future__ import annotations

from pathlib import Path

from evenstep import names

FOLDER = Path(__file__).parent / "samples"


def _format_of(file: Path) -> str:
    """The longest name of a format that the file's name begins with; empty if there is none."""
    named = file.name.replace("_", "-")
    return max((one for one in names.members("workload") if named.startswith(one)), key=len, default="")


#: Name of each file -> its format.
SAMPLES = {file.name: _format_of(file) for file in sorted(FOLDER.iterdir())}
