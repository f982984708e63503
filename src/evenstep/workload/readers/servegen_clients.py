"""Reads the clients of a ServeGen tar: each client's rate and burstiness by window, and its length laws."""

from __future__ import annotations

import io
import re
import tarfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from evenstep.errors import InputError
from evenstep.request import F8, I8
from evenstep.wording import counted
from evenstep.workload import files

WINDOW_S = 600.0
_MEMBER = re.compile(r"chunk-(\d+)-(trace\.csv|dataset\.json)$")
_PAIR = re.compile(r"(-?[\d.]+)\s*:\s*([-+\d.eE]+)")
_SHAPES = {"", "Gamma", "Weibull"}


@dataclass(frozen=True, slots=True, eq=False)
class Law:
    """A discrete law of tokens or counts: int64[M] values, ascending, and float64[M] cumulative shares ending at 1."""

    values: I8
    shares: F8

    def quantile(self, u: F8) -> I8:
        return self.values[np.minimum(np.searchsorted(self.shares, u, side="right"), self.values.size - 1)]


@dataclass(frozen=True, slots=True, eq=False)
class Client:
    """One client of a ServeGen tar, in K windows of `WINDOW_S` seconds."""

    number: int  # that in the names of its files, ``chunk-<number>-...``
    start_s: F8  # float64[K], starts of its windows, in the file's time
    rate: F8  # float64[K], requests a second, 0 or more
    cv: F8  # float64[K], coefficient of variation of its gaps
    kind: tuple[str, ...]  # K names: ``Gamma``, ``Weibull`` or "" (no fit: exponential gaps)
    shape: F8  # float64[K], shape of that law (1 where there is no fit); its scale follows from the rate
    #: window start (s) -> field -> law of its tokens or counts; fields as the file names them. Empty: rates only.
    laws: dict[float, dict[str, Law]] = field(default_factory=dict)

    def laws_at(self, time_s: float) -> dict[str, Law]:
        """The laws by field that hold at `time_s`, in the file's time; {} if the client has no laws.

        They are those of the last window with laws that began by then, or if none had, of the first window with laws.
        """
        known = [start for start, laws in sorted(self.laws.items()) if laws]
        before = [start for start in known if start <= time_s]
        return self.laws[before[-1] if before else known[0]] if known else {}


def load(path: Path) -> list[Client]:
    """Read all clients of the tar, ascending by number: one for each ``chunk-<number>-trace.csv``.

    A client without a ``-dataset.json`` has no laws.

    Raises:
        InputError: no tar, no client in it that sends requests, or a damaged window (file, line, field, value).
    """
    data = files.content(path)
    traces: dict[int, Client] = {}
    laws: dict[int, dict[float, dict[str, Law]]] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(data)) as tar:
            for member in tar:
                match = _MEMBER.search(member.name)
                content = tar.extractfile(member) if match and member.isfile() else None
                if match is None or content is None:
                    continue
                number, where = int(match.group(1)), f"{path.name}:{member.name}"
                if match.group(2) == "trace.csv":
                    traces[number] = _client(number, content.read(), where)
                else:
                    laws[number] = _laws(content.read(), where)
    except tarfile.TarError as error:
        raise InputError(path.name, "file", "damaged", "a tar of chunk-i-trace.csv files", f"{error}.") from None
    if not traces:
        raise InputError(path.name, "clients", 0, "chunk-i-trace.csv files in the tar")
    if not any(client.rate.any() for client in traces.values()):
        raise InputError(path.name, "rates", 0, "a client that sends requests")
    return [replace(client, laws=laws.get(number, {})) for number, client in sorted(traces.items())]


def _client(number: int, data: bytes, where: str) -> Client:
    """Parse one ``-trace.csv`` file to a client without length laws; `InputError` for a bad line. `where` is for errors."""
    rows: list[tuple[float, float, float, str, float]] = []
    for line, text in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
        row, place = text.split(","), f"{where}:{line}"
        if len(row) != 6:
            raise InputError(place, "row", counted(len(row), "column"), "6 columns")
        start, rate, cv = (_number(cell, place, name) for cell, name in zip(row, ("start", "rate", "cv"), strict=False))
        kind = row[3].strip()
        if kind not in _SHAPES:
            raise InputError(place, "distribution", kind, "Gamma, Weibull or nothing")
        shape = _number(row[4], place, "parameter 1") if kind else 1.0
        if kind and rate > 0 and shape <= 0:
            raise InputError(place, "parameter 1", shape, "a shape > 0")
        rows.append((start, rate, cv, kind, shape))
    start, rate, cv, kinds, shape = zip(*rows, strict=True) if rows else ((), (), (), (), ())
    return Client(number, np.array(start), np.array(rate), np.array(cv), tuple(kinds), np.array(shape))


def _number(text: str, where: str, name: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not (np.isfinite(value) and value >= 0):
        raise InputError(where, name, text, "a finite number >= 0")
    return value


def _laws(data: bytes, where: str) -> dict[float, dict[str, Law]]:
    """Parse one ``-dataset.json`` file: window start (s) -> field -> law; {} for a window without data."""
    import orjson

    try:
        windows: dict[str, dict[str, Any]] = orjson.loads(data)
        return {
            float(start): {
                name: law for name, text in fields.items() if isinstance(text, str) and (law := _law(text, where, name))
            }
            for start, fields in windows.items()
        }
    except (orjson.JSONDecodeError, AttributeError, ValueError) as error:
        raise InputError(where, "content", "damaged", "windows of `field: {tokens: share}`", f"{error}.") from None


def _law(text: str, where: str, name: str) -> Law | None:
    """Parse a law from text with ``value: share`` pairs, in any order; None if the text has no pair."""
    pairs = _PAIR.findall(text)
    if not pairs:
        return None
    values = np.array([float(value) for value, _ in pairs])
    weights = np.array([float(weight) for _, weight in pairs])
    if weights.min() < 0 or not 0 < weights.sum() < np.inf:
        raise InputError(where, name, f"shares {weights.min():g} to {weights.max():g}", "shares >= 0 with a finite sum > 0")
    if np.abs(values).max() >= 2.0**63:
        raise InputError(where, name, float(values.max()), "values below 2^63")
    order = np.argsort(values, kind="stable")
    shares = np.cumsum(weights[order])
    return Law(values[order].astype(np.int64), shares / shares[-1])
