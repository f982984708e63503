"""Min-min and max-min: send overdue requests, then others by length, each to the worker with room that is ready first."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from evenstep.compiled import part
from evenstep.errors import check_range
from evenstep.request import F8, I8
from evenstep.routing.filling import Open, count_overdue, first_with, list_open, send, take_out
from evenstep.routing.rules import RequestFloats, Ruled, RuleView, WorkerFloats

#: Key that sorts after that of every length.
LAST = 0x7FFFFFFFFFFFFFFF


@dataclass(frozen=True, slots=True)
class ByLength(Ruled):
    """Options of min-min, max-min and `olb-lbmm`, which sort requests by length. `where` is the policy's name in errors.

    Args:
        length: processing time of a request: its ``prompt`` (load at admission), or ``predicted``: prompt and expected
            output, if known. Only clients of a live dispatcher state expected outputs, so simulations refuse ``predicted``.
        age_limit: multiple of the mean wait after which a request is overdue; 0 = off (paper mode). Overdue requests go
            first, oldest first, in at most a quarter of the free slots (at least one). Others would starve.

    Raises:
        InputError: a negative or non-finite `age_limit`.
    """

    where: ClassVar[str]

    length: Literal["prompt", "predicted"] = "prompt"
    age_limit: float = 60.0

    def __post_init__(self) -> None:
        expected, hint = "a finite number >= 0", "0 switches ageing off."
        check_range(self.where, expected, hint, low=0, finite=True, age_limit=self.age_limit)

    @property
    def needs_steps(self) -> bool:
        """True if lengths include the expected output, which only a live dispatcher knows."""
        return self.length == "predicted"


class CompletionWork(NamedTuple):
    """Working space of min-min and max-min; `fleet.worker` is the answer."""

    fleet: Open
    ready: WorkerFloats  # KV tokens of the worker at each place of `fleet.open`, sent requests included with their lengths
    length: RequestFloats  # of each request in tokens; `send_by_length` overwrites those it has looked at


@part
def set_lengths(view: RuleView, predicted: bool, length: F8) -> None:
    """Write each request's length in tokens to `length`, float64[W]: its load, plus, if `predicted`, any known output."""
    for i in range(view.waiting_load.size):
        steps = view.waiting_steps[i] if predicted else 0.0
        length[i] = view.waiting_load[i] + (0.0 if math.isnan(steps) else steps)


@part
def send_by_length(view: RuleView, options: Any, longest_first: bool, work: CompletionWork) -> None:
    """Send overdue requests, oldest first, then the others by length, each to the worker with the smallest ready time.

    A worker's ready time is its load in KV tokens, queued requests included. It grows by the length of each request sent
    there. Only workers with a slot and memory for the request are considered; ties go to the lowest index. A request that
    fits nowhere is held. Requests of equal length go oldest first. Speeds do not count, so this is the order of min-min or
    max-min by earliest completion time on a homogeneous fleet.

    Args:
        options: those of `ByLength`.
        longest_first: True is max-min, False is min-min.
        work: working space, overwritten; the answer is `work.fleet.worker`.
    """
    count = list_open(view, work.fleet)
    for j in range(count):
        work.ready[j] = view.load[work.fleet.open[j]] + view.queued_load[work.fleet.open[j]]
    set_lengths(view, options.length_predicted, work.length)
    keys = work.length.view(np.int64)  # the bits of lengths >= 0 order like them
    looked_at = -1 if longest_first else LAST  # the key of a request that no scan may pick
    late = count_overdue(view, options.age_limit)
    for turn in range(view.waiting_load.size):
        if count == 0:
            break
        i = turn if turn < late else next_by_length(keys, longest_first, looked_at)
        size, length = view.waiting_load[i], work.length[i]
        keys[i] = looked_at
        best = -1
        for j in range(count):
            if work.fleet.kv[j] >= size and (best < 0 or work.ready[j] < work.ready[best]):
                best = j
        if best >= 0:
            work.ready[best] += length
            if work.fleet.slots[best] == 1:
                take_out(best, count, work.ready)
            count = send(i, best, size, count, work.fleet)


@part
def next_by_length(keys: I8, longest_first: bool, looked_at: int) -> int:
    """Position of the longest or shortest request not yet looked at, the oldest of equal ones; there must be one.

    `keys`, int64[W], are the bits of the lengths, which sort like the lengths. A request already looked at has the key
    `looked_at` instead, which sorts last.
    """
    key = looked_at
    for i in range(keys.size):
        key = max(key, keys[i]) if longest_first else min(key, keys[i])
    return first_with(keys, key)
