"""Requests that end as they should. Whole answers come in number, and those in their usual course are ended many at once.

Rules of this file. The usual course is written twice, in `Ending._finish` with all that may be otherwise, and compiled
(`turn_kernel.end`); both leave the same state. Whatever a request may have beside its numbers (engines it failed on, a
prefiller, others that want its slots) is none of the usual course.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from evenstep import compiled
from evenstep.dispatch import events as ev
from evenstep.dispatch.delivering import Delivering
from evenstep.dispatch.mirror_layout import SENT_LOAD
from evenstep.dispatch.records import Done, Record
from evenstep.dispatch.rows_layout import (
    COPIES,
    FIRST_AT,
    KEY,
    LEAVE,
    NEVER,
    PREDICTED,
    PRODUCED,
    PROMPT,
    REQUEST,
    SINCE,
    STATE,
    WORKER,
)  # fmt: skip
from evenstep.dispatch.settings import Settings
from evenstep.dispatch.transitions import State
from evenstep.dispatch.turn_kernel import TOLD
from evenstep.dispatch.turn_kernel import end as end_kernel
from evenstep.request import F8, I8

#: Names of a module are found several times as fast as members of an enum.
_SENT, _RUNNING = int(State.SENT), int(State.RUNNING)
_end = compiled.entry(end_kernel)
#: Whole answers that are ended at once.
TOGETHER = 64


class Ending(Delivering):
    """Requests, their rounds and chunks, and how they end.

    Args:
        settings, policy, predictor, stopwatch, overruns, log: as in `Dispatcher`.
    """

    def __init__(
        self, settings: Settings, policy: str, predictor: str, stopwatch: Callable[[], float] | None,
        overruns: frozenset[int], log: Callable[[Record], None] | None,
    ) -> None:  # fmt: skip
        super().__init__(settings, policy, predictor, stopwatch, overruns, log)
        self.told: I8 = np.zeros((TOLD, TOGETHER), np.int64)
        self.times: F8 = np.zeros(TOGETHER)

    def bind(self) -> None:
        """See `Delivering.bind`."""
        super().bind()
        self._telling: list[memoryview[int]] = [memoryview(row).cast("B").cast("q") for row in self.told]  # type: ignore[assignment]
        self._times: memoryview[float] = memoryview(self.times).cast("B").cast("d")  # type: ignore[assignment]
        learned = np.frombuffer(self.deciding.learned)
        columns = self.mirror.columns
        self._ending = (
            self.rows.ints, self.rows.floats, columns.ints, columns.floats, learned, *self.meters.ttft_s.arrays(),
        )  # fmt: skip

    def finished_all(self, events: list[ev.Finished]) -> int:
        """Requests end, in order: several while nobody waits, or one at its time.

        Args:
            events: `TOGETHER` at most.

        Returns:
            How many were looked at: all, or up to one that made somebody wait.
        """
        (rows_of, legs, prompts, outputs), times = self._telling, self._times
        by_request, now_s = self.rows.by_request, self.now_s
        for count, event in enumerate(events):
            now_s = max(now_s, event.now_s)
            rows_of[count], legs[count] = by_request.get(event.request, -1), event.leg
            prompts[count], outputs[count], times[count] = event.prompt_tokens, event.output_tokens, now_s
        return self.end_all([event.request for event in events])

    def end_all(self, requests: list[int]) -> int:
        """As `finished_all`, of requests whose ends are in `told` and `times`."""
        (rows_of, legs, prompts, outputs), times, count = self._telling, self._times, len(requests)
        at, are_usual = 0, not (self.prefiller_of or self.seating)
        placed = self.rows.i[WORKER]
        workers = [placed[row] for row in rows_of[:count]] if self.breaker.failing else []
        while at < count:
            last = _end(self.told, self.times, at, count, *self._ending) if are_usual else at
            if last > at:
                self._ended(requests if last - at == count else requests[at:last], at)
                for request, worker in zip(requests[at:last], workers[at:last], strict=False):
                    self.breaker.answered(self.mirror.names[worker], request)
            if last < count:
                self.now_s = times[last]
                self._finish(requests[last], legs[last], prompts[last], outputs[last])
                if self.pool.here:
                    return last + 1
            at = last + 1
        self.now_s = times[count - 1]
        return count

    def _finished(self, event: ev.Finished) -> None:
        if event.output_tokens:
            self.finished_all([event])
        else:  # a stream: its usual course is not that of a whole answer
            self._finish(event.request, event.leg, event.prompt_tokens, 0)

    def _ended(self, requests: list[int], at: int) -> None:
        """Nothing is kept of requests that were ended at once, those from `at` on of `told`."""
        rows_of, keys, prompts, outputs = self._telling
        tenants, present, last = self.tenants, self.door.present, at + len(requests)
        log, ahead, prefixes = self._log, self.deciding.ahead, self.prefixes
        if log is not None or ahead is not None or prefixes.has_any:
            for i, request in enumerate(requests, at):
                if log is not None:
                    log(Done(request, prompts[i], outputs[i]))
                if ahead is not None:
                    ahead.ended(request, prompts[i], outputs[i], keys[i])
                prefixes.forget(rows_of[i])
        by_request, rows = self.rows.by_request, rows_of[at:last].tolist()
        for request in requests:
            del by_request[request]
        for row in rows:
            here = tenants.pop(row)
            here.requests -= 1
            if not here.requests:
                del present[here.tenant]
        self.rows.free += rows
        self.meters.output_tokens += sum(outputs[at:last])
        self.meters.requests["200"] += last - at
        self.mirror.slots_changed()
        if self.pool.here:
            self.open_rounds()

    def _finish(self, request: int, leg: int, prompt_tokens: int, output_tokens: int) -> None:
        row = self.row_of(request, leg)
        if row < 0:
            return
        if prompt_tokens > 0:
            self.correct(row, prompt_tokens)
        i = self.rows.i
        if i[STATE][row] == _SENT:
            worker = i[WORKER][row]
            self.answered(row, self.mirror.workers[worker].spec.name)
            if output_tokens > 0:  # it came whole: no step of its group had a token of it
                i[PRODUCED][row] += output_tokens
                self.mirror.f[SENT_LOAD][worker] += output_tokens
                self.meters.ttft_s.add(self.now_s - self.rows.f[SINCE][row])
        self.completed(row)
        self.end(row, told=False)

    def completed(self, row: int) -> None:
        """See `Requests`: the predictor learns, and times are noted."""
        i, meters = self.rows.i, self.meters
        meters.requests["200"] += 1
        produced = i[PRODUCED][row]
        tokens = produced // i[COPIES][row]
        meters.output_tokens += produced
        if self._log is not None:
            self._log(Done(i[REQUEST][row], i[PROMPT][row], produced))
        if not tokens:
            return
        self.deciding.ended(i[REQUEST][row], i[PROMPT][row], tokens, i[KEY][row])
        if tokens > 1 and i[STATE][row] == _RUNNING:
            meters.tpot_s.add((self.now_s - self.rows.f[FIRST_AT][row]) / (tokens - 1))
        if i[PREDICTED][row] >= 0 and i[LEAVE][row] < NEVER:
            meters.prediction_error.add(abs(i[LEAVE][row] - tokens))
