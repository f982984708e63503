"""Checks the inputs of a run of the engine simulator: the trace, and the bounds of output lengths."""

from __future__ import annotations

import math
from collections.abc import Sized
from typing import Any, cast

import numpy as np

from evenstep.config.number import integers
from evenstep.errors import MOST, InputError
from evenstep.predict.intervals import Quantiles
from evenstep.request import I8, Trace
from evenstep.scheduling.view import whole_blocks
from evenstep.sim.engine.settings import Engine
from evenstep.wording import counted
from evenstep.workload.checks import LOWEST

#: The highest class of a request. The loops have arrays with an entry for each class.
MOST_CLASS = 1_000_000


def shown(trace: Trace, policy: Any, bounds: tuple[I8, I8] | Quantiles | None) -> tuple[I8, I8] | Quantiles | None:
    """The bounds to show the policy: as given; for a policy with ``believes = "truth"`` both are the true lengths."""
    if getattr(policy, "believes", "") == "truth":
        return trace.output_tokens, trace.output_tokens
    return bounds


def bounds_of(trace: Trace, bounds: tuple[I8, I8] | Quantiles | None) -> tuple[I8, I8]:
    """Believed bounds of the output lengths, int64[N] lowest and highest; 0 and 0 = unknown.

    Args:
        bounds: given bounds, int64[N] each; None = take the trace's columns; quantiles = all unknown at first.

    Raises:
        InputError: not two columns of N whole numbers, a lower bound that is negative or above the upper, or an upper one
            above `MOST`: policies add both.
    """
    pair: Any = bounds
    if isinstance(bounds, Quantiles):
        pair = (np.zeros(len(trace), np.int64),) * 2
    elif bounds is None:
        pair = trace.column("output_low"), trace.column("output_high")
    elif not (isinstance(pair, tuple | list) and len(cast("Sized", pair)) == 2):
        raise InputError("bounds", "bounds", pair, "a pair of columns, lowest and highest output tokens")
    low, high = (_whole("bounds", name, one) for name, one in zip(("low", "high"), pair, strict=True))
    for which, column in (("low", low), ("high", high)):
        if column.shape != (len(trace),):
            raise InputError("bounds", which, counted(column.size, "number"), f"{len(trace)}, one a request")
    wrong = np.flatnonzero((low > high) | (low < 0) | (high > MOST))
    if wrong.size:
        row, hint = int(wrong[0]), "0 and 0 is unknown."
        expected = f"0 <= low <= high <= {MOST} tokens"
        raise InputError("bounds", f"request {row}", f"[{low[row]}, {high[row]}]", expected, hint)
    return low, high


def _whole(where: str, field: str, column: Any) -> I8:
    """A column of whole numbers as int64[*]; an InputError for other types, and for a float not whole or not in int64."""
    numbers = np.asarray(column)
    if numbers.dtype.kind not in "iuf":
        raise InputError(where, field, column, "a column of integers")
    if numbers.dtype.kind == "f" and not (is_whole := (numbers == np.floor(numbers)) & (abs(numbers) < 2.0**63)).all():
        row = int(np.argmin(is_whole))
        raise InputError(where, f"{field} of request {row}", float(numbers.flat[row]), "an integer")
    return np.ascontiguousarray(numbers, np.int64)


def check_columns(trace: Trace) -> None:
    """Check that prompt and output tokens are integers from 1 to `MOST`, and classes integers from 0 to `MOST_CLASS`.

    Compiled loops use them unchecked as counts and array indices. An InputError names the first request and its value.
    """
    where = trace.name or "trace"
    for name in ("prompt_tokens", "output_tokens", "request_class"):
        column, low = _whole(where, name, trace.column(name)), LOWEST[name]
        most = MOST_CLASS if name == "request_class" else MOST
        wrong = (column < low) | (column > most)
        if wrong.any():
            row = int(np.argmax(wrong))
            found = int(column[row])
            expected = f"an integer from {low} to {MOST_CLASS}" if name == "request_class" else integers(low, found)
            raise InputError(where, f"{name} of request {row}", found, expected)


def check_trace(trace: Trace, engine: Engine) -> None:
    """Raise an InputError if `check_columns` does, an arrival is not finite and >= 0, or a request exceeds the KV memory."""
    check_columns(trace)
    where, arrival_s = trace.name or "trace", trace.column("arrival_s")
    is_time = (arrival_s >= 0) & (arrival_s < math.inf)
    if not is_time.all():
        row = int(np.argmin(is_time))
        raise InputError(where, f"arrival_s of request {row}", float(arrival_s[row]), "finite seconds >= 0")
    row, needed, capacity = largest(engine, trace.prompt_tokens, trace.output_tokens)
    if needed > capacity:
        field, text = (
            f"prompt and output of request {row}",
            f"{trace.prompt_tokens[row]} + {trace.output_tokens[row]} tokens",
        )
        hint = "Leave it out, or give the engine more memory."
        raise InputError(where, field, text, f"at most the {capacity} KV tokens of the engine", hint)


def largest(engine: Engine, prompt: I8, output: I8) -> tuple[int, int, int]:
    """Find the request that needs most KV memory. Returns its row, its need and the engine's memory.

    The last two are KV tokens, in whole blocks. All are 0 if there are no requests, or the memory has no limit.
    """
    if not engine.kv_tokens or not prompt.size:
        return 0, 0, 0
    last = 0 if engine.hold_produced or engine.first_token == "decode" else 1
    row, block = int(np.argmax(prompt + output)), engine.block_tokens
    return row, whole_blocks(int(prompt[row] + output[row]) - last, block), engine.kv_tokens // block * block
