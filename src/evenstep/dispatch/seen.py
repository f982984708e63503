"""What the policy saw at the last decision, as values that a person can read and compare."""

from __future__ import annotations

import math
from dataclasses import dataclass

from evenstep.dispatch.core import Dispatcher


@dataclass(frozen=True, slots=True)
class SeenWorker:
    """A worker as the policy saw it: `RoutingView`'s columns of it.

    Args:
        load, queued_load, kv_free: KV tokens; `kv_free` is None where nothing limits it.
        running, queued, free_slots: requests; `free_slots` are those that the round offered.
    """

    worker: str
    load: float
    running: int
    queued: int
    queued_load: float
    free_slots: int
    kv_free: float | None


@dataclass(frozen=True, slots=True)
class SeenRequest:
    """A waiting request as the policy saw it: `tokens` is its KV tokens at admission, `waited_s` its seconds in the pool."""

    request: int
    tokens: float
    waited_s: float


@dataclass(frozen=True, slots=True)
class Seen:
    """All workers in the order of their places, and the waiting requests that were shown, in the order of the pool.

    `checksum` covers more than these: two decisions with equal rows may still differ in predicted loads, cached tokens or
    classes (`policy_call.Packed.checksum`).
    """

    checksum: int
    workers: tuple[SeenWorker, ...]
    waiting: tuple[SeenRequest, ...]


def last_seen(dispatcher: Dispatcher) -> Seen:
    """What the policy saw at this dispatcher's last decision; ask before the next event."""
    packed, names = dispatcher.parts.deciding.packed, dispatcher.mirror.names
    view = packed.view(dispatcher.parts.deciding.call.memory)
    known = view.load, view.running, view.queued, view.queued_load, view.free_slots, view.kv_free
    columns = [column.tolist() for column in known]
    numbers = [dispatcher.rows.at.request[row] for row in packed.waiting[: packed.shown].tolist()]
    return Seen(
        packed.checksum(),
        tuple(
            SeenWorker(name, load, running, queued, queued_load, free, kv if kv < math.inf else None)
            for name, load, running, queued, queued_load, free, kv in zip(names, *columns, strict=True)
        ),
        tuple(map(SeenRequest, numbers, view.waiting_load.tolist(), view.waited_s.tolist())),
    )
