"""No tracked file over 500 kB, and no notebook with outputs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

LIMIT = 500_000


def complaints() -> list[str]:
    """One line for each file that must not be in the repository."""
    listed = subprocess.run(["git", "ls-files", "-z"], capture_output=True, check=True, text=True).stdout
    files = [path for name in listed.split("\0") if name and (path := Path(name)).is_file()]
    found = [
        f"{path}: {path.stat().st_size} bytes; expected at most {LIMIT}" for path in files if path.stat().st_size > LIMIT
    ]
    for path in files:
        if path.suffix == ".ipynb":
            cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
            if any(cell.get("outputs") for cell in cells):
                found.append(f"{path}: holds outputs; expected none")
    return found


if __name__ == "__main__":
    sys.exit("\n".join(complaints()) or None)
