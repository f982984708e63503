"""What the policy saw at a decision, as values that a person can read and compare."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from evenstep.dispatch.core import Dispatcher


@dataclass(frozen=True, slots=True)
class SeenWorker:
    """A worker as the policy saw it: `RoutingView`'s columns of it."""

    worker: str
    load: float  # KV tokens
    running: int  # requests
    queued: int  # requests
    queued_load: float  # KV tokens
    free_slots: int  # requests that the round offered
    kv_free: float | None  # KV tokens; None where nothing limits it


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


def look(dispatcher: Dispatcher, checksum: int) -> Callable[[], Seen]:
    """Copy what the policy sees at the decision that is being logged; call what it returns to get the copy as `Seen`.

    Call it from the dispatcher's `log`: when the event has been handled, the arrays may have other rows.
    """
    deciding = dispatcher.parts.deciding
    view = deciding.packed.view(deciding.call.memory)
    workers = view.load, view.running, view.queued, view.queued_load, view.free_slots, view.kv_free
    waiting = view.waiting_id, view.waiting_load, view.waited_s
    copies = [[column.copy() for column in columns] for columns in (workers, waiting)]
    return partial(_seen, checksum, tuple(dispatcher.mirror.names), *copies)


def _seen(checksum: int, names: tuple[str, ...], workers: list[Any], waiting: list[Any]) -> Seen:
    load, running, queued, queued_load, free, kv_free = (column.tolist() for column in workers)
    free_kv = (tokens if tokens < math.inf else None for tokens in kv_free)
    return Seen(
        checksum,
        tuple(map(SeenWorker, names, load, running, queued, queued_load, free, free_kv)),
        tuple(map(SeenRequest, *(column.tolist() for column in waiting))),
    )
