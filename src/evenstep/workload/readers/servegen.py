"""ServeGen: a tar of client models, from which requests are drawn for a window of time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from evenstep import streams
from evenstep.errors import InputError
from evenstep.request import F8, I8, Trace
from evenstep.wording import counted
from evenstep.workload.readers.servegen_clients import WINDOW_S, Client, Law, load

_PROMPT_FIELDS = (
    ("input_tokens", ""),
    ("text_tokens", ""),
    ("image_tokens", "image_count"),
    ("audio_tokens", "audio_count"),
    ("video_tokens", "video_count"),
)
_DEFAULT_REQUESTS = 20_000
_MARGIN = 6.0  # standard deviations of the count drawn in reserve
_MOST_GAPS = 1 << 24  # no more are tried: the next window has the next keys


def recognises(head: bytes, name: str) -> bool:
    return head[257:262] == b"ustar" and (b"chunk-" in head[:100] or b"-trace.csv" in head)


def read(
    path: Path, *, seed: int = 0, limit: int | None = None, start_s: float | None = None, duration_s: float | None = None
) -> Trace:
    """Draw requests from all clients for a window of time; the trace counts as recorded, so its replicates are rotated.

    The gaps of each client follow the law and shape of its 600-s window, scaled to that window's published rate. Prompt and
    output lengths are drawn independently from its length laws (multimodal prompts: text, and count times tokens of each
    kind). The client is the request class. Clients without length laws are left out, and counted.

    Args:
        seed: key of all draws.
        limit: at most this many requests, from the start of the window on.
        start_s: start of the window in the file's time; by default the busiest 600 s.
        duration_s: length of the window; by default 600 s, or less where that gives over 20,000 requests.

    Raises:
        InputError: a file of rates only, a damaged file, a start below 0, a duration <= 0, or no request in the window.

    Source: ServeGen (Alibaba, 2025).
    """
    drawn = source(path, limit=limit, start_s=start_s, duration_s=duration_s).draw(seed, 0)
    return replace(drawn, synthetic=False)


def source(
    path: Path, *, limit: int | None = None, start_s: float | None = None, duration_s: float | None = None
) -> ServeGen:
    """The generator of a tar's requests in one window of time: its replicates are drawn. Arguments are those of `read`.

    Errors are those of `read`, but a window without requests is only one when the generator's `draw` is called.
    """
    clients = load(path)
    complete = [c for c in clients if c.laws_at(0.0)]
    if not complete:
        hint = "The file holds rates only: no requests can be drawn from it; `evenstep trace inspect` shows the rates."
        raise InputError(path.name, "length files", 0, "chunk-i-dataset.json files in the folder of the rates", hint)
    notes: list[str] = []
    if len(complete) < len(clients):
        share = 1 - sum(float(c.rate.sum()) for c in complete) / sum(float(c.rate.sum()) for c in clients)
        notes.append(
            f"Left out: {counted(len(clients) - len(complete), 'client')} without length files ({share:.1%} of requests)."
        )
    begin = _busiest(complete) if start_s is None else start_s
    if begin < 0 or (duration_s is not None and duration_s <= 0):
        found = f"start {begin:g} s, duration {duration_s} s"
        raise InputError(path.name, "window", found, "a start >= 0 and a duration > 0")
    rate = sum(float(c.rate[(c.start_s <= begin) & (begin < c.start_s + WINDOW_S)].sum()) for c in complete)
    length = min(WINDOW_S, _DEFAULT_REQUESTS / max(rate, 1e-9)) if duration_s is None else duration_s
    notes.append(
        f"Drawn from {counted(len(complete), 'client')} for {length:g} s from second {begin:g} on,"
        " each length independently."
    )
    return ServeGen(path.name, tuple(complete), begin, length, limit, tuple(notes))


@dataclass(frozen=True, slots=True, eq=False)
class ServeGen:
    """Draws traces of the requests that some clients send in one window of time."""

    name: str  # the file
    clients: tuple[Client, ...]  # those with length laws
    start_s: float  # start of the window
    duration_s: float  # its length
    limit: int | None = None  # at most this many requests, the first of the window
    notes: tuple[str, ...] = ()  # sentences for every trace drawn

    def draw(self, seed: int, replicate: int = 0) -> Trace:
        """The requests of the window under this key, by time, the first at 0 s; `request_class` is the client's number.

        Raises:
            InputError: the window holds no request.
        """
        parts = [part for c in self.clients if (part := self._of_client(c, seed, replicate))[0].size]
        if not parts:
            raise InputError(self.name, "window", f"{self.start_s:g} s", "a window with requests", "Choose another start_s.")
        times, prompt, output, client = (np.concatenate(column) for column in zip(*parts, strict=True))
        order = np.argsort(times, kind="stable")[: self.limit]
        return Trace(
            prompt_tokens=prompt[order],
            output_tokens=output[order],
            arrival_s=times[order] - times[order[0]],
            request_class=client[order],
            name=self.name,
            format="servegen",
            synthetic=True,
            notes=self.notes,
        )

    def _of_client(self, client: Client, seed: int, replicate: int) -> tuple[F8, I8, I8, I8]:
        """Of one client's requests in the window: times (s, the file's time), prompt tokens, output tokens and class."""
        end = self.start_s + self.duration_s
        overlaps = (client.rate > 0) & (client.start_s < end) & (client.start_s + WINDOW_S > self.start_s)
        drawn = [_arrivals(client, int(window), seed, replicate) for window in np.flatnonzero(overlaps)]
        when = np.concatenate([np.zeros(0), *(times for times, _ in drawn)])
        numbers = np.concatenate([np.zeros(0, np.int64), *(ids for _, ids in drawn)])
        inside = (when >= self.start_s) & (when < end)
        when, numbers = when[inside], numbers[inside]
        prompt, output = _lengths(client, when, numbers, seed, replicate)
        return when, prompt, output, np.full(when.size, client.number, np.int64)


def _arrivals(client: Client, window: int, seed: int, replicate: int) -> tuple[F8, I8]:
    """Times (s, the file's time) of a client's requests in its 600-s window number `window`, and the key of each request."""
    rate = client.rate[window]
    expected = rate * WINDOW_S
    cv = max(float(client.cv[window]), 1.0)
    count = int(expected + _MARGIN * cv * np.sqrt(expected) + 2 * cv * cv + 10)
    first = (np.int64(client.number) << 40) + (np.int64(window) << 24)
    while True:  # more gaps until they fill the window: its law may be burstier than the published cv
        numbers = first + np.arange(count, dtype=np.int64)
        times = np.cumsum(_gaps(client.kind[window], client.shape[window], numbers, seed, replicate) / rate)
        if not times[-1] < WINDOW_S or count >= _MOST_GAPS:
            break
        count = min(2 * count, _MOST_GAPS)
    inside = times < WINDOW_S
    return client.start_s[window] + times[inside], numbers[inside]


def _gaps(kind: str, shape: float, numbers: I8, seed: int, replicate: int) -> F8:
    """Gaps of mean 1 by the law `kind` of this shape, a draw for each of `numbers`; before the first its window opens."""
    from scipy.special import gamma, gammaincinv

    u = streams.uniform(seed, "servegen-gap", numbers, draw=replicate)
    # The window opens within a gap, `opened`: a long gap is met more often, in proportion to its length.
    if kind == "Gamma":
        gaps, opened = gammaincinv(shape, u) / shape, gammaincinv(shape + 1, u[0]) / shape
    elif kind == "Weibull":
        gaps = (-np.log1p(-u)) ** (1 / shape) / gamma(1 + 1 / shape)
        opened = gammaincinv(1 + 1 / shape, u[0]) ** (1 / shape) / gamma(1 + 1 / shape)
    else:
        gaps, opened = -np.log1p(-u), gammaincinv(2.0, u[0])
    gaps[0] = opened * streams.uniform(seed, "servegen-phase", int(numbers[0]), draw=replicate)
    return gaps


def _lengths(client: Client, when: F8, numbers: I8, seed: int, replicate: int) -> tuple[I8, I8]:
    """Prompt and output tokens, int64[N], of a client's requests at the times `when`, drawn under the keys `numbers`."""
    prompt, output = np.zeros(when.size, np.int64), np.zeros(when.size, np.int64)
    starts = np.array(sorted(client.laws))
    which = np.searchsorted(starts, when, side="right")
    for group in np.unique(which):
        rows = np.flatnonzero(which == group)
        laws = client.laws_at(float(when[rows[0]]))
        keys = numbers[rows]
        for tokens, count in _PROMPT_FIELDS:
            each = _drawn(laws, tokens, keys, seed, replicate)
            prompt[rows] += each * _drawn(laws, count, keys, seed, replicate) if count in laws else each
        output[rows] = _drawn(laws, "output_tokens", keys, seed, replicate)
    return np.maximum(prompt, 1), np.maximum(output, 1)


def _drawn(laws: dict[str, Law], name: str, keys: I8, seed: int, replicate: int) -> I8:
    """int64[N], a draw of the field `name` for each key; 0 if the client has no law for it."""
    if name not in laws:
        return np.zeros(keys.size, np.int64)
    return laws[name].quantile(streams.uniform(seed, f"servegen-{name}", keys, draw=replicate))


def _busiest(clients: list[Client]) -> float:
    """Start (s, the file's time) of the 600-s window with the highest total rate."""
    starts, window = np.unique(np.concatenate([c.start_s for c in clients]), return_inverse=True)
    totals = np.bincount(window.reshape(-1), weights=np.concatenate([c.rate for c in clients]))
    return float(starts[totals.argmax()]) if starts.size else 0.0
