"""Fits batch-time laws to a log of iterations; each fit tells the share of variation that it explains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from evenstep.cost.profile_tables import cells_of, rows_of
from evenstep.errors import InputError, check_known
from evenstep.request import F8

#: Column of a log -> names that it may have in a file.
COLUMNS: dict[str, tuple[str, ...]] = {
    **{name: (name,) for name in ("seconds", "kv", "tokens", "requests", "chunk_squares", "crossed", "decode_context")},
    "kv": ("kv", "kv_tokens", "kv_batch"),
}
#: Laws that are flat up to b0 tokens; and law -> parameter -> column that it multiplies, empty = the constant.
_FLAT = ("token-budget", "long-context")
_TERMS: dict[str, dict[str, str]] = {
    "affine-kv": {"d0_s": "", "d1_s": "kv"},
    "token-budget": {},
    "long-context": {"alpha_s": "chunk_squares", "gamma_s": "crossed", "beta_s": "decode_context"},
    "regression": {
        "constant_s": "",
        "token_s": "tokens",
        "request_s": "requests",
        "kv_s": "kv",
        "square_s": "chunk_squares",
        "crossed_s": "crossed",
        "decode_s": "decode_context",
    },
}
#: Law -> the columns it needs.
LAWS = {law: (("tokens",) if law in _FLAT else ()) + tuple(filter(None, terms.values())) for law, terms in _TERMS.items()}
#: Least share of the variation that a usable fit explains.
LEAST = 0.8
#: Fewest iterations for a fit, and number of values of b0 to try.
FEWEST, TRIED = 20, 64


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """One fitted batch-time law."""

    law: str  # its name
    options: Mapping[str, float]  # its parameters by name: those ending in ``_s`` in seconds (a token, ...), `b0` in tokens
    r_squared: float  # share of the variation of the seconds that it explains; at most 1
    score: float  # n ln(residual variance) + parameters ln(n) (BIC); the lowest wins
    seconds: F8  # float64[K], predicted seconds of each iteration
    residuals: F8  # float64[K], measured minus predicted seconds

    @property
    def is_poor(self) -> bool:
        """True if the law explains less than `LEAST` of the variation."""
        return not self.r_squared >= LEAST

    @property
    def text(self) -> str:
        """The law with its options, as text for ``--batch-time``."""
        return f"{self.law}:" + ",".join(f"{name}={value:.6g}" for name, value in self.options.items())


@dataclass(frozen=True, slots=True, eq=False)
class Fitted:
    """All fits to one log."""

    columns: Mapping[str, F8]  # the log's columns by name, float64[K] each, one value for each iteration
    fits: Sequence[Fit]  # the best (lowest score) first
    left_out: Mapping[str, str]  # name of each law that was not fitted -> the reason


def read_log(path: Any) -> dict[str, F8]:
    """The columns of a CSV log of iterations that fits use, float64[K] each, by the names in `COLUMNS`; others are ignored.

    Raises:
        InputError: an unreadable file, no ``seconds``, neither ``kv`` nor ``tokens``, a double column, fewer than `FEWEST`
            rows, seconds that are all equal, or a bad cell (line and column are named).
    """
    if Path(path).is_fifo():
        raise InputError(str(path), "file", "a pipe", "a file", "A log is read more than once: write it to a file first.")
    head = [name.strip() for name in next(cells_of(path), (1, []))[1]]
    if head and head[0].startswith(("<", "{", "[")):
        kind = "a page" if head[0].startswith("<") else "JSON"
        hint = "Its first line names its columns: seconds, kv, tokens, ..."
        raise InputError(str(path), "file", kind, "a CSV log of iterations", hint)
    there = {name: next((one for one in names if one in head), None) for name, names in COLUMNS.items()}
    found = {name: column for name, column in there.items() if column is not None}
    if "seconds" not in found or not {"kv", "tokens"} & found.keys():
        hint = f"Columns: {', '.join('/'.join(names) for names in COLUMNS.values())}."
        raise InputError(str(path), "header", ",".join(head), "seconds, and kv or tokens", hint)
    double = next((column for column in found.values() if head.count(column) > 1), None)
    if double is not None:
        raise InputError(str(path), "header", ",".join(head), f"one column {double!r}", "Rename or delete the others.")
    rows = rows_of(path, tuple(found.values()))
    columns = {name: np.asarray(rows[column], np.float64) for name, column in found.items()}
    if columns["seconds"].size < FEWEST:
        raise InputError(str(path), "rows", columns["seconds"].size, f"at least {FEWEST} iterations")
    if float(np.ptp(columns["seconds"])) == 0.0:
        raise InputError(str(path), "seconds", float(columns["seconds"][0]), "iterations that differ")
    return columns


def fit_laws(columns: Mapping[str, F8]) -> Fitted:
    """Fit every law whose columns (`LAWS`) are in a log of `read_log`, by least squares with no parameter below 0.

    The result has poor fits too (`checked` refuses those), and names the laws without their columns.

    Source: WAIT eq. 1; Throughput-optimal eq. 2.3 and App. A.1. The papers fit by eye or not at all; the method is ours.
    """
    missing = {law: [name for name in needs if name not in columns] for law, needs in LAWS.items()}
    fits = [_fitted(law, columns) for law, names in missing.items() if not names]
    left_out = {law: f"the log has no {', '.join(names)}" for law, names in missing.items() if names}
    return Fitted(columns, sorted(fits, key=lambda fit: fit.score), left_out)


def checked(where: str, fitted: Fitted, law: str | None = None) -> Fit:
    """The fit of one law, or the best fit if `law` is None; `where` is the name of the log in errors.

    Raises:
        InputError: the fit explains less than `LEAST` of the variation; an unknown law, or one without its columns.
    """
    if law is not None:
        check_known("--law", "law", law, LAWS, "a law that is fitted")
    if law is not None and law in fitted.left_out:
        raise InputError(where, f"fit of {law}", "missing", "the columns it needs", f"{fitted.left_out[law]}.")
    best = next(fit for fit in fitted.fits if law in (None, fit.law))
    if best.is_poor:
        which, value = "best fit" if law is None else "fit", f"{best.r_squared:.3f} ({best.law})"
        hint = (
            "The log does not follow any of the laws: mixed engines, other work on the device, or columns that are missing."
        )
        raise InputError(where, f"R^2 of the {which}", value, f"at least {LEAST}", hint)
    return best


def _least_squares(law: str, names: Sequence[str], parts: Sequence[F8], seconds: F8, more: int = 0) -> Fit:
    """The fit of `seconds`, float64[K], by a sum of `parts`, float64[K] each, times parameters >= 0 with these `names`.

    `more` is the number of other parameters that the score has to count.
    """
    from scipy.optimize import nnls

    table = np.stack(list(parts), axis=1)
    scale = np.maximum(np.abs(table).max(axis=0), 1e-300)
    weights = np.asarray(nnls(table / scale, seconds)[0], np.float64) / scale
    said = table @ weights
    rest = float(((seconds - said) ** 2).sum())
    whole = float(((seconds - seconds.mean()) ** 2).sum())
    score = seconds.size * np.log(max(rest, 1e-12 * whole) / seconds.size) + (len(names) + more) * np.log(seconds.size)
    options = dict(zip(names, weights.tolist(), strict=True))
    return Fit(law, options, 1.0 - rest / whole, float(score), said, seconds - said)


def _fitted(law: str, columns: Mapping[str, F8]) -> Fit:
    """The fit of one law to a log that has its columns."""
    terms = _TERMS[law]
    if law in _FLAT:
        return _by_tokens(law, columns, terms)
    parts = [columns[name] if name else np.ones(columns["seconds"].size) for name in terms.values()]
    return _least_squares(law, tuple(terms), parts, columns["seconds"])


def _by_tokens(law: str, columns: Mapping[str, F8], terms: Mapping[str, str]) -> Fit:
    """The fit of ``c + a * max(0, tokens - b0)`` plus `terms` (parameter -> column) with the best b0 of those tried."""
    starts = np.unique(np.append(0.0, np.quantile(columns["tokens"], np.linspace(0.0, 0.95, TRIED)).round()))
    rough = _best_start(law, columns, terms, starts)
    at = int(np.searchsorted(starts, rough.options["b0"]))
    low, high = starts[max(at - 1, 0)], starts[min(at + 1, starts.size - 1)]
    return _best_start(law, columns, terms, np.unique(np.linspace(low, high, TRIED).round()))


def _best_start(law: str, columns: Mapping[str, F8], terms: Mapping[str, str], starts: F8) -> Fit:
    """The fit of the sum in `_by_tokens` with the best score, if b0 is one of `starts`; of equals the first."""
    tokens, others = columns["tokens"], [columns[name] for name in terms.values()]

    def fit_at(b0: float) -> Fit:
        parts = [np.ones(tokens.size), np.maximum(0.0, tokens - b0), *others]
        fit = _least_squares(law, ("c_s", "a_s", *terms), parts, columns["seconds"], more=1)
        return replace(fit, options={**fit.options, "b0": b0})

    return min(map(fit_at, starts.tolist()), key=lambda fit: fit.score)
