"""FasterTransformer: prefills a group of requests together, and decodes it before the next group starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from evenstep.compiled import part
from evenstep.errors import check_range
from evenstep.scheduling.batch import Batch, grows, offer
from evenstep.scheduling.eviction import run_phase
from evenstep.scheduling.rules import Ruled, RuleView, rule
from evenstep.scheduling.view import UNLIMITED


@dataclass(frozen=True, slots=True)
class FasterTransformer(Ruled):
    """Runs requests in groups: a group is prefilled, then decodes, and the next one starts when all are done or evicted.

    Not work-conserving: batches shrink while the group's longest outputs end, and prompts wait for them. Prefills and
    decodes do not mix; a group whose prompts exceed the budget takes several iterations of prefill. The first request that
    does not fit into memory whole ends the group. If a decode does not fit, the request admitted last is evicted. (The
    engine itself reserves memory for the longest output it allows.)

    Args:
        group: requests of a group at most; 0 = the engine's batch limit, which limits every group.

    Raises:
        InputError: a negative size.

    Source: Throughput-optimal sec. 3: decode first, not mixed; request-level batches.
    """

    memory_size: ClassVar[int] = 1  #: one word: how many requests at the head of the queue still belong to the group

    group: int = 0

    def __post_init__(self) -> None:
        check_range("faster-transformer", "an integer >= 0", "0 is the batch limit.", low=0, group=self.group)


@rule
def form_batch(view: RuleView, options: FasterTransformer, batch: Batch) -> None:
    """Run the group's prefills and admit its requests still in the queue; if none of them runs, run decodes.

    A new group begins if no request holds memory. ``memory[0]`` becomes the number of its requests still in the queue; a
    request that does not fit, or an eviction, makes it 0.
    """
    runs = view.running.size
    joining = batch.memory[0] if runs > 0 else group_size(view, options)
    run_phase(view, batch, 0)
    for i in range(joining):
        row: int = view.waiting[i]
        if batch.gone[0] > 0 or grows(view, row, view.left[row]) > batch.free[0]:
            joining = 0
            break
        if not offer(view, batch, row, runs + i, 0):
            break
        joining -= 1
    batch.memory[0] = joining
    if batch.given[0] == 0:
        run_phase(view, batch, 1)


@part
def group_size(view: RuleView, options: FasterTransformer) -> int:
    """The size of the next group: requests at the queue's head in the same phase, up to `group` and the engine's limits."""
    group = options.group if options.group > 0 else UNLIMITED
    most = min(group, view.batch_limit, view.resident_limit, view.waiting.size)
    for i in range(1, most):
        if view.decoding[view.waiting[i]] != view.decoding[view.waiting[0]]:
            return i
    return most


policy = FasterTransformer
