"""The batch-time law: seconds of an engine's iteration from its batch, and the same law as an array of numbers.

Compiled loops take laws as data. Every law here is the same sum with other numbers, laid out in one float64 vector::

    C + kv * K + chunks * sum(c^2) + crossed * sum(c * k) + decoded * D + lines(tokens) + lines(requests) + grid(...)

with K the KV tokens held by the batch after it, c the tokens of a prefill chunk, k those computed before it, D the context
of the decoding requests. ``lines`` are straight lines between knots; the last line goes on. ``grid`` interpolates in a
measured table of attention times (`cost.profile`). `batch_seconds` computes the sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from evenstep import names
from evenstep.errors import InputError, check_range
from evenstep.request import F8

# Indices into the content of a batch, float64[FEATURES], as the compiled loop keeps it.
FEATURES = 9
TOKENS, REQUESTS, DECODES, PREFILL_TOKENS, KV, CHUNK_SQUARES, CROSSED, DECODE_CONTEXT, LONGEST = range(FEATURES)
# Indices into the first HEAD numbers of a law (`layout`).
HEAD = 8
CONSTANT, PER_KV, PER_SQUARE, PER_CROSSED, PER_DECODE, TOKEN_KNOTS, REQUEST_KNOTS, GRID = range(HEAD)


@dataclass(frozen=True, slots=True)
class Batch:
    """One iteration's batch: counts in tokens unless said. "Before" means computed in earlier iterations."""

    tokens: int = 0  # tokens that run, decodes and prefill chunks together
    requests: int = 0  # requests in it
    decodes: int = 0  # those that decode
    prefill_tokens: int = 0  # tokens of the prefill chunks
    kv: int = 0  # KV tokens its requests hold after it
    chunk_squares: int = 0  # sum over prefill chunks of their tokens squared
    crossed: int = 0  # sum over prefill chunks of their tokens times those computed before
    decode_context: int = 0  # sum over decoding requests of the tokens computed before
    longest: int = 0  # the most tokens computed before of any decoding request

    @property
    def features(self) -> F8:
        """float64[FEATURES], the fields in order."""
        return np.array([getattr(self, name) for name in self.__slots__], np.float64)


def add(batch: F8, tokens: int, before: int, decodes: bool) -> None:
    """Add a request to the content of a batch, in place.

    Args:
        batch: float64[FEATURES], in the order of the fields of `Batch`; zeros before the first request.
        tokens, before: tokens that the request runs, and those computed before.
        decodes: True if it decodes; else the tokens are a prefill chunk.
    """
    batch[TOKENS] += tokens
    batch[REQUESTS] += 1
    batch[KV] += before + tokens
    if decodes:
        batch[DECODES] += 1
        batch[DECODE_CONTEXT] += before
        batch[LONGEST] = max(batch[LONGEST], before)
    else:
        batch[PREFILL_TOKENS] += tokens
        batch[CHUNK_SQUARES] += tokens * tokens
        batch[CROSSED] += tokens * before


@runtime_checkable
class BatchTime(Protocol):
    """A batch-time law: `seconds` of an iteration; `table` is the same law as numbers, float64[*], laid out by `layout`."""

    def seconds(self, batch: Batch) -> float: ...
    def table(self) -> F8: ...


def batch_law_of(text: str) -> BatchTime:
    """Build a batch-time law from text such as ``affine-kv:d0-s=0.01``; `InputError` for a bad name, option or law."""
    law = names.build("batch", names.parse(text))
    check_law("batch_time", law)
    return law


def check_law(where: str, law: Any) -> None:
    """Raise an `InputError`, about `where`, if `law` is no batch-time law, or its table is shorter than `layout` has it."""
    is_step_time = callable(getattr(law, "overhead_seconds", None))
    if isinstance(law, type) or is_step_time or not callable(getattr(law, "table", None)):
        raise InputError(where, "batch_time", law, "a batch-time law, e.g. TokenBudget()")
    table = np.asarray(law.table(), np.float64)
    is_long = table.ndim == 1 and table.size >= HEAD
    knots = table[[TOKEN_KNOTS, REQUEST_KNOTS]] if is_long else np.full(2, -1.0)
    rest = table.size - HEAD - 2 * knots.sum()
    if not (all(points == 0 or points >= 2 for points in knots) and rest >= (table[GRID] > 0)):  # loops would read on
        raise InputError(where, "batch_time", type(law).__name__, "a law whose table() is made by cost.batch.layout")


def layout(
    *,
    constant: float = 0.0,
    per_kv: float = 0.0,
    per_square: float = 0.0,
    per_crossed: float = 0.0,
    per_decode: float = 0.0,
    tokens: F8 | None = None,
    requests: F8 | None = None,
    grid: F8 | None = None,
) -> F8:
    """A law's numbers as one vector, float64[*]: the sum at the top of this file, each `per_...` a factor in it.

    Args:
        constant: C, seconds of any batch.
        per_kv, per_decode: seconds a KV token that the batch holds, and a context token of its decoding requests.
        per_square, per_crossed: seconds a squared token of a chunk, and a token of a chunk times one before it.
        tokens, requests: float64[2, P], knots (tokens that run, or requests) and seconds at them, P >= 2 ascending; None =
            no such term.
        grid: float64[*], a table as `batch_seconds.on_grid` reads it; None = no such term.
    """
    parts = [np.zeros(0) if part is None else part.ravel() for part in (tokens, requests, grid)]
    knots = [part.size // 2 for part in parts[:2]]
    head = [constant, per_kv, per_square, per_crossed, per_decode, *knots, 0.0 if grid is None else 1.0]
    return np.concatenate([head, *parts])


def on_lines(lines: F8, at: Any) -> Any:
    """Seconds at `at` tokens (requests, bytes), a number or array, on straight lines through knots; the end lines go on.

    `lines` is float64[2, P], P >= 2: ascending tokens, and the seconds at each.
    """
    x, y = lines
    k = np.clip(np.searchsorted(x, at, side="right") - 1, 0, x.size - 2)
    return y[k] + (y[k + 1] - y[k]) / (x[k + 1] - x[k]) * (at - x[k])


def rise_after(lines: F8) -> float:
    """Seconds a token (request, byte) after the last point of a measured line, float64[2, P]: the mean of its upper half.

    The slope between two neighbouring points would mostly show the noise of their times. 0 if the upper half falls.
    """
    last, seconds = lines[:, -1]
    half = max(last / 2.0, lines[0, 0])
    return max(0.0, (seconds - float(on_lines(lines, half))) / (last - half))


def check_numbers(where: str, **values: float) -> None:
    """Raise an `InputError` that names the first value that is not a finite number >= 0."""
    check_range(where, "a finite number >= 0", low=0, finite=True, **values)
