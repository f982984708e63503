"""Least attained service: the request that has produced the fewest tokens goes first."""

from __future__ import annotations

from dataclasses import dataclass

from evenstep.compiled import part
from evenstep.errors import check_range
from evenstep.scheduling.batch import check_watermark
from evenstep.scheduling.by_key import KeyedWork as Work
from evenstep.scheduling.by_key import run_by_key
from evenstep.scheduling.order import QueueOrder
from evenstep.scheduling.rules import Ruled, rule
from evenstep.scheduling.view import RuleView


@dataclass(frozen=True, slots=True)
class LeastAttained(Ruled):
    """The request with the fewest output tokens goes first, running or waiting; those that limits leave out pause.

    If `prompt_weight` is 0, new requests go before all that have produced a token. After a restart from zero, the most
    tokens that it had before count until it has more. If memory is short, the running request with the most tokens is
    evicted. With little memory requests take turns in it, and unless KV is swapped, each turn computes it again.

    Args:
        prompt_weight: output tokens that a token of the prompt counts as; 0 = the prompt does not count.
        makes_room: evict running requests with more tokens for a waiting one that lacks memory or a place
            (`resident_limit`).
        watermark: share of the memory that an admission leaves free while others run.

    Raises:
        InputError: a value out of range.

    Source: least attained service (foreground-background), at the level of iterations.
    """

    prompt_weight: float = 0.0
    makes_room: bool = False
    watermark: float = 0.01

    def __post_init__(self) -> None:
        check_watermark("least-attained", self.watermark)
        check_range("least-attained", "a finite number >= 0", low=0, finite=True, prompt_weight=self.prompt_weight)

    @property
    def order(self) -> QueueOrder:
        """The queue's order: most output tokens ever had plus `prompt_weight` for each prompt token, smallest first."""
        return QueueOrder(prompt=self.prompt_weight, reached=1.0)


@rule
def form_batch(view: RuleView, options: LeastAttained, work: Work) -> None:
    """Form a batch by `key_of`, smallest first: output tokens ever produced, plus weighted prompt tokens (`run_by_key`)."""
    run_by_key(view, options, work, key_of, options.makes_room, options.watermark)


@part
def key_of(view: RuleView, options: LeastAttained, row: int) -> float:
    """The key of `LeastAttained.order`: the most output tokens it ever had, plus `prompt_weight` for each prompt token."""
    ever = max(view.reached[row], view.produced[row])
    return options.prompt_weight * view.prompt_tokens[row] + ever


policy = LeastAttained
