"""Statistics of a trace: rows, rate, burstiness, lengths, sessions, prefixes; and a digest that identifies it."""

from __future__ import annotations

import hashlib
import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np

from evenstep.request import COLUMNS, F8, I8, Trace
from evenstep.workload.readers.blocks import seen_share
from evenstep.workload.readers.servegen_clients import WINDOW_S, Client, load
from evenstep.workload.replicate import rate

#: Window of the second coefficient of variation, seconds.
CV_WINDOW_S = 300.0
_FEWEST = 20  # arrivals in a window that counts


def describe(trace: Trace) -> dict[str, Any]:
    """All statistics of a request trace that `evenstep trace inspect` shows; None for those that do not apply.

    ``span_s`` is the seconds from the first arrival to the last. ``cv_gaps`` is the standard deviation of the gaps between
    arrivals over their mean; ``cv_gaps_5min`` is its median over 5-minute windows (`cv_in_windows`), without slow drift.
    ``prompt_tokens`` and ``output_tokens`` hold the entries of `lengths`. ``share_at_largest`` is the share of outputs equal
    to the largest. ``sessions`` has their count, requests a session and think times. ``classes`` counts the classes.
    ``prefix_share`` is the share of prompt blocks that a prefix cache without limit would hit (`seen_share`).
    """
    blocks = trace.prefix_blocks
    return {
        "name": trace.name,
        "format": trace.format,
        "rows": len(trace),
        "span_s": None if trace.arrival_s is None else float(trace.arrival_s[-1] - trace.arrival_s[0]),
        "requests_per_s": _plain(rate(trace)),
        "cv_gaps": _plain(cv_of_gaps(trace.arrival_s)),
        "cv_gaps_5min": _plain(cv_in_windows(trace.arrival_s)),
        "prompt_tokens": lengths(trace.prompt_tokens),
        "output_tokens": lengths(trace.output_tokens),
        "share_at_largest": float((trace.output_tokens == trace.output_tokens.max()).mean()),
        "sessions": _sessions(trace),
        "classes": None if trace.request_class is None else int(np.unique(trace.request_class).size),
        "prefix_share": None if blocks is None else _plain(seen_share(blocks, trace.column("session"))),
        "digest": digest(trace),
        "notes": list(trace.notes),
    }


def lengths(tokens: I8) -> dict[str, float]:
    """Mean, median, two quantiles and maximum, in tokens, under ``mean``, ``p50``, ``p95``, ``p99`` and ``max``."""
    low, high, highest = (float(q) for q in np.quantile(tokens, [0.5, 0.95, 0.99]))
    return {"mean": float(tokens.mean()), "p50": low, "p95": high, "p99": highest, "max": int(tokens.max())}


def cv_of_gaps(arrival_s: F8 | None) -> float:
    """Standard deviation over mean of the gaps between arrivals; nan without times, below two gaps, or if all gaps are 0."""
    if arrival_s is None or arrival_s.size < 3:
        return math.nan
    gaps = np.diff(arrival_s)
    mean = float(gaps.mean())
    with np.errstate(over="ignore"):  # of times as large as 1e300
        return float(gaps.std()) / mean if mean > 0 else math.nan


def cv_in_windows(arrival_s: F8 | None) -> float:
    """Median of `cv_of_gaps` over windows of `CV_WINDOW_S` seconds, counted from the first arrival.

    Only windows with at least 20 arrivals, not all at one time, count; nan without such a window or without times.
    """
    if arrival_s is None:
        return math.nan
    window = (arrival_s - arrival_s[0]) // CV_WINDOW_S
    starts = np.concatenate([[0], np.flatnonzero(np.diff(window)) + 1, [window.size]])
    inside = [arrival_s[a:b] for a, b in itertools.pairwise(starts) if b - a >= _FEWEST]
    values = [cv for part in inside if not math.isnan(cv := cv_of_gaps(part))]
    return float(np.median(values)) if values else math.nan


def digest(trace: Trace) -> str:
    """SHA-256 over every column and the prefix blocks, as 64 hex digits; equal exactly when those are.

    An absent column differs from one of zeros. Name, format, notes and `synthetic` do not count.
    """
    sha = hashlib.sha256()
    for name in COLUMNS:
        column = getattr(trace, name)
        if column is not None:
            sha.update(name.encode() + np.ascontiguousarray(column).tobytes())
    if trace.prefix_blocks is not None:
        blocks = trace.prefix_blocks
        sha.update(f"{blocks.block_tokens} {blocks.scope}".encode() + blocks.offsets.tobytes() + blocks.ids.tobytes())
    return sha.hexdigest()


def is_generator(path: Path) -> bool:
    """True if a file is a ServeGen tar, of clients to draw requests from; `InputError` if it cannot be read."""
    from evenstep.workload import files
    from evenstep.workload.readers import servegen

    return servegen.recognises(files.head(path), path.name)


def describe_clients(path: Path) -> dict[str, Any]:
    """Statistics of a ServeGen tar: clients, their rates and burstiness, and their length laws weighted by rate.

    Time counts from second 0 of the file to its last window: ``requests_per_s`` is the mean rate of all clients together,
    ``peak_to_mean`` the rate of the busiest 600-s window over it, ``requests_implied`` all requests. ``cv_gaps`` is the mean
    of the clients' own coefficients of variation, weighted by rate. ``top_10_share`` is the share of requests of the ten
    busiest clients. ``lengths`` maps fields of the file to the entries of `lengths`. `InputError` if the tar is damaged.
    """
    clients = load(path)
    windows = np.concatenate([c.start_s for c in clients]) // WINDOW_S
    rates, cv = (np.concatenate([getattr(c, name) for c in clients]) for name in ("rate", "cv"))
    total = np.bincount(windows.astype(np.int64), weights=rates)  # requests a second of all clients together, by window
    mean = float(total.mean())
    busiest = np.sort([float(c.rate.sum()) for c in clients])[::-1]
    return {
        "name": path.name,
        "format": "servegen",
        "clients": len(clients),
        "clients_with_lengths": sum(bool(c.laws_at(0.0)) for c in clients),
        "requests_implied": round(float(total.sum()) * WINDOW_S),
        "span_s": float(total.size) * WINDOW_S,
        "requests_per_s": mean,
        "peak_to_mean": float(total.max()) / mean,
        "cv_gaps": float((cv * rates).sum() / rates.sum()),
        "top_10_share": float(busiest[:10].sum() / busiest.sum()),
        "lengths": _client_lengths(clients),
        "notes": [] if any(c.laws_at(0.0) for c in clients) else ["Rates only: no requests can be drawn from this file."],
    }


def _client_lengths(clients: list[Client]) -> dict[str, dict[str, float]]:
    """`lengths` of each field of tokens or counts that is not all 0; a law's weight is the rate of its windows."""
    values: dict[str, list[I8]] = {}
    weights: dict[str, list[F8]] = {}
    for client in clients:
        starts = sorted(start for start, laws in client.laws.items() if laws)
        covered = np.maximum(np.searchsorted(starts, client.start_s, side="right") - 1, 0)
        for number, start in enumerate(starts):
            share = float(client.rate[covered == number].sum())
            for name, law in client.laws[start].items():
                if share <= 0 or not name.endswith(("_tokens", "_count")):
                    continue
                values.setdefault(name, []).append(law.values)
                weights.setdefault(name, []).append(np.diff(law.shares, prepend=0.0) * share)
    return {
        n: _weighted(np.concatenate(values[n]), np.concatenate(weights[n]))
        for n in sorted(values)
        if max(int(v[-1]) for v in values[n])
    }


def _weighted(values: I8, weights: F8) -> dict[str, float]:
    """The entries that `lengths` has, for values that count by weights."""
    order = np.argsort(values, kind="stable")
    shares = np.cumsum(weights[order])
    places = np.searchsorted(shares, np.array([0.5, 0.95, 0.99]) * shares[-1])
    p50, p95, p99 = (int(v) for v in values[order][np.minimum(places, values.size - 1)])
    mean = float((values * weights).sum() / shares[-1])
    return {"mean": mean, "p50": p50, "p95": p95, "p99": p99, "max": int(values[weights > 0].max())}


def _sessions(trace: Trace) -> dict[str, Any] | None:
    """Count of sessions, requests a session (median, most) and think times in seconds; None without sessions."""
    if trace.session is None or not bool((trace.session >= 0).any()):
        return None
    counts = np.unique(trace.session[trace.session >= 0], return_counts=True)[1]
    found: dict[str, Any] = {
        "count": int(counts.size),
        "requests_p50": float(np.median(counts)),
        "requests_max": int(counts.max()),
        "think_s": None,
    }
    if trace.after is not None and bool((trace.after >= 0).any()):
        think = trace.column("think_s")[trace.after >= 0]
        p50, p95 = (float(q) for q in np.quantile(think, [0.5, 0.95]))
        found["think_s"] = {"mean": float(think.mean()), "p50": p50, "p95": p95, "max": float(think.max())}
    return found


def _plain(value: float) -> float | None:
    """The value itself, or None if it is nan or infinite."""
    return float(value) if math.isfinite(value) else None
