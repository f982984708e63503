"""Keeps the latest requests for predictors: a window that includes those still running, and detects changed traffic."""

from __future__ import annotations

from collections import deque
from typing import Literal, TypeAlias

import numpy as np

from evenstep.compiled import jit
from evenstep.errors import InputError
from evenstep.predict import window as kernel
from evenstep.predict.view import Prediction
from evenstep.predict.window import B1
from evenstep.request import F8, I8

#: Lengths above are entered as this one: the prefix sums have an entry for every length.
LONGEST = (1 << 20) - 1
#: Requests known outside the window; of more, all are forgotten.
MOST_OUTSIDE = 100_000
_FIRST_SIZE = 1 << 11
_FEWEST = 100  # least requests in the window for a comparison of its halves
_ROUNDS = 10  # comparisons while the window is refilled once
_PENDING = 1 << 10  # ages kept before only the last one of each request is kept
_PIECE = 256  # requests entered at a time
ALL = 1 << 62  # rows: `advance` does all the work

#: A queued job of learning. ``runs``: ages of running requests. ``ended``, ``last``: completions, after the last of which
#: `_look` is called. ``values``: from `_count_running`. ``count``, ``compare``: call `_count_running` or `_compare`.
_Job: TypeAlias = tuple[Literal["runs", "ended", "last", "values", "count", "compare"], I8, I8]
_NO_ROWS = np.zeros(0, np.int64)
_COUNTED = 1 << 16  # lengths up to which `differ` has a place for each; of longer ones only for those that occur


class History:
    """The latest requests by their start: output lengths of completed ones, ages of running ones.

    Lengths of completed requests alone underestimate long requests while a system fills or after its traffic changed, since
    long ones are still running. So a running request counts as longer than its age, by the product-limit estimate of Kaplan
    and Meier: the probabilities of passing each age, multiplied. If nothing runs, it is the empirical distribution. Until
    `running` requests have ended, running ones are not counted.

    The older and the recent half of the window are compared every tenth of its length by the Kolmogorov-Smirnov distance D
    of their estimates. When ``D > drift * sqrt(1/n + 1/m)``, n and m the (effective) sizes of the halves, the traffic has
    changed. The older half is then forgotten, again and again until the halves agree or few are left.

    Args:
        window: most requests that are kept; if running ones count, at least four times their number.
        drift: how far the halves may differ; 0 = never compared.
        running: number of ended requests from which on running ones count; 0 = never.
        ahead: tokens a running request is assumed to produce before it is asked about again.

    Attributes:
        drifts: changes of the traffic detected so far.
        forgotten: requests forgotten because of such changes.
    """

    def __init__(self, window: int, drift: float, running: int = 0, ahead: int = 0) -> None:
        self.window, self.drift, self.running, self.ahead = window, drift, running, ahead
        self.drifts = self.forgotten = 0
        self._held = kernel.Window(
            state=np.zeros(kernel.STATE, np.int64),
            records=np.zeros((2, _FIRST_SIZE), np.int64),
            table=np.full((3, _FIRST_SIZE), kernel.FREE, np.int64),
            counts=np.zeros((2, _FIRST_SIZE), np.int64),
            trees=np.zeros((3, _FIRST_SIZE), np.int64),
        )
        self._held.state[kernel.LIMIT] = window
        self._pending: list[tuple[I8, I8]] = []
        self._pending_rows, self._most_pending = 0, _PENDING
        self._jobs: deque[_Job] = deque()
        self._counts_running, self._room, self._until_check = False, 0, _FEWEST

    def __len__(self) -> int:
        """Number of requests in the window that have ended."""
        return int(self._held.state[kernel.NEXT] - self._held.state[kernel.FIRST] - self._held.state[kernel.RUNNING])

    @property
    def records(self) -> I8:
        """Every request of the window in order of entry, int64[n]: output length if it has ended, else minus its age.

        A length is `LONGEST` at most. The age of a running request is its last known age plus `ahead`; of one that went
        away, its tokens.
        """
        numbers = np.arange(self._held.state[kernel.FIRST], self._held.state[kernel.NEXT])
        return self._held.records[kernel.LENGTH, numbers & (self._held.records.shape[1] - 1)]

    def asked(self, request_id: I8, age: I8) -> None:
        """Note that these requests run and have produced this many tokens; int64[N] each. Finishes queued learning first.

        They are entered only when a request next ends or goes away, so that asking alone changes no answer.
        """
        if self._jobs:
            self.advance()
        self._pending.append((request_id, age))
        self._pending_rows += age.size
        if self._pending_rows > self._most_pending:
            requests, ages = (np.concatenate(part) for part in zip(*self._pending, strict=True))
            kept = kernel.last_ages(requests, ages, np.full(_power(2 * ages.size), -1, np.int64))
            self._pending, self._pending_rows = [(requests[:kept].copy(), ages[:kept].copy())], kept
            self._most_pending = _PENDING + 2 * kept

    def learn(self, requests: I8, lengths: I8) -> None:
        """Enter completions in order, int64[N] each; the oldest requests leave once the window is full.

        Raises an `InputError` for a length below 1, or below what its request had produced when it was last asked about.
        """
        self.begin(requests, lengths)
        self.advance()

    def begin(self, requests: I8, lengths: I8) -> None:
        """Finish earlier learning, then queue completions in order, int64[N] each, for `advance`, which does the work."""
        self.advance()
        self._put_pending()
        last = max(requests.size - 1, 0) // _PIECE * _PIECE
        self._put("ended", requests[:last], lengths[:last])
        self._jobs.append(("last", requests[last:], lengths[last:]))

    def advance(self, rows: int = ALL) -> int:
        """Continue learning until `rows` rows are processed; a row is about the work of one completion.

        Returns 0 if there is more to learn. Otherwise it returns the rows that remain of `rows`, but 1 at least. Raises an
        `InputError` for a length that `learn` rejects.
        """
        while self._jobs and rows > 0:
            kind, requests, values = self._jobs.popleft()
            rows -= self._do(kind, requests, values)
        return 0 if self._jobs else max(rows, 1)

    def _do(self, kind: str, requests: I8, values: I8) -> int:
        """Do one job of learning (see `_Job`); returns its cost, in rows."""
        if kind == "count":
            return self._count_running()
        if kind == "compare":
            return self._compare()
        self._make_room(requests.size)
        if kind in ("runs", "values"):
            kernel.enter_all(self._held, requests, -np.maximum(values, 0) if kind == "runs" else values, self.ahead)
        else:
            self._until_check -= requests.size
            done = 0
            while (done := kernel.learn(self._held, requests, values, done)) < requests.size:
                values = self._mended(values, requests, done)
            if kind == "last":
                self._look()
        return requests.size

    def _look(self) -> None:
        """Queue the comparison of the halves, and the counting of running requests, as the next jobs if they are due."""
        if self._until_check <= 0 and self.drift > 0.0:
            self._jobs.appendleft(("compare", _NO_ROWS, _NO_ROWS))
        if not self._counts_running and 0 < self.running <= len(self):
            self._jobs.appendleft(("count", _NO_ROWS, _NO_ROWS))

    def _put(self, kind: Literal["runs", "ended", "values"], requests: I8, values: I8) -> None:
        """Queue requests as jobs of `kind`, in pieces, for `advance`."""
        for at in range(0, requests.size, _PIECE):
            self._jobs.append((kind, requests[at : at + _PIECE], values[at : at + _PIECE]))

    def _put_pending(self) -> None:
        """Queue the requests that were asked about for `advance`, and empty the list of pending ones."""
        taken, self._pending, self._pending_rows = self._pending, [], 0
        for running, ages in taken:
            self._put("runs", running, ages)

    def gone(self, requests: I8, produced: I8) -> None:
        """Note requests that left unfinished, int64[N] each, and tokens produced; the window counts them as longer.

        Finishes queued learning first; unknown requests are ignored. A caller that asked about requests must call this, or
        they stay known, and the window grows with them.
        """
        self._put_pending()
        self.advance()
        kernel.gone(self._held, requests, produced)

    def leaving(self, age: I8, horizon: int, minimum: int = 1) -> tuple[Prediction, B1]:
        """Expected steps left, and the probability of leaving within H steps, at these ages, by what is learned so far.

        `age` is int64[N], tokens produced; below 0 it raises an `InputError`. An answer needs `minimum` ended requests
        longer than the age. Returns the prediction; and bool[N], True where there are fewer. Those rows get H and 0.
        """
        steps_left, leaves, silent = np.empty(age.size), np.empty(age.size), np.empty(age.size, np.bool_)
        bad = kernel.leaving(self._held, age, horizon, minimum, steps_left, leaves, silent)
        if bad >= 0:
            raise InputError("active", "age", int(age[bad]), "an integer >= 0")
        return Prediction(steps_left, leaves), silent

    def curve(self, age: I8, horizon: int, minimum: int = 1) -> tuple[F8, B1]:
        """Probability that a request still runs after h more steps, given its age, int64[N]; below 0: an `InputError`.

        Returns P(r > h | age) for h = 0..H, float64[N, H+1]; and bool[N], True where fewer than `minimum` ended requests are
        longer than the age. Those rows are 1.
        """
        stays, silent = np.empty((age.size, horizon + 1)), np.empty(age.size, np.bool_)
        self.curve_into(age, horizon, minimum, stays, silent)
        return stays, silent

    def curve_into(self, age: I8, horizon: int, minimum: int, stays: F8, silent: B1) -> None:
        """Write the two results of `curve` to `stays`, float64[N, H+1], and `silent`, bool[N]. Same errors."""
        bad = kernel.curve(self._held, age, horizon, minimum, stays, silent)
        if bad >= 0:
            raise InputError("active", "age", int(age[bad]), "an integer >= 0")

    def _count_running(self) -> int:
        """Let running requests count from now on: empty the window, and queue all known requests in order of their ids.

        Returns the cost in rows.
        """
        self._counts_running = True
        state, table = self._held.state, self._held.table
        known = table[:, table[kernel.NUMBER] != kernel.FREE]
        numbers = np.arange(state[kernel.FIRST], state[kernel.NEXT])
        ended = self._held.records[:, numbers & (self._held.records.shape[1] - 1)]
        requests = np.concatenate([ended[kernel.ID], known[kernel.KEY]])
        values = np.concatenate([ended[kernel.LENGTH], -known[kernel.AGE]])
        order = np.argsort(requests, kind="stable")
        table[kernel.NUMBER] = kernel.FREE
        for array in (state, self._held.counts, self._held.trees):
            array[:] = 0
        state[[kernel.LIMIT, kernel.CENSORING]] = self.window, 1
        later, self._jobs = self._jobs, deque()
        self._put("values", requests[order], values[order])
        self._jobs.extend(later)
        return requests.size

    def _make_room(self, requests: int) -> None:
        """Grow the arrays so that this many more requests can enter."""
        self._room -= requests
        if self._room >= 0:
            return
        state = self._held.state
        kept = int(state[kernel.NEXT] - state[kernel.FIRST])
        if kept + requests >= self._held.records.shape[1]:
            numbers = np.arange(state[kernel.FIRST], state[kernel.NEXT])
            old, longer = self._held.records, np.zeros((2, _power(2 * (kept + requests))), np.int64)
            longer[:, numbers % longer.shape[1]] = old[:, numbers % old.shape[1]]
            self._held = self._held._replace(records=longer)
        if 2 * (state[kernel.ENTRIES] + requests) >= self._held.table.shape[1]:
            known = self._held.table[:, self._held.table[kernel.NUMBER] != kernel.FREE]
            if state[kernel.OUTSIDE] > MOST_OUTSIDE:
                known = known[:, known[kernel.NUMBER] != kernel.NOWHERE]
            state[[kernel.ENTRIES, kernel.OUTSIDE]] = 0
            table = np.full((3, _power(4 * (known.shape[1] + requests))), kernel.FREE, np.int64)
            self._held = self._held._replace(table=table)
            kernel.enter_known(self._held, np.ascontiguousarray(known))
        free = self._held.table.shape[1] // 2 - int(state[kernel.ENTRIES])
        self._room = min(self._held.records.shape[1] - kept, free) - 1 - requests

    def _mended(self, lengths: I8, requests: I8, place: int) -> I8:
        """Repair what stopped `window.learn` at `place`, and return the lengths to continue with.

        A length that does not fit makes the counts longer; lengths are then at most `LONGEST`. Raises an `InputError` for a
        length below 1, or below what the request had produced.
        """
        length = int(lengths[place])
        if length < 1:
            raise InputError("finished", "output_tokens", length, "an integer >= 1")
        if length < self._held.counts.shape[1]:
            produced = int(self._held.table[kernel.AGE, int(kernel.place_of(self._held.table, int(requests[place])))])
            where = f"finished: request {requests[place]}"
            hint = "It had produced that many when its prediction was asked for."
            raise InputError(where, "output_tokens", length, f"at least {produced}", hint)
        size = _power(min(length, LONGEST))
        self._held = self._held._replace(counts=np.zeros((2, size), np.int64), trees=np.zeros((3, size), np.int64))
        kernel.rebuild(self._held)
        return np.minimum(lengths, LONGEST)

    def _compare(self) -> int:
        """Forget the older half of the window while it differs from the recent one; returns the cost in rows."""
        kept = before = self.records.size
        while kept >= _FEWEST and differ(self.records, kept // 2, self.drift, self.ahead):
            kernel.forget(self._held, kept // 2)
            kept -= kept // 2
        self.drifts += kept < before
        self.forgotten += before - kept
        self._until_check = max(_FEWEST, kept) // _ROUNDS
        return before // 4


def _power(number: int) -> int:
    """The smallest power of two above `number`."""
    return 1 << int(number).bit_length()


def differ(records: I8, half: int, drift: float, ahead: int = 0) -> bool:
    """True if the length distributions of two samples, partly censored, differ by more than chance explains.

    They differ if the largest gap between their distribution functions (Kaplan-Meier) exceeds ``drift * sqrt(1/n + 1/m)``.
    Here n and m are, at each length, the sizes of uncensored samples with as many requests at risk.

    Args:
        records: int64[N], N >= 1, output length of each request, or minus the age of one that still runs.
        half: the first sample is the first `half` of the records, the second the others.
        ahead: tokens by which ages may be too high; the samples differ only if they do with any ages up to that much lower.
    """
    younger = np.maximum(-records - ahead, 0)
    longest = int(np.abs(records).max())
    if longest > _COUNTED:
        occur = np.unique(np.concatenate([[0], np.abs(records), younger]))
        records = np.sign(records) * np.searchsorted(occur, np.abs(records))
        younger, longest = np.searchsorted(occur, younger), occur.size - 1
    return bool(_differ(records, younger, half, drift, np.zeros((6, longest + 1), np.int64)))


@jit
def _differ(records: I8, younger: I8, half: int, drift: float, counts: I8) -> bool:
    """Answer `differ` by counting requests at each length.

    Args:
        records: int64[N], as in `differ`, or ranks in place of lengths and ages.
        younger: int64[N], the ages less `ahead`, at least 0; or their ranks.
        counts: int64[6, > longest], zeros, working space: three rows a half, ended requests by length, running ones by age,
            and running ones by younger age.
    """
    for i in range(records.size):
        row, value = 0 if i < half else 3, records[i]
        if value > 0:
            counts[row, value] += 1
        else:
            counts[row + 1, -value] += 1
            counts[row + 2, younger[i]] += 1
    # of the first half as it is and with younger ages, then of the second: at risk, and the chance to get here
    risk_a = half - counts[0, 0] - counts[1, 0]
    risk_b = half - counts[0, 0] - counts[2, 0]
    risk_c = records.size - half - counts[3, 0] - counts[4, 0]
    risk_d = records.size - half - counts[3, 0] - counts[5, 0]
    a, b, c, d = 1.0, 1.0, 1.0, 1.0
    for x in range(1, counts.shape[1]):
        one, other = counts[0, x], counts[3, x]
        if one + other > 0:
            size_one = risk_b / max(b, 1e-300) if b > 0.0 else 0.0
            size_other = risk_d / max(d, 1e-300) if d > 0.0 else 0.0
            a *= 1.0 - one / max(risk_a, 1)
            b *= 1.0 - one / max(risk_b, 1)
            c *= 1.0 - other / max(risk_c, 1)
            d *= 1.0 - other / max(risk_d, 1)
            if size_one > 0.0 and size_other > 0.0:
                gap = max(b - c, d - a)
                if gap > drift * np.sqrt(1.0 / size_one + 1.0 / size_other):
                    return True
        risk_a -= one + counts[1, x]
        risk_b -= one + counts[2, x]
        risk_c -= other + counts[4, x]
        risk_d -= other + counts[5, x]
    return False
