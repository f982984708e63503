"""Stores tables as Parquet files, with a description of the table as JSON in the metadata, under the key ``evenstep``.

A run has one file for each record table, with the run's conditions.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import MISSING, asdict, fields
from pathlib import Path
from typing import Any, cast

import numpy as np

from evenstep.errors import InputError
from evenstep.measure.engine_records import EngineRequestTable, EngineRun, IterationTable
from evenstep.measure.output_file import make_folder, replacing
from evenstep.measure.records import Conditions, DecisionTable, RequestTable, Run, StepTable, Totals, WorkerTable, columns

#: File name and class of each table of a `Run`.
TABLES: dict[str, type] = {
    "requests": RequestTable,
    "steps": StepTable,
    "workers": WorkerTable,
    "decisions": DecisionTable,
}
#: File name and class of each table of an `EngineRun`.
ENGINE_TABLES: dict[str, type] = {"engine_requests": EngineRequestTable, "iterations": IterationTable}
_KINDS = {**TABLES, **ENGINE_TABLES}
_KEY = b"evenstep"
_VERSION = 1


def write_columns(columns: Mapping[str, Any], path: Path, kind: str, about: Mapping[str, Any]) -> int:
    """Write a table as a Parquet file, replacing an old one; returns the number of rows.

    Args:
        columns: values by column name, all of one length: anything that `pyarrow.table` accepts.
        kind: word for the kind of table, which `read_columns` checks.
        about: JSON values for the metadata, NumPy ones included; ``version`` and ``table`` are added.

    Raises: InputError if the file cannot be written.
    """
    import orjson
    import pyarrow as pa
    import pyarrow.parquet as pq

    head = orjson.dumps({"version": _VERSION, "table": kind, **about}, option=orjson.OPT_SERIALIZE_NUMPY)
    table = pa.table(dict(columns)).replace_schema_metadata({_KEY: head})
    with replacing(path) as out:
        pq.write_table(table, out, compression="zstd")
    return table.num_rows


def read_columns(path: Path, kinds: Collection[str], one: str, file: str = "a Parquet file") -> tuple[Any, dict[str, Any]]:
    """Read a file of `write_columns`; returns a `pyarrow.Table` and the metadata: ``version``, ``table`` (kind) and `about`.

    Args:
        kinds: kinds of table that are accepted.
        one, file: names for such a table and such a file in error messages, for instance ``a record table``.

    Raises: InputError if the file cannot be read, or holds another kind or version.
    """
    import orjson
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        read = pq.read_table(path)
    except (OSError, pa.ArrowException) as error:
        raise InputError(str(path), "file", path.name, file, f"{str(error).splitlines()[0]}.") from None
    about = (read.schema.metadata or {}).get(_KEY, b"{}")
    try:
        head: Any = orjson.loads(about)
    except orjson.JSONDecodeError:
        head = about
    if not isinstance(head, dict) or head.get("version") != _VERSION or head.get("table") not in kinds:
        raise InputError(str(path), "metadata", str(head)[:60], f"{one} of version {_VERSION}")
    return read, head


def write_table(table: Any, path: Path, metadata: dict[str, Any]) -> None:
    """Write one record table as a Parquet file that `read_table` reads, replacing an old one. Raises InputError on failure.

    Args:
        table: an instance of a class in `TABLES` or `ENGINE_TABLES`. Two-dimensional columns become lists of fixed size,
            columns that are None are left out, and plain numbers go into the metadata.
        metadata: JSON values, kept under the key ``evenstep``.
    """
    kind = next(name for name, k in _KINDS.items() if isinstance(table, k))
    scalars = {name: int(column) for name, column in columns(table).items() if not isinstance(column, np.ndarray)}
    found = table.to_arrow()
    write_columns(dict(zip(found.column_names, found.columns, strict=True)), path, kind, {"scalars": scalars, **metadata})


def read_table(path: Path) -> tuple[Any, dict[str, Any]]:
    """Read a file of `write_table`; returns the table, an instance of the class that was written, and the metadata.

    Raises: InputError if the file cannot be read, is no record table of this version, or has a column missing or too many.
    """
    import pyarrow as pa

    read, head = read_columns(path, _KINDS, "a record table")
    kind = _KINDS[head["table"]]
    values: dict[str, Any] = dict(head["scalars"])
    for name in read.column_names:
        column = read.column(name).combine_chunks()
        if pa.types.is_fixed_size_list(column.type):
            values[name] = column.flatten().to_numpy(zero_copy_only=False).reshape(-1, column.type.list_size)
        else:
            values[name] = column.to_numpy(zero_copy_only=False)
    known = {f.name for f in fields(kind)}
    needed = {f.name for f in fields(kind) if f.default is MISSING}
    if not needed <= set(values) <= known:
        missing = ", ".join(sorted((needed - set(values)) | (set(values) - known)))
        raise InputError(str(path), "columns", missing, f"the columns of a {head['table']} table")
    return kind(**values), head


def write_run(run: Run | EngineRun, folder: Path) -> list[Path]:
    """Write a run's record tables into a folder, each as a file such as ``requests.parquet``; returns their paths.

    A table that is None gets no file. Files of these names are replaced, others stay.

    Args:
        run: every file carries its conditions, digest and summary, and the totals of a `Run`.
        folder: made if missing.

    Raises: InputError if the run kept no records, or if a file cannot be written.
    """
    metadata: dict[str, Any] = {"conditions": asdict(run.conditions)}
    if isinstance(run, EngineRun):
        tables = {"engine_requests": run.requests, "iterations": run.iterations}
    else:
        tables = {name: getattr(run, name) for name in TABLES}
        metadata["totals"] = asdict(run.totals)
    kept = {folder / f"{name}.parquet": table for name, table in tables.items() if table is not None}
    if not kept:
        raise InputError(str(folder), "records", "off", "a run that kept its records", "Ask for records.")
    make_folder(folder)
    for path, table in kept.items():
        write_table(table, path, {**metadata, "digest": run.digest, "summary": run.summary})
    return [*kept]


def read_run(folder: Path) -> Run:
    """Read the files that `write_run` wrote for a `Run`. A table without a file is None, and so is `trace`.

    `digest` and `summary` are those stored, not computed again.

    Raises: InputError if the folder has no record table, a bad one, or tables with different digests.
    """
    present = [folder / f"{name}.parquet" for name in TABLES if (folder / f"{name}.parquet").exists()]
    if not present:
        raise InputError(str(folder), "folder", folder.name, "a folder with record tables", "See `write_run`.")
    tables: dict[str, Any] = {}
    heads: list[dict[str, Any]] = []
    for path in present:
        tables[path.stem], head = read_table(path)
        heads.append(head)
    if len({head["digest"] for head in heads}) > 1:
        raise InputError(str(folder), "digest", heads[-1]["digest"], "tables of one run")
    head = heads[0]
    return Run(
        _conditions(head["conditions"]),
        Totals(**head["totals"]),
        hashed=lambda: head["digest"],
        measured=lambda: head["summary"],
        **tables,
    )


def _conditions(values: dict[str, Any]) -> Conditions:
    """Make `Conditions` from its JSON form, in which tuples are lists and nan is null."""
    found: dict[str, Any] = {k: tuple(cast("list[Any]", v)) if isinstance(v, list) else v for k, v in values.items()}
    if found["seconds_per_token"] is None:
        found["seconds_per_token"] = float("nan")
    return Conditions(**found)
