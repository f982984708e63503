"""Replays a decision log through a dispatcher of this process, and compares the decisions."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import msgspec

from evenstep.dispatch.core import Dispatcher
from evenstep.dispatch.events import Reloaded
from evenstep.dispatch.log.file import cut_off, read_log
from evenstep.dispatch.log.records import Checkpoint, Chunks, Done, Header, Record, Round
from evenstep.errors import InputError


@dataclass(frozen=True, slots=True)
class Difference:
    """The first decision that differs from the log.

    Args:
        decision: running number, from 0.
        now_s: the host's time at the decision, in seconds.
        what: ``view``: the policy saw something else. ``answer``: other requests or workers. ``fallback``: only the reason
            of the fallback differs. ``missing``: the replay did not decide here. ``extra``: the log has no such decision.
        recorded, replayed: the decision in the log, and that of the replay; None where there is no such decision.
    """

    decision: int
    now_s: float
    what: str
    recorded: Round | None
    replayed: Round | None


@dataclass(frozen=True, slots=True)
class Replayed:
    """The result of a replay.

    Args:
        policy: the policy that the replay began with; after a gap, the one that its last part began with.
        predictor: the one that the caller named, else the one in the log's header. Later reloads change neither field.
        is_changed: whether the caller named a policy or predictor to replay with.
        decisions: number of the log's decisions that were compared; the last may be the one that differs.
        events: events handled; a record of chunks counts as one.
        fallbacks: how many of the compared decisions fell back to least load in the log.
        difference: None when all are alike.
        cut_off: bytes after the last whole record of the log, left by a writer that was killed.
        gaps: places at which the log lost records, since they could not be written; each later part is replayed from the
            state that it began with.
    """

    policy: str
    predictor: str
    is_changed: bool
    decisions: int
    events: int
    fallbacks: int
    difference: Difference | None
    cut_off: int = 0
    gaps: int = 0


class Watch(Protocol):
    """Observes a replay, record by record and chunk by chunk; it may read the dispatcher, and must not change it."""

    def record(self, record: Record, dispatcher: Dispatcher) -> None:
        """Called after each record is handled, and after each decision (`Round`) is compared and found equal."""
        ...

    def chunk(self, row: int, dispatcher: Dispatcher) -> None:
        """Called before a chunk of the request in this row is counted; `dispatcher.now_s` is the chunk's time."""
        ...


def replay(path: str | Path, policy: str = "", predictor: str = "", *, watch: Watch | None = None) -> Replayed:
    """Give the events of a log to a fresh dispatcher, up to the first decision that differs.

    With the log's own policy and predictor, what the policy saw must be equal, too. With others only the requests sent,
    their workers, the number of waiting requests and the reason of a fallback are compared.

    Args:
        path: the log, or the part of it to begin with; the later ones in its folder are read too.
        policy, predictor: ``NAME[:key=value,...]`` to decide by instead of those of the log, reloads included.
        watch: is called with each record and chunk, up to the first decision that differs.

    Raises:
        InputError: the log cannot be read, or no such policy or predictor.
    """
    path = Path(path)
    slow = frozenset(r.decision for r in read_log(path) if isinstance(r, Round) and r.fallback == "budget")
    records = read_log(path)
    header = next(records)
    assert isinstance(header, Header)
    made: deque[Round] = deque()

    def keep(record: Record) -> None:
        if isinstance(record, Round):
            made.append(record)

    def fresh() -> Dispatcher:
        return Dispatcher(text, predictor=used, settings=header.settings, log=keep, overruns=slow)

    text, used = policy or header.policy, predictor or header.predictor
    dispatcher = fresh()
    compared = events = fallbacks = gaps = 0
    difference = None
    for record in records:
        if isinstance(record, Header | Done):
            if watch is not None:
                watch.record(record, dispatcher)
            continue
        if isinstance(record, Checkpoint):
            if events or compared:
                gaps += 1
                made.clear()
                dispatcher = fresh()
            _begin_at(record, dispatcher, policy, predictor, str(path))
            text = dispatcher.parts.deciding.call.text
            continue
        if isinstance(record, Round):
            now = made.popleft() if made else None
            compared += 1
            fallbacks += bool(record.fallback)
            now = now and msgspec.structs.replace(now, why=record.why)
            if policy or predictor:  # another policy may read other fields and still decide the same
                now = now and msgspec.structs.replace(now, seen=record.seen)
            if now != record:
                difference = Difference(record.decision, dispatcher.now_s, _what(record, now), record, now)
                break
        elif made:
            difference = Difference(made[0].decision, dispatcher.now_s, "extra", None, made[0])
            break
        else:
            events += 1
            _give(dispatcher, record, bool(policy), bool(predictor), watch)
        if watch is not None:
            watch.record(record, dispatcher)
    is_changed, cut = bool(policy or predictor), cut_off(path)
    return Replayed(text, used, is_changed, compared, events, fallbacks, difference, cut, gaps)


def _begin_at(record: Checkpoint, dispatcher: Dispatcher, policy: str, predictor: str, where: str) -> None:
    """Give a fresh dispatcher the state that a part began with, then `policy` and `predictor`, if they are named.

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
