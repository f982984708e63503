"""Replays a decision log through a dispatcher of this process, and compares the decisions."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from evenstep.dispatch.core import Dispatcher
from evenstep.dispatch.events import Arrived, Reloaded, Sampled, WorkerAdded, WorkerRemoved
from evenstep.dispatch.log.file import cut_off, read_log
from evenstep.dispatch.log.records import Checkpoint, Chunks, Done, Header, Record, Round
from evenstep.dispatch.seen import Seen, look
from evenstep.dispatch.settings import WorkerSpec
from evenstep.dispatch.steps.groups import GroupSteps
from evenstep.errors import InputError


@dataclass(frozen=True, slots=True)
class Difference:
    """The first decision that differs from the log."""

    decision: int  # running number, from 0
    now_s: float  # the host's time at the decision, in seconds
    #: ``view``: the policy saw something else. ``answer``: other requests or workers. ``fallback``: only the reason of the
    #: fallback differs. ``missing``: the replay did not decide here. ``extra``: the log has no such decision.
    what: str
    recorded: Round | None  # the decision in the log; None where there is no such decision
    replayed: Round | None  # the decision of the replay; None where there is no such decision


@dataclass(frozen=True, slots=True)
class Replayed:
    """The result of a replay."""

    policy: str  # the policy that the replay began with; after a gap, the one that its last part began with
    #: the one that the caller named, else that of the log's header (may be empty). Later reloads change neither.
    predictor: str
    is_changed: bool  # whether the caller named a policy or predictor to replay with
    decisions: int  # number of the log's decisions that were compared; the last may be the one that differs
    events: int  # events handled; a record of chunks counts as one
    fallbacks: int  # how many of the compared decisions fell back to least load in the log
    difference: Difference | None  # None when all are alike
    cut_off: int = 0  # bytes after the last whole record of the log, left by a writer that was killed
    #: places at which the log lost records, since they could not be written; the part after each is replayed from the state
    #: that it began with
    gaps: int = 0
    #: what the policy saw in the replay at the decision that differs, or at the one asked for; None for neither, and where
    #: the replay made no decision there
    seen: Seen | None = None
    after: str = ""  # the event after which that decision was made, as the log names it; empty without `seen`


class Watch:
    """Collects requests, steps and workers while a log is replayed; it reads the dispatcher, and does not change it.

    By request number: `arrived` (time), `copies`, `sent` (time and worker of the first sending), `first` (time of the first
    token), `done` (time, prompt tokens, output tokens). Times are those of the dispatcher.
    """

    def __init__(self) -> None:
        self.arrived: dict[int, float] = {}
        self.copies: dict[int, int] = {}
        self.sent: dict[int, tuple[float, str]] = {}
        self.first: dict[int, float] = {}
        self.done: dict[int, tuple[float, int, int]] = {}
        self.steps: list[tuple[int, list[float], int, int, float, float]] = []
        self.fleet: list[tuple[WorkerSpec, float]] = []
        self.changed, self.prefillers = False, 0
        self._all, self._counted = GroupSteps(), list[int]()

    def record(self, record: Record, dispatcher: Dispatcher) -> None:
        """Store a record's facts, and the dispatcher's new steps and workers.

        `replay` calls it for each record but a `Checkpoint`, once it is handled; for a decision (`Round`), if it is equal.
        """
        now = dispatcher.now_s
        if isinstance(record, Arrived):
            self.arrived[record.request], self.copies[record.request] = now, record.copies
        elif isinstance(record, Round):
            for request, worker in record.sent.items():
                self.sent[request] = self.sent.get(request, (now, worker))
        elif isinstance(record, Done):
            self.done[record.request] = (now, record.prompt_tokens, record.output_tokens)
        elif isinstance(record, WorkerAdded):
            self.prefillers += record.spec.role == "prefill"
        elif isinstance(record, WorkerRemoved):
            self.changed = True
        if isinstance(record, WorkerAdded | Sampled) or not self.fleet:
            here = [(worker.spec, worker.capacity) for worker in dispatcher.mirror.workers]
            if len(here) >= len(self.fleet):
                self.fleet = here
        self._look(dispatcher)

    def chunk(self, row: int, dispatcher: Dispatcher) -> None:
        """Note the time of a request's first token, and new steps; called at the chunk's time, before it is counted."""
        request = int(dispatcher.rows.at.request[row])
        if request not in self.first:
            self.first[request] = dispatcher.now_s
        self._look(dispatcher)

    def _look(self, dispatcher: Dispatcher) -> None:
        """Append the steps counted since the last look to `steps`, with the loads and running requests of their workers.

        A chunk of several tokens may end several: each has the loads and the seconds of the last.
        """
        dispatcher.count()
        barriers, running = dispatcher.parts.barriers, dispatcher.mirror.at.running
        at = barriers.all.at
        if barriers.all is not self._all:  # counts begin anew where workers or groups change
            self._all, self._counted = barriers.all, list(at.steps)
        for group, count in enumerate(at.steps):
            if more := count - self._counted[group]:
                self._counted[group], steps, step_s = count, barriers.steps[group], at.step_s[group]
                known = group, steps.load, sum(running[g] for g in steps.members), sum(running), step_s
                self.steps += [(*known, at.counted_s[group] - ago * step_s) for ago in reversed(range(more))]


def replay(
    path: str | Path, policy: str = "", predictor: str = "", *, watch: Watch | None = None, until: int | None = None
) -> Replayed:
    """Give the events of a log to a fresh dispatcher, up to the first decision that differs.

    Without a `policy` or `predictor` named, what the policy saw must be equal, too. With one only the requests sent, their
    workers, the number of waiting requests and the reason of a fallback are compared.

    Args:
        path: the log, or the part of it to begin with; the later ones in its folder are read too.
        policy, predictor: ``NAME[:key=value,...]`` to decide by instead of those of the log, reloads included.
        watch: collects each record and chunk, up to the first decision that differs.
        until: stop at the decision of this number, and say what the policy saw; None = do not stop.

    Raises:
        InputError: the log cannot be read, its first part has no state, it has no decision `until`, or an invalid policy or
            predictor.
    """
    path = Path(path)
    slow = frozenset(r.decision for r in read_log(path) if isinstance(r, Round) and r.fallback == "budget")
    records = read_log(path)
    header = next(records)
    assert isinstance(header, Header)
    made: deque[tuple[Round, Callable[[], Seen]]] = deque()

    def keep(record: Record) -> None:
        if isinstance(record, Round):
            made.append((record, look(dispatcher, record.seen)))

    def fresh() -> Dispatcher:
        return Dispatcher(text, predictor=used, settings=header.settings, log=keep, overruns=slow)

    text, used = policy or header.policy, predictor or header.predictor
    dispatcher = fresh()
    compared = events = fallbacks = gaps = 0
    difference, after, first, last = None, "", 0, 0
    shown: Callable[[], Seen] | None = None  # what the policy saw at the decision compared last
    for record in records:
        if isinstance(record, Checkpoint):
            if events or compared:
                gaps += 1
                made.clear()
                dispatcher = fresh()
            _begin_at(record, dispatcher, policy, predictor, str(path))
            text = dispatcher.parts.deciding.call.text
            continue
        if isinstance(record, Round):
            now, shown = made.popleft() if made else (None, None)
            compared += 1
            first, last = first if compared > 1 else record.decision, record.decision
            fallbacks += bool(record.fallback)
            now = now and msgspec.structs.replace(now, why=record.why)
            if policy or predictor:  # another policy may read other fields and still decide the same
                now = now and msgspec.structs.replace(now, seen=record.seen)
            if now != record:
                difference = Difference(record.decision, dispatcher.now_s, _what(record, now), record, now)
                break
        elif isinstance(record, Header | Done):
            pass  # for the watch only
        elif made:
            now, shown = made[0]
            difference = Difference(now.decision, dispatcher.now_s, "extra", None, now)
            break
        else:
            events, after = events + 1, type(record).__struct_config__.tag
            _give(dispatcher, record, bool(policy), bool(predictor), watch)
        if watch is not None:
            watch.record(record, dispatcher)
        if isinstance(record, Round) and record.decision == until:
            break
    else:
        if until is not None:
            has = f"one of the log's decisions, {first} to {last}" if compared else "a log with decisions"
            raise InputError(str(path), "--decision", until, has, "Some are lost in its gaps." if gaps else "")
        shown = None
    is_changed, cut = bool(policy or predictor), cut_off(path)
    seen = shown() if shown else None
    after = str(after) if seen else ""
    return Replayed(text, used, is_changed, compared, events, fallbacks, difference, cut, gaps, seen, after)


def _begin_at(record: Checkpoint, dispatcher: Dispatcher, policy: str, predictor: str, where: str) -> None:
    """Give a fresh dispatcher the state that a part began with, then `policy` and `predictor` if they are named and differ.

    Raises InputError if the part has no state. `where` names the log in that error.
    """
    if not record.state:
        hint = "Its predictor could not be kept; begin with part 0, where no records are lost before this part."
        raise InputError(where, "checkpoint", "empty", "the state that the part began with", hint)
    dispatcher.resume(record.state)
    deciding = dispatcher.parts.deciding
    if (policy and policy != deciding.call.text) or (predictor and predictor != deciding.predictor_text):
        dispatcher.reload(policy, predictor)


def _give(dispatcher: Dispatcher, record: Record, has_policy: bool, has_predictor: bool, watch: Watch | None = None) -> None:
    """Give a record of the log, an event or chunks, to the dispatcher; an event that it refuses is ignored.

    `has_policy`, `has_predictor`: the caller named one, so the one in a `Reloaded` is left out.
    """
    if isinstance(record, Chunks):
        times = dict(record.times)
        for place, row in enumerate(record.rows):
            dispatcher.now_s = times.get(place, dispatcher.now_s)
            if watch is not None:
                watch.chunk(row, dispatcher)
            dispatcher.produced(row, record.tokens[place] if record.tokens else 1)
        return
    if isinstance(record, Reloaded):
        kept = {"policy": "" if has_policy else record.policy, "predictor": "" if has_predictor else record.predictor}
        record = msgspec.structs.replace(record, **kept)
    assert not isinstance(record, Header | Round | Done | Checkpoint)
    try:
        dispatcher.handle(record)
    except InputError:  # the recorded run refused it, too
        return


def _what(recorded: Round, now: Round | None) -> str:
    """How two decisions that are not equal differ, as in `Difference.what`."""
    if now is None:
        return "missing"
    if (recorded.decision, recorded.waiting, recorded.seen) != (now.decision, now.waiting, now.seen):
        return "view"
    return "answer" if recorded.sent != now.sent else "fallback"
