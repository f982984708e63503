"""FastServe's multi-level feedback queue, which requests join at the level of their prompt."""

from __future__ import annotations

from dataclasses import dataclass

from evenstep.compiled import part
from evenstep.errors import check_range
from evenstep.scheduling.batch import check_watermark
from evenstep.scheduling.by_key import KeyedWork as Work
from evenstep.scheduling.by_key import run_by_key
from evenstep.scheduling.order import QueueOrder, level
from evenstep.scheduling.rules import Ruled, rule
from evenstep.scheduling.view import RuleView


@dataclass(frozen=True, slots=True)
class Mlfq(Ruled):
    """A request joins the level whose quantum exceeds its prompt, and sinks a level each time its tokens reach the quantum.

    Quanta double from level to level. In every iteration level 0 goes first, then 1, and so on (but see `level_wait_s`);
    within a level, first come, first served. Running requests left out by the batch's limits pause and keep their memory. If
    memory is short, the last in this order is evicted. Bounds of output lengths are not used. Service is counted in prompt
    and output tokens; the paper counts seconds.

    Args:
        quantum: tokens of the first level, > 0.
        level_wait_s: seconds of waiting that make up for a level, so that long requests are not starved. A request of level
            1 goes before one of level 0 that arrives so much later. (The paper lifts a request to the first level once it
            has waited too long; with such a sum of level and arrival the queue keeps its order.)
        makes_room: evict running requests that come later in this order for a waiting one that lacks memory or a place
            (`resident_limit`). FastServe does so, and swaps. Where KV is computed again, this costs more than it gains.
        watermark: share of the memory that an admission leaves free while others run.

    Raises:
        InputError: a value out of range.

    Source: FastServe, skip-join MLFQ with preemption between iterations.
    """

    quantum: float = 256.0
    level_wait_s: float = 30.0
    makes_room: bool = False
    watermark: float = 0.01

    def __post_init__(self) -> None:
        check_watermark("mlfq", self.watermark)
        check_range("mlfq", "tokens, > 0", above=0, finite=True, quantum=self.quantum)
        check_range("mlfq", "a finite number of seconds >= 0", low=0, finite=True, level_wait_s=self.level_wait_s)

    @property
    def order(self) -> QueueOrder:
        """The queue's order: arrival time plus `level_wait_s` for each level, smallest first."""
        return QueueOrder(arrival=1.0, quantum=self.quantum, served=self.level_wait_s)


@rule
def form_batch(view: RuleView, options: Mlfq, work: Work) -> None:
    """Form a batch by the smallest arrival time plus `level_wait_s` for each level (`run_by_key`)."""
    run_by_key(view, options, work, key_of, options.makes_room, options.watermark)


@part
def key_of(view: RuleView, options: Mlfq, row: int) -> float:
    """The key of `Mlfq.order`, seconds: the time of arrival plus `level_wait_s` for each level of the tokens it has run."""
    served = view.prompt_tokens[row] + max(view.reached[row], view.produced[row])
    return view.arrival_s[row] + options.level_wait_s * level(served, options.quantum)


policy = Mlfq
