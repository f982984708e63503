"""One run of a load: starts due requests, waits for their answers, and records the results."""

from __future__ import annotations

import asyncio
import gc
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from evenstep.errors import InputError
from evenstep.load.answer import Answer, Meters
from evenstep.load.client import Call, Client
from evenstep.load.models import first_model
from evenstep.load.prompts import Prompts
from evenstep.load.records import Records
from evenstep.load.schedule import Schedule, Workflow
from evenstep.load.settings import LoadSettings, target_of
from evenstep.measure.quantiles import LogHistogram
from evenstep.request import F8, I8, Trace
from evenstep.sockets import allow_files, loop_factory

_TICK_S = 0.02
_PATHS = {"completions": "/v1/completions", "chat": "/v1/chat/completions"}
BUCKET_S = 0.25  #: seconds over which output tokens are counted together


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a run: numbers of requests, and output tokens received."""

    done: int  # requests that have ended
    failed: int  # those of them that failed
    running: int  # requests under way
    total: int  # all requests of the run
    tokens: int  # output tokens received so far, also of unfinished answers
    now_s: float  # seconds since the start of the run


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """The results of a run, or of its part until it was interrupted."""

    records: Records  # the result of each request
    gaps: LogHistogram  # seconds between successive chunks with tokens of one answer, good or failed
    gap_sum_s: float  # exact sum of all gaps in seconds
    gap_squares: float  # exact sum of the gaps' squares in seconds squared
    tokens: I8  # int64[M], output tokens received in each `BUCKET_S` seconds from the start, up to the last token
    duration_s: float  # seconds from the first request's start to the last end; nan if no answer has ended
    start_s: float  # start of the run by `time.monotonic`
    lag_s: F8  # float64[L], seconds by which each tick of a 20 ms timer in the event loop came late
    cpu_s: float  # CPU seconds of this process from the start of the run to the last end; 0 if no answer has ended
    model: str
    connections: int  # connections made


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a run, after at least one answer has ended; before that, `drive` raises a plain KeyboardInterrupt.

    `outcome` has the results so far; unfinished requests have the error ``not-ended``.
    """

    def __init__(self, outcome: Outcome) -> None:
        super().__init__()
        self.outcome = outcome


def drive(
    trace: Trace, settings: LoadSettings, watch: Callable[[Progress], None] | None = None, workflow: Workflow | None = None
) -> Outcome:
    """Send all requests of a trace in a new event loop, and wait until every answer has ended, good or failed.

    A failed request, even one without a connection, does not end the run; its error is in `Outcome.records`.

    Args:
        trace: the requests, with their due times (`timed`) for an open loop.
        settings: checked settings.
        watch: called in the event loop with the progress, at the start and about every 0.2 s; it must return soon.
        workflow: decides when each call (a row of the trace) is due, in place of the trace's times; the run ends at its
            `until_s` at the latest, and unfinished requests keep the error ``not-ended``.

    Raises:
        InputError: no times for an open loop, an unknown host, or a server that cannot be reached or asked for its model.
        EngineError: the settings name no model, and the server does not list its models.
        Interrupted: Ctrl-C, once an answer has ended.
    """
    allow_files()
    model = settings.model or first_model(target_of(settings.url), settings.api_key)
    run = Run(trace, settings, model, watch, workflow=workflow)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        try:
            return runner.run(run.whole())
        except KeyboardInterrupt:
            if not run.has_answers:
                raise
            raise Interrupted(run.outcome()) from None


def timed(trace: Trace, settings: LoadSettings) -> Trace:
    """A copy of the trace whose `arrival_s` are the due times of an open loop, in seconds from the start of the run.

    With a rate in the settings, they are Poisson times. Else they are the trace's times, shifted to begin at 0 and divided
    by the speed. For a closed loop, or without rate and times, the trace itself is returned.
    """
    if settings.rate is not None:
        from evenstep.workload.synthetic.arrivals import Poisson

        times = Poisson(settings.rate).times(len(trace), settings.seed, 0)
        note = f"Poisson arrivals at {settings.rate:g} requests a second, seed {settings.seed}."
        return replace(trace, arrival_s=times).with_notes(note)
    if trace.arrival_s is None or settings.closed:
        return trace
    begins = float(trace.arrival_s[0])
    return replace(trace, arrival_s=(trace.arrival_s - begins) / settings.speed)


class Run:
    """One run of a load. Await `whole` once, in a running event loop. An open loop without times raises `InputError`.

    Its arguments are those of `drive`, the name of the served model, and `started`: a function that is called after each
    request is started, with its row and its call, so that the host may cancel the call.
    """

    def __init__(
        self,
        trace: Trace,
        settings: LoadSettings,
        model: str,
        watch: Callable[[Progress], None] | None = None,
        started: Callable[[int, Call], None] | None = None,
        workflow: Workflow | None = None,
    ) -> None:
        self._trace, self._settings, self._watch, self._started = trace, settings, watch, started
        self._model, self._prompts = model, Prompts(trace, settings, model)
        self._workflow = workflow
        self._schedule = workflow or Schedule(trace, users=settings.closed, times=trace.arrival_s, speed=settings.speed)
        self._records = Records.of(trace)
        self._gaps, self._gap_sum_s, self._gap_squares = LogHistogram(), 0.0, 0.0
        self._lag_s: list[float] = []
        self._failed = 0
        self._wake: asyncio.TimerHandle | None = None

    async def whole(self) -> Outcome:
        """Send all requests, and wait for all answers or for the workflow's `until_s`; then close all connections.

        Until the end, garbage collection skips objects that existed at the start. An unknown host raises `InputError`.
        """
        settings, loop = self._settings, asyncio.get_running_loop()
        headers = {"Authorization": f"Bearer {settings.api_key}"} if settings.api_key else {}
        client = Client(target_of(settings.url), _PATHS[settings.endpoint], headers, settings.timeout_s)
        try:
            await client.resolve()
        except OSError as error:
            hint = f"{error.strerror or error}."
            raise InputError("evenstep load", "--url", settings.url, "a server that can be found", hint) from None
        self._client, self._loop = client, loop
        self._over = loop.create_future()
        gc.collect()
        freezes = not gc.get_freeze_count()  # objects frozen by the host stay frozen
        if freezes:
            gc.freeze()
        self._cpu_s, self._used_s = time.process_time(), 0.0
        self._start_s = time.monotonic()
        self._meters = Meters(self._start_s, BUCKET_S)
        self._tick(self._start_s)
        if self._workflow is not None and self._workflow.until_s is not None:
            loop.call_later(self._workflow.until_s, self._finish)
        self._go()
        if self._schedule.is_over:  # there are no requests
            self._finish()
        try:
            await self._over
        finally:
            for timer in (self._wake, self._ticking):
                if timer is not None:
                    timer.cancel()
            if freezes:
                gc.unfreeze()
            await client.close()
        return self.outcome()

    @property
    def has_answers(self) -> bool:
        """True if at least one answer has ended, good or failed."""
        return not np.isnan(self._records.ended_s).all()

    def outcome(self) -> Outcome:
        """The results so far, once `whole` sends requests; `records` and `gaps` are not copied, so they go on changing."""
        self._drain()
        ended_s = self._records.ended_s[~np.isnan(self._records.ended_s)]
        duration_s = float(ended_s.max() - np.nanmin(self._records.started_s)) if ended_s.size else np.nan
        return Outcome(
            self._records,
            self._gaps,
            self._gap_sum_s,
            self._gap_squares,
            np.array(self._meters.tokens, np.int64),
            duration_s,
            self._start_s,
            np.array(self._lag_s),
            self._used_s,
            self._model,
            self._client.connections,
        )

    def _go(self) -> None:
        """Start all requests that are due, and set a timer for the next one."""
        if self._wake is not None:
            self._wake.cancel()
        self._wake, self._wake_s = None, math.inf
        if self._over.done():
            return
        while (found := self._schedule.due(time.monotonic() - self._start_s)) is not None:
            self._begin(*found)
        next_s = self._schedule.next_s
        if next_s is not None:
            self._wake_s = next_s
            wait_s = self._start_s + next_s - time.monotonic()
            self._wake = self._loop.call_later(max(0.0, wait_s), self._go)

    def _begin(self, row: int, due_s: float) -> None:
        answer = Answer(int(self._trace.output_tokens[row]), self._meters)
        flow = self._workflow
        body = self._prompts.body(row, "" if flow is None else flow.models[row])
        asked = self._client.request(body, b"" if flow is None else flow.lines(row))
        call = Call(asked, answer, lambda call: self._ended(row, call))
        self._client.start(call)
        self._records.due_s[row] = due_s
        self._records.started_s[row] = call.started_s - self._start_s
        if self._started is not None:
            self._started(row, call)

    def _finish(self) -> None:
        """End the run, so that `whole` returns; unfinished calls are abandoned."""
        if not self._over.done():
            self._over.set_result(None)

    def _ended(self, row: int, call: Call) -> None:
        """Record the result of a call, then end the run if it was the last, or start the requests that it made due."""
        now_s = time.monotonic()
        if self._over.done():  # the time is up, and the connection was closed
            return
        self._records.ended(row, call.answer, call.status, now_s, self._start_s)
        self._used_s = time.process_time() - self._cpu_s
        self._failed += bool(call.answer.error)
        self._schedule.ended(row, now_s - self._start_s)
        if self._schedule.is_over:
            self._finish()
        elif (next_s := self._schedule.next_s) is not None and next_s < self._wake_s:
            self._wake_s = -math.inf
            self._loop.call_soon(self._go)

    def _tick(self, wished_s: float) -> None:
        """Record how late this tick of the timer is, report progress at every tenth, and set the next tick in 20 ms."""
        now_s = time.monotonic()
        self._lag_s.append(now_s - wished_s)
        if len(self._meters.gaps_s) > 50_000:
            self._drain()
        if self._watch is not None and len(self._lag_s) % 10 == 1:
            done, started, total = self._schedule.finished, self._schedule.started, self._schedule.total
            tokens = sum(self._meters.tokens)
            self._watch(Progress(done, self._failed, started - done, total, tokens, now_s - self._start_s))
        self._ticking = self._loop.call_later(_TICK_S, self._tick, now_s + _TICK_S)

    def _drain(self) -> None:
        """Move the gaps collected by `Meters` into the histogram and the sums."""
        gaps = np.frombuffer(self._meters.gaps_s, np.float64).copy()
        del self._meters.gaps_s[:]
        self._gaps.add(gaps)
        self._gap_sum_s += float(gaps.sum())
        self._gap_squares += float((gaps * gaps).sum())
