"""Computes the figures of a run, under the names of vLLM's ``bench serve`` and some of our own.

Times are measured at the client:

* TTFT: from sending a request to its first token;
* TPOT: from the first to the last token, over the number of tokens after the first;
* ITL: gap between two successive chunks with tokens of one answer;
* E2EL: from sending a request to the end of its answer.

Only good answers count, except for duration, ITL, most tokens in a second, most requests at once, CRC and client figures.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np

from evenstep.load.run import BUCKET_S, Outcome
from evenstep.load.settings import OBJECTIVES, LoadSettings
from evenstep.request import F8, I8
from evenstep.wording import counted

PERCENTILES = (90, 95, 99)
_KINDS = ("mean", "median", "std", *(f"p{p}" for p in PERCENTILES))
#: `notes` warns of a client with later starts (p99) or a higher share of a core.
_LATE_MS, _BUSY = 10.0, 0.9
_MESSAGE = 200  # most characters shown of a server's error


def summary(outcome: Outcome, settings: LoadSettings) -> dict[str, Any]:
    """All figures of a run by the names of `docs/reference/load.md`; latencies without data are None.

    ``duration`` and figures per second of duration are nan if no answer has ended. Unfinished requests are neither
    ``completed`` nor ``failed``. Wrong goodput objectives raise `InputError`.
    """
    r = outcome.records
    good = np.array([not error for error in r.error], np.bool_)
    errors = Counter(error for error in r.error if error not in ("", "not-ended"))
    seconds = outcome.duration_s
    completed = int(good.sum())
    asked = int(r.asked_prompt_tokens[good].sum())
    prompt = int(np.where(r.prompt_tokens >= 0, r.prompt_tokens, r.asked_prompt_tokens)[good].sum())
    output = int(r.output_tokens[good].sum())
    ttft, tpot, e2el = times(outcome)
    return {
        "date": datetime.now(UTC).strftime("%Y%m%d-%H%M%S"),
        "endpoint_type": "openai-chat" if settings.chat else "openai",
        "model_id": outcome.model,
        "num_prompts": r.rows,
        "request_rate": settings.rate if settings.rate is not None else "trace" if not settings.closed else "inf",
        "max_concurrency": settings.closed or None,
        "duration": seconds,
        "completed": completed,
        "failed": sum(errors.values()),
        "total_input_tokens": prompt,
        "total_output_tokens": output,
        "request_throughput": completed / seconds,
        "request_goodput": goodput(outcome, settings.objectives()),
        "output_throughput": output / seconds,
        "total_token_throughput": (prompt + output) / seconds,
        "max_output_tokens_per_s": float(tokens_of(outcome, round(1 / BUCKET_S)).max(initial=0)),
        "max_concurrent_requests": most_at_once(r.started_s, r.ended_s),
        **_figures("ttft", 1e3 * ttft[good]),
        **_figures("tpot", 1e3 * tpot[good & (r.output_tokens > 1)]),
        **_gaps(outcome),
        **_figures("e2el", 1e3 * e2el[good]),
        "asked_input_tokens": asked,
        "errors_by_kind": dict(errors.most_common()),
        "counting": counting(outcome),
        "output_crc32": zlib.crc32(r.crc.tobytes()),
        **client(outcome),
    }


def times(outcome: Outcome) -> tuple[F8, F8, F8]:
    """TTFT, TPOT and E2EL of every request in seconds, float64[N] each; nan for a request that has not ended.

    Failed answers are included; TTFT and TPOT of an answer without tokens are nan. The TPOT of one token is 0.
    """
    r = outcome.records
    after = np.maximum(r.output_tokens - 1, 1)
    return r.first_s - r.started_s, (r.last_s - r.first_s) / after, r.ended_s - r.started_s


def goodput(outcome: Outcome, objectives: dict[str, float]) -> float | None:
    """Good answers that meet all objectives, per second of the run's duration; None without objectives.

    `objectives` has the most milliseconds by name (``ttft``, ``tpot``, ``e2el``). The result is nan if no answer has ended.
    """
    if not objectives:
        return None
    values: dict[str, F8] = dict(zip(OBJECTIVES, times(outcome), strict=True))
    kept = np.array([not error for error in outcome.records.error], np.bool_)
    for name, most_ms in objectives.items():
        kept &= 1e3 * values[name] <= most_ms
    return int(kept.sum()) / outcome.duration_s


def counting(outcome: Outcome) -> str:
    """How the tokens of good answers were counted: by ``usage``, by ``ids``, or ``ids+usage`` if answers differ.

    It is ``estimated`` if the tokens of any good answer were estimated, or if no answer is good.
    """
    kinds = {kind for kind, error in zip(outcome.records.counting, outcome.records.error, strict=True) if not error}
    return "estimated" if "estimated" in kinds or not kinds else "+".join(sorted(kinds))


def client(outcome: Outcome) -> dict[str, float | int | None]:
    """Figures of the client's own speed, by name: late starts and timer lag in ms, share of a core, and connections.

    Late starts are None if no request has started; the share (``client_cpu_share``) is nan if no answer has ended.
    """
    late = 1e3 * (outcome.records.started_s - outcome.records.due_s)
    late = late[np.isfinite(late)]
    lag = 1e3 * outcome.lag_s
    return {
        "mean_late_start_ms": float(late.mean()) if late.size else None,
        "p99_late_start_ms": float(np.percentile(late, 99)) if late.size else None,
        "max_late_start_ms": float(late.max()) if late.size else None,
        "p99_client_lag_ms": float(np.percentile(lag, 99)) if lag.size else None,
        "client_cpu_share": outcome.cpu_s / outcome.duration_s,
        "connections": outcome.connections,
    }


def notes(found: dict[str, Any]) -> list[str]:
    """Warnings about a run, as sentences, from the result of `summary`; empty if there is no cause.

    Causes are a client that starts late (in an open loop) or is busy, estimated tokens, and a number of prompt tokens that
    differs by over 1 % from the requested one.
    """
    said: list[str] = []
    late = (found["p99_late_start_ms"] or 0.0) > _LATE_MS and found["max_concurrency"] is None
    if late or found["client_cpu_share"] > _BUSY:
        said.append(
            f"The client was slow itself: it started one request in a hundred more than {found['p99_late_start_ms']:.1f} ms"
            f" late and used {100 * found['client_cpu_share']:.0f} % of a core. Its times hold its own delays."
        )
    if found["completed"] and found["counting"] == "estimated":
        said.append("counting=estimated: the server told no usage, so that events with text were counted as tokens.")
    asked, told = found["asked_input_tokens"], found["total_input_tokens"]
    if asked and abs(told - asked) > 0.01 * asked:
        said.append(f"The engine counted {counted(told, 'prompt token')} where {asked:,} were asked for.")
    return said


def failures(outcome: Outcome) -> list[str]:
    """The two most frequent kinds of errors, most frequent first, as ``kind (count): the kind's most frequent message``.

    The list is empty without failures; unfinished requests do not count.
    """
    said: dict[str, Counter[str]] = {}
    for kind, message in zip(outcome.records.error, outcome.records.message, strict=True):
        if kind not in ("", "not-ended"):
            said.setdefault(kind, Counter())[" ".join(message.split())[:_MESSAGE]] += 1
    most = sorted(said.items(), key=lambda item: -item[1].total())[:2]
    return [f"{kind} ({texts.total():,}): {texts.most_common(1)[0][0]}" for kind, texts in most]


def most_at_once(started_s: F8, ended_s: F8) -> int:
    """The most requests under way at one time, from starts and ends (float64[N]); rows with nan in either are left out.

    A request that starts at the very time of another's end does not overlap it. Without rows, the result is 0.
    """
    known = np.isfinite(started_s) & np.isfinite(ended_s)
    at = np.concatenate([ended_s[known], started_s[known]])
    change = np.concatenate([np.full(int(known.sum()), -1), np.full(int(known.sum()), 1)])
    order = np.lexsort((change, at))
    return int(np.cumsum(change[order]).max(initial=0))


def _figures(name: str, values: F8) -> dict[str, float | None]:
    """Mean, median, standard deviation and percentiles of the values of latency `name`, in ms, under their names."""
    found = [values.mean(), np.median(values), values.std(), *np.percentile(values, PERCENTILES)] if values.size else ()
    return _named(name, found)


def _gaps(outcome: Outcome) -> dict[str, float | None]:
    """Mean, median, standard deviation and percentiles of the gaps between chunks, in ms; quantiles are within 0.1 %."""
    histogram = outcome.gaps
    if histogram.total == 0:
        return _named("itl", ())
    mean = outcome.gap_sum_s / histogram.total
    spread = max(0.0, outcome.gap_squares / histogram.total - mean**2) ** 0.5
    median, *rest = histogram.quantiles(np.array([0.5, *(p / 100 for p in PERCENTILES)])).tolist()
    return _named("itl", [1e3 * value for value in (mean, median, spread, *rest)])


def _named(name: str, found: Sequence[float]) -> dict[str, float | None]:
    """The figures of latency `name` by key, ``KIND_NAME_ms`` for each of `_KINDS`; each is None if `found` is empty."""
    return {f"{kind}_{name}_ms": float(found[at]) if found else None for at, kind in enumerate(_KINDS)}


def tokens_of(outcome: Outcome, each: int) -> I8:
    """int64[M], output tokens of each stretch of `each` buckets of `BUCKET_S` seconds; the last stretch may be shorter."""
    return np.add.reduceat(outcome.tokens, np.arange(0, outcome.tokens.size, each))
