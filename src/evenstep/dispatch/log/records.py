"""The decision log's records: all input of a dispatcher, in order, and its decisions.

A log begins with a `Header`. Then come the host's events, the chunks between them, one `Done` for each request that ended
correctly, and one `Round` for each decision, after the event that caused it. A later part begins with a `Checkpoint` after
its header. A log holds no text of users: of a request it has numbers, its tenant's name and salted hashes.
"""

from __future__ import annotations

from typing import Protocol, TypeAlias, runtime_checkable

import msgspec

from evenstep.dispatch.events import Event
from evenstep.dispatch.settings import LoggedSettings
from evenstep.workload.log_parts import KIND

VERSION = 1


class Header(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="header"):
    """First record of every part of a log."""

    log: str = KIND  # `KIND`
    version: int = VERSION  # of the log's format, `VERSION`
    part: int = 0  # running number of the file; 0 = the log begins here
    policy: str = ""  # of the dispatcher at the start of part 0, in every part
    predictor: str = ""  # as `policy`
    settings: LoggedSettings = LoggedSettings()  # as `policy`
    evenstep: str = ""  # version of the package that wrote it
    after_gap: bool = False  # records before this part are lost after a failed write


class Checkpoint(msgspec.Struct, frozen=True, tag_field="event", tag="checkpoint"):
    """The state of a dispatcher at the start of a later part of its log, so that the part replays alone.

    `state`: bytes of `checkpoint.dump`, for `Dispatcher.resume`; empty = the state could not be saved.
    """

    state: bytes


class Chunks(msgspec.Struct, frozen=True, tag_field="event", tag="chunks", omit_defaults=True):
    """Calls of `Dispatcher.produced` since the record before, in order."""

    rows: list[int]  # the row of each call's request
    tokens: list[int] = []  # the tokens of each call; empty = 1 each
    #: (index in `rows`, seconds on the host's clock) of each call whose time differs from that of the call or record before
    times: list[tuple[int, float]] = []


class Done(msgspec.Struct, frozen=True, tag_field="event", tag="done"):
    """A request ended correctly; its lengths in tokens as the dispatcher counted them, the output of all copies together.

    It follows the event `Finished`. A replay does not use it; it is there for readers of the log.
    """

    request: int
    prompt_tokens: int
    output_tokens: int


class Round(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="round", omit_defaults=True):
    """One decision, and the requests it sent."""

    decision: int  # running number, from 0
    waiting: int  # number of waiting requests that the policy saw
    seen: int  # CRC-32 of the view (`policy_call.Packed.checksum`)
    #: number of the request (`Arrived.request`) -> name of its worker, as decided by the policy or the fallback; all others
    #: that were shown were held
    sent: dict[int, str] = {}
    fallback: str = ""  # why least load decided, see `rounds.fallback.Reason`; empty = the policy did
    why: str = ""  # the same with its subject, in words; a replay does not compare it


Record: TypeAlias = Header | Checkpoint | Chunks | Round | Done | Event


@runtime_checkable
class InParts(Protocol):
    """A log in parts. Between two events, if `is_full` is true, the dispatcher calls `begin_part` with its state."""

    def __call__(self, record: Record) -> None: ...
    @property
    def is_full(self) -> bool: ...
    def begin_part(self, state: bytes) -> None: ...
