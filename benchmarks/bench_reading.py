"""How fast traces are read, against Python's own csv and json modules doing the least that could be called reading.

It cannot show how fast a disk is: files are written just before and read from the page cache. It runs on one core.
Rounds of the contenders alternate; the ratio is baseline over ours, the median of the rounds with its range. Ours
checks every field and the order of the rows; the baseline converts the fields it needs and checks nothing.

Run: python benchmarks/bench_reading.py [--rounds 5] [--azure-rows 1000000] [--mooncake-rows 200000]
"""

from __future__ import annotations

import argparse
import csv
import gc
import json
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import numpy as np


def write_azure(path: Path, rows: int) -> None:
    """A file in the Azure 2023 format: chat-like lengths, 6 requests a second."""
    rng = np.random.default_rng(0)
    start = np.datetime64("2023-11-16T18:15:46.680590000")
    times = start + np.cumsum(rng.exponential(1 / 6, rows) * 1e9).astype("timedelta64[ns]")
    prompt, output = rng.integers(3, 7500, rows), rng.integers(1, 1000, rows)
    with path.open("w", newline="") as out:
        out.write("TIMESTAMP,ContextTokens,GeneratedTokens\r\n")
        rows_of_file = zip(np.datetime_as_string(times), prompt.tolist(), output.tolist(), strict=True)
        out.writelines(f"{t[:10]} {t[11:27]}0,{p},{o}\r\n" for t, p, o in rows_of_file)


def write_mooncake(path: Path, rows: int) -> None:
    """A file in the Mooncake format: prompts of about 12,000 tokens, 24 blocks of 512 each, 3-s ticks."""
    rng = np.random.default_rng(1)
    lengths = np.clip(rng.lognormal(8.9, 1.0, rows), 10, 120_000).astype(int)
    fresh = 1
    with path.open("w") as out:
        for row, length in enumerate(lengths.tolist()):
            blocks = -(-length // 512)
            row_ids = [0, *range(fresh, fresh + blocks - 1)]
            fresh += blocks - 1
            out.write(
                json.dumps(
                    {
                        "timestamp": row // 10 * 3000,
                        "input_length": length,
                        "output_length": 300,
                        "hash_ids": row_ids,
                    }
                )
                + "\n"
            )


def plain_azure(path: Path) -> int:
    """Baseline: the csv module and datetime, row by row, into arrays."""
    with path.open(newline="") as file:
        reader = csv.reader(file)
        next(reader)
        rows = [(datetime.fromisoformat(t[:26]).timestamp(), int(p), int(o)) for t, p, o in reader]
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    return int(columns[0].size)


def plain_mooncake(path: Path) -> int:
    """Baseline: the json module, line by line, into arrays."""
    with path.open() as file:
        rows = [json.loads(line) for line in file]
    columns = [np.array([row[name] for row in rows]) for name in ("timestamp", "input_length", "output_length")]
    ids = np.array([block for row in rows for block in row["hash_ids"]])
    return int(columns[0].size) if ids.size else 0


def ours(path: Path) -> int:
    from evenstep import read_trace

    return len(read_trace(path))


def seconds(read: Callable[[Path], int], path: Path, rows: int) -> float:
    gc.collect()
    begun = time.process_time()
    count = read(path)
    took = time.process_time() - begun
    if count != rows:
        raise SystemExit(f"{read.__name__} read {count} of {rows} rows")
    return took


def compare(title: str, path: Path, rows: int, plain: Callable[[Path], int], rounds: int) -> None:
    pairs = [(seconds(plain, path, rows), seconds(ours, path, rows)) for _ in range(rounds)]
    ratios = sorted(base / our for base, our in pairs)
    our = statistics.median(p[1] for p in pairs)
    base = statistics.median(p[0] for p in pairs)
    print(
        f"{title:<34} {rows:>9,} rows  {path.stat().st_size / 1e6:6.0f} MB  ours {our:6.2f} s  plain {base:6.2f} s  "
        f"ratio {statistics.median(ratios):5.1f} ({ratios[0]:.1f} to {ratios[-1]:.1f})"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--azure-rows", type=int, default=1_000_000)
    parser.add_argument("--mooncake-rows", type=int, default=200_000)
    args = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    import orjson
    import pyarrow as pa

    from evenstep import __version__

    libraries = f"numpy {np.__version__}, pyarrow {pa.__version__}, orjson {orjson.__version__}"
    print(f"{platform.machine()} {platform.system()}, Python {platform.python_version()}, evenstep {__version__}")
    print(f"{libraries}; CPU seconds, one core")
    with tempfile.TemporaryDirectory() as folder:
        azure, mooncake = Path(folder) / "azure.csv", Path(folder) / "mooncake.jsonl"
        write_azure(azure, args.azure_rows)
        compare("Azure CSV", azure, args.azure_rows, plain_azure, args.rounds)
        write_mooncake(mooncake, args.mooncake_rows)
        compare("Mooncake JSONL with hash_ids", mooncake, args.mooncake_rows, plain_mooncake, args.rounds)


if __name__ == "__main__":
    main()
