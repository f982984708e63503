"""Puts the claims of one experiment into the record: `make papers ONLY=bfio-fig1` gives its ``--format json`` as input."""

from __future__ import annotations

import sys
from pathlib import Path

import orjson

from evenstep.experiments import recorded

FILE = Path(recorded.__file__).parent / "papers" / "recorded.json"

if __name__ == "__main__":
    FILE.write_bytes(recorded.record_one(orjson.loads(sys.stdin.buffer.read())))
