"""Projects the loads of running requests; asks the predictor about the requests whose prediction is due.

A running request is predicted at the first round after its first token, after each `refresh_every` tokens, and after it
outlives its expected last token. The predictions of a round are one call, in order of (worker, request). Many due ones are
made before the round, up to 128 a call. `predict.gate.Gate` says which predictions count, and what holds for the others. A
length announced by the client is believed until the answer is longer.

Source: BalanceRoute App. C, as in the simulator.
"""

from __future__ import annotations

import numpy as np

from evenstep import compiled
from evenstep.dispatch.fleet.mirror import Mirror
from evenstep.dispatch.requests.rows import NEVER, Rows
from evenstep.dispatch.rounds import projecting
from evenstep.predict.gate import Gate
from evenstep.predict.view import NOTHING, Active, Finished, Fit, Fits, Keeps, LearnsInParts, Predictor, SurvivalCurve
from evenstep.request import F8, I8

_LEARNED_AT_ONCE = 16  # completions
_LOOKED_AT = 1024  # requests that learning looks at, before the host gets back to its reads
_MANY = 32  # predictions that are asked for before a round, not in it
_AT_ONCE = 128  # predictions in one call before a round, so that the host gets back to its reads
_due, _ask, _keep = map(compiled.entry, (projecting.due, projecting.ask, projecting.keep))
_project_all, _project_expected = compiled.entry(projecting.project_all), compiled.entry(projecting.project_expected)


class Projections:
    """Predictions and projected loads, for a policy with a horizon.

    Args:
        horizon: H, tokens ahead, >= 1.
        expects: whether the policy wants expected loads; a predictor without a survival curve gives plain projections.
    """

    def __init__(self, predictor: Predictor, horizon: int, expects: bool) -> None:
        self.horizon = horizon
        self.every = int(getattr(predictor, "refresh_every", 16))
        self.gate = Gate(predictor, horizon)
        self.expects = expects and isinstance(predictor, SurvivalCurve)
        self._fits, self._keeps = isinstance(predictor, Fits), isinstance(predictor, Keeps)
        self._in_parts, self._learning = isinstance(predictor, LearnsInParts), False
        self.projections: F8 = np.zeros((0, horizon + 1))
        self._curves: F8 = np.zeros((0, 0))
        self._due: I8 = np.zeros(0, np.int64)
        self._order: I8 = np.zeros(0, np.int64)
        self._seen = _nothing_seen(0)
        self._found = projecting.UNKNOWN  # result of `due` for this round
        self._ended: list[tuple[int, int, int, int]] = []
        self._failed: Exception | None = None

    def ended(self, request: int, prompt: int, output: int, key: int) -> None:
        """Note a completed request, from which the predictor learns before its next prediction.

        Every 16th one begins learning at once, so that a round need not wait for all of it. An error of the predictor is
        kept, and raised by the next `project`. `prompt` is in tokens, `output` in tokens of each copy; `key` is a hash of
        the prompt, 0 = unknown.
        """
        self._ended.append((request, prompt, output, key))
        if self._learning or len(self._ended) >= _LEARNED_AT_ONCE:
            try:
                if len(self._ended) >= _LEARNED_AT_ONCE:
                    self._learn()
                self._learn_on(_LOOKED_AT)
            except Exception as error:  # a predictor is a guest; the next round says so
                self._failed = error

    def gone(self, request: int, prompt: int, produced: int, key: int) -> None:
        """Tell the predictor that a request went away unfinished, if it wants that; `produced`: output tokens of each copy.

        An error of the predictor is kept, and raised by the next `project`.
        """
        if not self._keeps:
            return
        columns = np.array([[request], [prompt], [produced], [key]], np.int64)
        try:
            self.gate.predictor.gone(Finished(*columns))
        except Exception as error:  # the next round says so
            self._failed = error

    def _learn(self) -> None:
        """Give the ended requests to the predictor to learn from; in parts, by `_learn_on`, if it can do that."""
        finished, self._ended = Finished(*np.array(self._ended, np.int64).T.copy()), []
        if self._in_parts:
            self.gate.predictor.begin(finished)
            self._learning = True
        else:
            self.gate.predictor.learn(finished)

    def _learn_on(self, rows: int) -> None:
        """Let a predictor that learns in parts look at up to `rows` more requests, unless it has finished."""
        if self._learning:
            self._learning = self.gate.predictor.advance(rows) == 0

    @property
    def fit(self) -> Fit | None:
        """The fit of the predictor's models that is due, for the host to run; None if no fit is due, or it has no models."""
        return self.gate.predictor.due if self._fits else None

    def fitted(self, ok: bool) -> None:
        """Put the models of the finished fit in use; `ok` = False drops them. Without a fit that is due nothing happens.

        An error of the predictor is kept, and raised by the next `project`.
        """
        if self.fit is None:
            return
        try:
            self.gate.predictor.put_in() if ok else self.gate.predictor.give_up()
        except Exception as error:  # the next round says so
            self._failed = error

    def look_again(self) -> None:
        """Forget which predictions `has_asked` found due, because its round was not decided; the next round looks again."""
        self._found = projecting.UNKNOWN

    def forget(self) -> None:
        """Make the next `project` compute all workers anew, because they have other places now."""
        self._seen.changes[:] = projecting.NEVER_SEEN

    def has_asked(self, rows: Rows, mirror: Mirror) -> bool:
        """Do part of the next round's learning and predictions, if many are due. Returns whether it did.

        Call it once a turn until it returns False; then `project`. Fewer than 32 predictions are left to the round itself. A
        part is 1024 requests that learning looks at, or up to 128 predictions; the last part also computes the projections.
        An error of the predictor is kept, and raised by the next `project`.
        """
        self._found = projecting.UNKNOWN
        if self._failed is not None:
            return False
        count = self._find_due(rows, mirror)
        try:
            if count > 0 and self._ended and not self._learning:
                self._learn()
            learns = self._learning
            self._learn_on(_LOOKED_AT)
            if self._learning:
                return True
            if count < _MANY:
                self._found = count
                return False
            if learns:
                return True
            if count > _AT_ONCE:
                self._ask(rows, count, _AT_ONCE)
            else:
                self._project(rows, mirror, count)
        except Exception as error:  # the round will say so
            self._failed = error
        return True

    def project(self, rows: Rows, mirror: Mirror) -> F8:
        """float64[G, H+1], projected load (KV tokens) of every worker, column h after h more tokens of each request.

        Requests that are due are predicted first. The row of a worker without changes since the last round is kept. The
        array is reused by the next call. An invalid answer of the predictor raises PolicyError; any error of its own is
        passed on, also from learning since the last round.
        """
        if self._failed is not None:
            error, self._failed = self._failed, None
            raise error
        found, self._found = self._found, projecting.UNKNOWN
        self._project(rows, mirror, self._find_due(rows, mirror) if found == projecting.UNKNOWN else found)
        return self.projections

    def _project(self, rows: Rows, mirror: Mirror, due: int) -> None:
        """Predict the first `due` rows of `_due`, and project the loads of changed workers. `UNCHANGED`: it does nothing."""
        if due == projecting.UNCHANGED:
            return
        if due:
            self._ask(rows, due, due)
        requests, workers, high, seen = rows.columns.given, mirror.columns.given, rows.high, self._seen
        if self.expects:
            _project_expected(requests, workers, high, self._curves, self._growth, seen, self.projections)
        else:
            _project_all(requests, workers, high, seen, self._counts, self._loads, self.projections)

    def _resize(self, workers: int, rows: int) -> None:
        """Make arrays for these numbers of workers and of rows; predicted curves are kept."""
        if self.projections.shape[0] != workers:
            self.projections = np.zeros((workers, self.horizon + 1))
            columns = 1 << self.horizon.bit_length()
            self._growth = np.arange(self.horizon + 1.0)
            self._counts: I8 = np.zeros((workers, columns), np.int64)
            self._loads: F8 = np.zeros((workers, columns))
            self._seen = _nothing_seen(workers)
        if self.expects and self._curves.shape[0] != rows:
            kept = self._curves
            self._curves = np.zeros((rows, self.horizon + self.every + 1))  # one is written before it is read
            if kept.shape[1]:
                self._curves[: len(kept)] = kept[:rows]
        if self._due.size != rows:
            self._due, self._order = np.zeros(rows, np.int64), np.zeros(rows, np.int64)

    def _find_due(self, rows: Rows, mirror: Mirror) -> int:
        """Write the rows whose prediction is due to `_due`; returns their number, or `UNCHANGED`."""
        requests, workers = rows.columns.given, mirror.columns.given
        if self.projections.shape[0] != len(mirror.names) or self._due.size != len(rows.at.state):
            self._resize(len(mirror.columns), len(rows.columns))
        expects = int(self.expects)
        return int(_due(requests, workers, rows.high, self.every, expects, self._seen, self._due, self._order))

    def _ask(self, rows: Rows, due: int, most: int) -> None:
        """Predict up to `most` of the `due` rows in `_due`, those of the first workers, and store the answers."""
        columns, count = rows.columns, min(due, most)
        if self._ended:
            self._learn()
            self._learning = False  # the predictor does the rest as it is asked
        due_rows, order = self._due[:due], self._order[:due]
        if count < due:
            first = np.argpartition(order, count)[:count]
            due_rows, order = due_rows[first], order[first]
        due_rows = due_rows[np.argsort(order, kind="stable")]
        asked = np.empty((5, count), np.int64)
        _ask(columns.given, due_rows, asked)
        active, age, stated = Active(*asked, true_left=NOTHING), asked[1], columns.arrays.expected[due_rows]
        is_believed = stated > age
        if self.expects:
            curves = self.gate.curves(active, self._curves.shape[1] - 1)
            if is_believed.any():
                left = (stated - age)[is_believed, None]
                curves = curves.copy()
                curves[is_believed] = np.arange(curves.shape[1]) < left
            _keep(columns.given, due_rows, age, curves, self._curves)
        else:
            steps = self.gate.steps_left(active)
            leave = np.where(steps < 0.0, NEVER, age + np.ceil(steps).astype(np.int64))
            if is_believed.any():
                leave = np.where(is_believed, np.where(stated - age <= self.horizon, stated, NEVER), leave)
            columns.arrays.leave[due_rows] = leave
        columns.arrays.predicted[due_rows] = age


def _nothing_seen(workers: int) -> projecting.Seen:
    """The columns of `workers` workers that were never projected, so that all are."""
    never: I8 = np.full(workers, projecting.NEVER_SEEN, np.int64)
    return projecting.Seen(never, np.zeros(workers), np.zeros(workers), never.copy())
