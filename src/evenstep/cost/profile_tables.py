"""Measured tables of a model on a device, parsed and checked: the data of the batch-time law `profile`."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from evenstep.errors import InputError, check_range, nearest
from evenstep.in_use import reads
from evenstep.request import F8

BUNDLED = Path(__file__).parent / "profiles"
#: Columns of the attention table that are the axes of its grid.
AXES = ("prefill_chunk", "kv_prefill", "n_decode", "kv_decode")


@dataclass(frozen=True, slots=True)
class Facts:
    """The content of ``profile.json``."""

    layers: int = 0  # of the model; 0 if not given
    graph_tokens: int = 0  # most tokens of a batch that runs as a captured graph; 0 = no graphs
    hidden: int = 0  # numbers of a token between layers
    bytes_each: int = 2  # bytes of one number (the volume of a collective)
    #: shares of the longest context that count, of batches that only decode and of mixed ones
    skew: tuple[float, float] = (0.0, 0.0)
    attention: str = "attention.csv"  # the file of the attention table, relative to the folder
    experts: int = 0  # of a mixture: all of a layer
    experts_each: int = 0  # of a mixture: those used by a token
    expert_ranks: int = 1  # of a mixture: devices that hold them
    shares_path: bool = False  # True if both directions of the link between devices share one path (`cost.lockstep`)


@dataclass(frozen=True, slots=True, eq=False)
class Attention:
    """Seconds of one layer's attention on a grid without holes."""

    #: float64[a], [b], [c], [d], ascending: prefill tokens, their context, decoding requests, the context of each
    axes: tuple[F8, F8, F8, F8]
    seconds: F8  # float64[a, b, c, d]


@dataclass(frozen=True, slots=True, eq=False)
class Mixture:
    """Seconds of a layer of experts: `table`, float64[a, b], by `tokens` of a rank, float64[a], and `activated`, float64[b].

    `activated` is the number of experts that the tokens activate. Both axes ascend.
    """

    tokens: F8
    activated: F8
    table: F8

    def seconds(self, tokens: F8, facts: Facts) -> F8:
        """float64[K], seconds of a layer by tokens of a rank, float64[K], if the gate chooses all experts equally often.

        A rank runs tokens of all ranks on its own experts; with such a gate these are as many pairs of token and expert as
        its own tokens make. Outside the table the nearest point counts. `facts` must have experts.
        """
        untouched = (1.0 - facts.experts_each / facts.experts) ** (tokens * facts.expert_ranks)
        active = facts.experts / facts.expert_ranks * (1.0 - untouched)
        found = np.empty(tokens.size)
        for i, (at, experts) in enumerate(zip(tokens, active, strict=True)):
            rows = [np.interp(experts, self.activated, row) for row in self.table]
            found[i] = np.interp(at, self.tokens, rows)
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Tables:
    """All tables of a folder. A line is float64[2, P]: tokens (sequences, bytes), ascending, and the seconds at them.

    `dense` (by tokens) and `per_sequence` (by sequences) hold a line for each layer, by its name: the time of running it
    once. If the profile has no file for `moe` or `collective` (by bytes), that table is None.
    """

    dense: dict[str, F8]
    per_sequence: dict[str, F8]
    attention: Attention
    moe: Mixture | None
    collective: F8 | None
    facts: Facts


def read_tables(path: str, collective_name: str = "collective.csv") -> Tables:
    """The tables of the folder `path`, or else of the bundled profile of that name.

    `collective_name` is the file of the collectives' table; only the default one may be missing.

    Raises:
        InputError: no such folder, or a file in it that is missing or wrong.
    """
    folder = next((one for one in (Path(path), BUNDLED / path) if one.is_dir()), None)
    if folder is None:
        raise InputError("profile", "path", path, "a folder of tables, or a bundled profile", nearest(path, bundled()))
    facts = facts_of(folder)
    moe, collective = _file(folder, "moe.csv"), _file(folder, collective_name)
    where = str(folder / "profile.json")
    if moe is not None:
        expected = f"an integer from 1 to {facts.experts}, the experts of a layer"
        check_range(where, "an integer >= 1, as there is moe.csv", low=1, experts=facts.experts)
        check_range(where, expected, low=1, high=facts.experts, experts_each=facts.experts_each)
    if collective is None and collective_name != "collective.csv":
        collective = needed(folder, collective_name)
    if collective is not None:
        expected = f"an integer >= 1, as there is {collective_name}"
        check_range(where, expected, low=1, hidden=facts.hidden, bytes_each=facts.bytes_each)
    return Tables(
        dense=lines_of(needed(folder, "dense.csv"), "tokens"),
        per_sequence=lines_of(needed(folder, "per_sequence.csv"), "sequences"),
        attention=attention_of(needed(folder, facts.attention)),
        moe=None if moe is None else mixture_of(moe),
        collective=None if collective is None else _line(collective, rows_of(collective, ("bytes", "time_us"))),
        facts=facts,
    )


def bundled() -> tuple[str, ...]:
    """Names of the bundled profiles, sorted."""
    return tuple(sorted(one.name for one in BUNDLED.iterdir() if one.is_dir()))


def needed(folder: Path, name: str) -> Path:
    """The path of a required file in a folder, `name` or else `name` with ``.gz``; `InputError` if neither is there."""
    found = _file(folder, name)
    if found is None:
        raise InputError(f"profile {folder}", "table", name, f"a file {name} or {name}.gz")
    return found


def _file(folder: Path, name: str) -> Path | None:
    """The path of `name`, or else of `name` with ``.gz``, in a folder; None if neither is there."""
    return next((one for one in (folder / name, folder / f"{name}.gz") if one.is_file()), None)


def text_of(path: Path) -> str:
    """The text of a file, decompressed if its name ends in ``.gz``, without byte order mark; `InputError` if unreadable."""
    reads(path)
    try:
        raw = path.read_bytes()
        return (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode("utf-8-sig")
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        raise _unreadable(path, getattr(error, "strerror", None) or error) from None


def cells_of(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield each row of a CSV file: the number of its last line, and its cells. `InputError` if the file cannot be read."""
    rows = csv.reader(io.StringIO(text_of(path), newline=None))
    try:
        for row in rows:
            yield rows.line_num, row
    except csv.Error as error:  # a cell that is too long, as after a quote that nothing closes
        raise _unreadable(path, error) from None


def _unreadable(path: Path, reason: object) -> InputError:
    return InputError(str(path), "file", path.name, "a readable CSV file", f"{reason}.")


def rows_of(path: Path, columns: tuple[str, ...], label: str = "") -> dict[str, Any]:
    """Columns of a CSV file by name, float64 in the order of its rows.

    `label`, if given, is a column of text; None where a row has no such cell.

    Raises:
        InputError: the file cannot be read, a column is missing, there is no row, or a cell is not a finite number >= 0
            (line and column are named).
    """
    lines = cells_of(path)
    header = [name.strip() for name in next(lines, (1, []))[1]]
    asked = (*((label,) if label else ()), *columns)
    missing = [name for name in asked if name not in header]
    if missing:
        raise InputError(str(path), "header", ",".join(header), f"with {', '.join(missing)}")
    found: dict[str, list[Any]] = {name: [] for name in asked}
    for number, cells in lines:
        if not cells:
            continue
        row = dict(zip_longest(header, cells[: len(header)]))
        for name in asked:
            found[name].append(row.get(name) if name == label else _number(path, number, name, row.get(name)))
    if not found[columns[0]]:
        raise InputError(str(path), "rows", 0, "at least one")
    return {name: values if name == label else np.array(values) for name, values in found.items()}


def _number(path: Path, row: int, column: str, text: str | None) -> float:
    """A cell as a number; an `InputError` that names line and column if it is not a finite number >= 0."""
    try:
        value = float(text or "")
    except ValueError:
        value = np.nan
    if not 0 <= value < np.inf:
        raise InputError(f"{path}, line {row}", column, text or "empty", "a finite number >= 0")
    return value


def lines_of(path: Path, by: str) -> dict[str, F8]:
    """The measured line of each layer in a table, by name: float64[2, P], the column `by`, ascending, and seconds.

    Raises:
        InputError: a bad file (`rows_of`), a layer with fewer than two points, or two rows at one point.
    """
    rows = rows_of(path, (by, "time_us"), "layer")
    names = np.array(rows["layer"])
    return {
        str(name): _line(path, {by: rows[by][names == name], "time_us": rows["time_us"][names == name]})
        for name in dict.fromkeys(rows["layer"])
    }


def _line(path: Path, rows: dict[str, Any]) -> F8:
    """float64[2, P], points, ascending, and seconds, from the two columns of a table (points, microseconds).

    Fewer than two points, or two rows at one point, raise an `InputError`.
    """
    at, time_us = rows.values()
    order = np.argsort(at, kind="stable")
    at, time_us = at[order], time_us[order]
    if at.size < 2 or (np.diff(at) <= 0).any():
        raise InputError(str(path), next(iter(rows)), at.tolist()[:4], "two or more different points a layer")
    return np.stack([at, time_us * 1e-6])


def attention_of(path: Path) -> Attention:
    """Read an attention table as a grid with its holes `filled`. Of several rows at a point the last counts.

    An `InputError` for a bad file (`rows_of`), or too few points.
    """
    rows = rows_of(path, (*AXES, "time_us"))
    axes, grid = _grid(rows, AXES)
    return Attention(axes, filled(str(path), grid, axes))


def _grid(rows: dict[str, Any], names: tuple[str, ...]) -> tuple[Any, F8]:
    """The points of each column of `names`, ascending, and seconds on the grid they span; nan where none are measured."""
    axes, places = zip(*(np.unique(rows[name], return_inverse=True) for name in names), strict=True)
    grid = np.full([axis.size for axis in axes], np.nan)
    grid[places] = rows["time_us"] * 1e-6
    return axes, grid


def filled(where: str, grid: F8, axes: tuple[F8, ...]) -> F8:
    """A copy of a grid of attention seconds with its holes (nan) filled, so that every batch has a time.

    Holes are points that cannot be measured, did not fit in memory, or lie on another grid of the same table. They are
    filled in this order:

    * Without a prefill chunk, and without decodes, the context of that kind changes nothing. Without both, the time is 0.
    * Between measured points, values are interpolated linearly: along the context of decodes, of the chunk, then the chunk.
    * A shorter context of decodes than any measured one costs as much as the shortest.
    * Longer decode contexts, and more decodes, lie on the line through the last two points; after one, context adds nothing.
    * A larger chunk costs the time of the next smaller one at the same decodes, plus their difference at the fewest decodes.
    * A longer context of the chunk costs as much as the longest measured one.

    Args:
        where: the file, for errors.
        grid: float64[a, b, c, d], seconds by `AXES`; `axes` are the points of each, ascending.

    Raises:
        InputError: the table has too few points.
    """
    grid = grid.copy()
    if axes[0][0] == 0:
        grid[0] = first_known(grid[0], 0)
    if axes[2][0] == 0:
        grid[:, :, 0] = first_known(grid[:, :, 0], 2)
        grid[0, :, 0] = 0.0
    for axis in (3, 1, 0):
        between(grid, axes[axis], axis)
    for m in range(axes[3].size - 2, -1, -1):
        grid[..., m] = np.where(np.isnan(grid[..., m]), grid[..., m + 1], grid[..., m])
    for m in range(2, axes[3].size):
        go_on(grid, axes[3], 3, m)
    for m in range(1, axes[3].size):
        grid[..., m] = np.where(np.isnan(grid[..., m]), grid[..., m - 1], grid[..., m])
    for k in range(3 if axes[2][0] == 0 else 2, axes[2].size):
        go_on(grid, axes[2], 2, k)
    for i in range(1, axes[0].size):
        alone = grid[i, :, :1] - grid[i - 1, :, :1]
        grid[i] = np.where(np.isnan(grid[i]), grid[i - 1] + alone, grid[i])
    for j in range(1, axes[1].size):
        grid[:, j] = np.where(np.isnan(grid[:, j]), grid[:, j - 1], grid[:, j])
    if np.isnan(grid).any():
        hole = np.argwhere(np.isnan(grid))[0]
        at = {name: float(axes[k][hole[k]]) for k, name in enumerate(AXES)}
        raise InputError(where, "row", at, "a measured time there or at a neighbouring point")
    return grid


def first_known(grid: F8, axis: int) -> F8:
    """The first values along an axis that are not nan, with that axis of size 1; nan where all are."""
    return np.take_along_axis(grid, np.argmin(np.isnan(grid), axis=axis, keepdims=True), axis)


def between(grid: F8, points: F8, axis: int) -> None:
    """Fill nan by linear interpolation along an axis with coordinates `points`, in place, between known values only."""
    lines = np.moveaxis(grid, axis, -1)
    here = np.arange(points.size)
    known = ~np.isnan(lines)
    left = np.maximum.accumulate(np.where(known, here, -1), axis=-1)
    right = np.minimum.accumulate(np.where(known, here, points.size)[..., ::-1], axis=-1)[..., ::-1]
    hole = ~known & (left >= 0) & (right < points.size)
    low, high = np.maximum(left, 0), np.minimum(right, points.size - 1)
    start, end = np.take_along_axis(lines, low, -1), np.take_along_axis(lines, high, -1)
    span = np.where(hole, points[high] - points[low], 1.0)
    lines[hole] = (start + (end - start) * ((points - points[low]) / span))[hole]


def go_on(grid: F8, points: F8, axis: int, at: int) -> None:
    """Fill the holes (nan) at index `at` >= 2 of an axis, in place, on the line through the two points before it.

    `points` are the coordinates of the axis, ascending. A hole stays if one of the two points is a hole.
    """
    lines = np.moveaxis(grid, axis, -1)
    slope = (lines[..., at - 1] - lines[..., at - 2]) / (points[at - 1] - points[at - 2])
    beyond = lines[..., at - 1] + slope * (points[at] - points[at - 1])
    lines[..., at] = np.where(np.isnan(lines[..., at]), beyond, lines[..., at])


def mixture_of(path: Path) -> Mixture:
    """Read a table of experts as a grid. A point without a row gets the time of the next larger number of tokens.

    Raises:
        InputError: a bad file (`rows_of`), or a point without a row at the largest number of tokens.
    """
    rows = rows_of(path, ("tokens", "activated_experts", "time_us"))
    (tokens, activated), grid = _grid(rows, ("tokens", "activated_experts"))
    for k in range(tokens.size - 2, -1, -1):
        grid[k] = np.where(np.isnan(grid[k]), grid[k + 1], grid[k])
    if np.isnan(grid).any():
        raise InputError(str(path), "rows", "a hole at the largest tokens", "all activated_experts there")
    return Mixture(tokens, activated, grid)


def facts_of(folder: Path) -> Facts:
    """The content of ``profile.json``, without its field ``source``; the defaults of `Facts` without such a file.

    Raises:
        InputError: not a JSON object of known fields, a value of the wrong type, or a count below 0 (expert_ranks: 1).
    """
    path = folder / "profile.json"
    if not path.is_file():
        return Facts()
    try:
        said = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
        unknown = sorted(set(said) - set(Facts.__slots__) - {"source"})
        if unknown:
            raise InputError(str(path), "field", unknown[0], f"one of {', '.join(Facts.__slots__)}", "Remove it.")
        facts = msgspec.convert(said, Facts)
    except (msgspec.MsgspecError, ValueError) as error:
        raise InputError(str(path), "file", path.name, "a JSON object", f"{error}.") from None
    counts = ("layers", "graph_tokens", "hidden", "bytes_each", "experts", "experts_each")
    check_range(str(path), "an integer >= 0", low=0, **{name: getattr(facts, name) for name in counts})
    check_range(str(path), "an integer >= 1", low=1, expert_ranks=facts.expert_ranks)
    return facts
