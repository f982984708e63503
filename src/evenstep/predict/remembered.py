"""Output lengths by prompt: by its key, or by the size of the prompt."""

from __future__ import annotations

from collections import OrderedDict
from itertools import pairwise

import numpy as np

from evenstep.compiled import jit
from evenstep.predict.history import History
from evenstep.predict.view import Active, Finished
from evenstep.predict.window import B1
from evenstep.request import F8, I8

_FIRST_BOUNDS = 200  # prompts known before the first quantiles are taken


class Prompts:
    """Output lengths by prompt key; the prompt that completed longest ago is forgotten for a new one.

    Args:
        keys: most prompts that are kept.
        each: most lengths that are kept of one prompt, the latest.

    Attributes:
        forgotten: prompts forgotten so far.
    """

    def __init__(self, keys: int, each: int) -> None:
        self.keys, self.each, self.forgotten = keys, each, 0
        self._row: OrderedDict[int, int] = OrderedDict()
        self._lengths: I8 = np.zeros((0, each), np.int64)
        self._held, self._entered = np.zeros(0, np.int64), np.zeros(0, np.int64)

    def __len__(self) -> int:
        """Number of prompts kept."""
        return len(self._row)

    def learn(self, finished: Finished) -> None:
        """Enter the output lengths of completed requests that have a key."""
        has_key = finished.prompt_key != 0
        rows = list(map(self._place, finished.prompt_key[has_key].tolist()))  # may make longer arrays
        if rows:
            lengths = finished.output_tokens[has_key]
            _enter(self._lengths, self._held, self._entered, np.array(rows, np.int64), lengths)

    def curve(self, active: Active, horizon: int, minimum: int) -> tuple[F8, B1]:
        """Survival curves P(r > h), h = 0..H, from outputs of the same prompt.

        At least `minimum` lengths of a prompt are needed, one of them above the age. Returns float64[N, H+1]; and bool[N],
        True for requests whose prompt has too few lengths: their rows have no meaning.
        """
        count = active.age.size
        stays, silent = np.empty((count, horizon + 1)), np.ones(count, np.bool_)
        if not self._row or not active.prompt_key.any():
            return stays, silent
        rows = np.array(list(map(self._row.get, active.prompt_key.tolist(), [-1] * count)), np.int64)
        _curves(self._lengths, self._held, rows, active.age, horizon, minimum, stays, silent)
        return stays, silent

    def _place(self, key: int) -> int:
        """The row of a prompt, which becomes the latest; ``-1 - row`` if it takes over the row of a forgotten prompt."""
        row = self._row.get(key)
        if row is not None:
            self._row.move_to_end(key)
            return row
        if len(self._row) == self.keys:
            _, row = self._row.popitem(last=False)
            self._row[key] = row
            self.forgotten += 1
            return -1 - row
        row = len(self._row)
        if row == self._held.size:
            size = min(self.keys, max(64, 2 * row))
            self._lengths = _longer(self._lengths, size)
            self._held, self._entered = _longer(self._held, size), _longer(self._entered, size)
        self._row[key] = row
        return row


class Reached:
    """The largest age that running requests of each prompt key have reached; to make room, the key met first is dropped.

    At most `keys` keys are kept.
    """

    def __init__(self, keys: int) -> None:
        self.keys = keys
        self._age: dict[int, int] = {}

    def asked(self, prompt_key: I8, age: I8) -> I8:
        """Note the ages of running requests, in tokens; returns for each the largest age noted for its prompt key, int64[N].

        `prompt_key` and `age` are int64[N]; the ages of this call count. Keys that `ended` forgot, or that were dropped for
        room, start anew. Requests without a key (0) get their own age.
        """
        reached, ages = self._age, age.tolist()
        keys = prompt_key.tolist()
        for key, produced in zip(keys, ages, strict=True):
            if key != 0 and reached.get(key, -1) < produced:
                if len(reached) == self.keys and key not in reached:
                    del reached[next(iter(reached))]
                reached[key] = produced
        return np.array([reached.get(key, own) if key else own for key, own in zip(keys, ages, strict=True)], np.int64)

    def ended(self, prompt_key: I8, produced: I8) -> None:
        """Note requests that ended with `produced` tokens; int64[N] each. A key is forgotten if its age is not above that.

        If a request that still runs had a higher age, it is noted again when it is next asked about.
        """
        reached = self._age
        for key, tokens in zip(prompt_key.tolist(), produced.tolist(), strict=True):
            if reached.get(key, tokens + 1) <= tokens:
                del reached[key]


class Sizes:
    """A history for each quantile bucket of the prompt length.

    Bucket bounds are quantiles of the latest prompts. They are recomputed each time the number of known prompts doubles, and
    each time the window has been refilled. The histories are then rebuilt from the latest requests.

    Args:
        buckets: number of buckets.
        window: most requests that are kept, in all.
        drift, running, ahead: options of each bucket's `History`.

    Attributes:
        bounds: int64[B - 1], largest prompt (tokens) of each bucket but the last; B <= `buckets`. Empty at first.
    """

    def __init__(self, buckets: int, window: int, drift: float, running: int, ahead: int) -> None:
        self.buckets, self.window, self.drift, self.running, self.ahead = buckets, window, drift, running, ahead
        self.bounds = np.zeros(0, np.int64)
        self._latest = np.zeros((3, window), np.int64)
        self._learned, self._until_bounds = 0, _FIRST_BOUNDS
        self._histories = [self._empty()]

    def begin(self, request: I8, prompt: I8, length: I8) -> None:
        """Queue completions in order, and recompute the bucket bounds if due; `advance` does the work.

        `request`, `prompt` and `length` are request ids, prompt tokens and output tokens, int64[N] each.
        """
        self._begin(request, prompt, length)
        place = np.arange(self._learned, self._learned + length.size) % self.window
        self._latest[:, place] = request, prompt, length
        self._learned += length.size
        self._until_bounds -= length.size
        if self._until_bounds <= 0:
            self._take_bounds()

    def advance(self, rows: int) -> int:
        """Continue learning until `rows` rows are processed; returns 0 if there is more, else the rows left, at least 1."""
        for history in self._histories:
            if rows > 0:
                rows = history.advance(rows)
        return rows

    def gone(self, request: I8, prompt: I8, produced: I8) -> None:
        """Note requests that left unfinished: ids, prompt tokens, and tokens produced, int64[N] each."""
        order, cuts = self._parts(prompt)
        request, produced = request[order], produced[order]
        for bucket, part in cuts:
            self._histories[bucket].gone(request[part], produced[part])

    def asked(self, request: I8, prompt: I8, age: I8, horizon: int, minimum: int) -> tuple[F8, B1]:
        """Note that requests run, int64[N] each; return their survival curves from outputs of prompts of similar size.

        Returns P(r > h) for h = 0..H, float64[N, H+1]; and bool[N], True where fewer than `minimum` ended requests of the
        bucket are longer than the age. Until there are bounds, it is True everywhere. Those rows are 1.
        """
        found, unknown = np.empty((age.size, horizon + 1)), np.empty(age.size, np.bool_)
        if not self.bounds.size:
            found[:], unknown[:] = 1.0, True
        order, cuts = self._parts(prompt)
        request, age, stays, silent = request[order], age[order], np.empty_like(found), np.empty_like(unknown)
        for bucket, part in cuts:
            self._histories[bucket].asked(request[part], age[part])
            if self.bounds.size:
                self._histories[bucket].curve_into(age[part], horizon, minimum, found[part], unknown[part])
        stays[order], silent[order] = found, unknown
        return stays, silent

    def _begin(self, request: I8, prompt: I8, length: I8) -> None:
        """Queue completions in the history of each bucket."""
        order, cuts = self._parts(prompt)
        request, length = request[order], length[order]
        for bucket, part in cuts:
            self._histories[bucket].begin(request[part], length[part])

    def _parts(self, prompt: I8) -> tuple[I8, list[tuple[int, slice]]]:
        """Sort requests by bucket: returns the order, int64[N], and the number and slice of it for each bucket in use."""
        order, ends = np.empty(prompt.size, np.int64), np.zeros(self.bounds.size + 2, np.int64)
        parts(self.bounds, prompt, order, ends)
        to = ends.tolist()
        return order, [(one, slice(low, high)) for one, (low, high) in enumerate(pairwise(to)) if low < high]

    def _take_bounds(self) -> None:
        """Recompute the bucket bounds, and queue the latest requests in new histories."""
        held = min(self._learned, self.window)
        place = np.arange(self._learned - held, self._learned) % self.window
        request, prompt, length = self._latest[:, place]
        cut = np.maximum((np.arange(1, self.buckets) * held) // self.buckets - 1, 0)
        self.bounds = np.unique(np.partition(prompt, cut)[cut])
        self._histories = [self._empty() for _ in range(self.bounds.size + 1)]
        self._begin(request, prompt, length)
        self._until_bounds = held

    def _empty(self) -> History:
        """A new history for one bucket."""
        return History(max(1, self.window // self.buckets), self.drift, self.running, self.ahead)


@jit
def _curves(lengths: I8, held: I8, place: I8, ages: I8, horizon: int, minimum: int, stays: F8, silent: B1) -> None:
    """Write P(r > h) for h = 0..H, r = tokens left, of every request whose prompt has enough remembered lengths.

    It is the share of the prompt's lengths above the age that are also above age + h.

    Args:
        lengths: int64[K, M], output lengths of each remembered prompt.
        held: int64[K], number of lengths in each row, from its start on.
        place: int64[N], row of each request's prompt, or -1.
        ages: int64[N], tokens produced.
        horizon: H, steps.
        minimum: least number of lengths of a prompt to use it; at least one of them must be above the age.
        stays: float64[N, H+1], written; rows of silent requests have no meaning.
        silent: bool[N], written: True where too few lengths are remembered.
    """
    for i in range(place.size):
        silent[i] = True
        row = place[i]
        if row < 0 or held[row] < minimum:
            continue
        at_risk = 0
        for h in range(horizon + 1):
            stays[i, h] = 0.0
        for m in range(held[row]):
            left = lengths[row, m] - ages[i]
            if left > 0:
                at_risk += 1
                if left <= horizon:
                    stays[i, left] += 1.0
        if at_risk == 0:
            continue
        silent[i] = False
        gone = 0.0
        for h in range(horizon + 1):
            gone += stays[i, h]
            stays[i, h] = (at_risk - gone) / at_risk


@jit
def _enter(lengths: I8, held: I8, entered: I8, rows: I8, values: I8) -> None:
    """Write output lengths to the rows of their prompts, in place of the oldest once a row is full; updates the counts.

    Args:
        lengths: int64[K, each], the rows. `held` and `entered`, int64[K], count the lengths kept and ever entered in each.
        rows: int64[N], the row of each length; ``-1 - row`` if the row is emptied first.
        values: int64[N], the lengths.
    """
    for i in range(rows.size):
        row = rows[i]
        if row < 0:
            row = -1 - row
            entered[row] = 0
        lengths[row, entered[row] % lengths.shape[1]] = values[i]
        entered[row] += 1
        held[row] = min(entered[row], lengths.shape[1])


@jit
def parts(bounds: I8, prompts: I8, order: I8, ends: I8) -> None:
    """Sort requests by bucket, stable, by counting.

    Args:
        bounds: int64[B - 1], ascending: bucket b holds prompts above ``bounds[b - 1]`` and up to ``bounds[b]``.
        prompts: int64[N], tokens.
        order: int64[N], written: places in `prompts`, bucket after bucket.
        ends: int64[B + 1], zeros, written: bucket b has ``order[ends[b] : ends[b + 1]]``.
    """
    for i in range(prompts.size):
        ends[np.searchsorted(bounds, prompts[i]) + 1] += 1
    for b in range(1, ends.size):
        ends[b] += ends[b - 1]
    for i in range(prompts.size):
        b = np.searchsorted(bounds, prompts[i])
        order[ends[b]] = i
        ends[b] += 1
    for b in range(ends.size - 1, 0, -1):
        ends[b] = ends[b - 1]
    ends[0] = 0


def _longer(values: I8, size: int) -> I8:
    """A copy of an array with `size` rows; the new ones are 0."""
    longer = np.zeros((size, *values.shape[1:]), np.int64)
    longer[: len(values)] = values
    return longer
