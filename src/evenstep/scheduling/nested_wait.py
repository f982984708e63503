"""Nested WAIT: output lengths are not known, requests reveal them segment by segment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from evenstep.errors import InputError
from evenstep.scheduling.gated import LAST, Gates, batch_behind_gates
from evenstep.scheduling.view import BatchDecision, EngineView
from evenstep.scheduling.wait import check_gates


@dataclass(frozen=True, slots=True)
class NestedWait:
    """Segments of the output with falling thresholds; the deepest i whose heads 1..i hold theirs runs with all before it.

    A request that reaches a segment's end goes to the head of the next and pauses there until that segment runs. With
    prompts of several lengths each length class has segments of its own. With too little memory the pausing ones fill it
    and no new ones get in: the breaker then runs the deepest segment (see `scheduling.gated`). It looks down the queue
    until every group has its first threshold.

    Args:
        thresholds: n_1, n_2, ... of the segments, requests; for each group in turn, or once for all groups.
        ends: output tokens after which the next segment begins, ascending, one fewer than segments.
        prompt_edges: prompt lengths, tokens, ascending, at which the next group begins; none = one group.
        max_hold_s: a segment that has stood still for so long runs in any case, seconds.

    Raises:
        InputError: ends or edges that do not ascend, or numbers of thresholds that do not match.

    Source: WAIT, Algorithm 2, sec. 5.1 for groups. Segment i owns stages l'_{i-1} + 1 .. l'_i, the first also the prefill
        (its lines 1 and 19 sum the l', against its figure 6). `theory.nested_thresholds` solves for thresholds and says
        how much memory they need.
    """

    thresholds: tuple[int, ...] = (8, 4)
    ends: tuple[int, ...] = (64,)
    prompt_edges: tuple[int, ...] = ()
    max_hold_s: float = 1.0
    counts: ClassVar[tuple[str, ...]] = ("gates_broken",)

    def __post_init__(self) -> None:
        check_gates("nested-wait", self.thresholds, self.max_hold_s)
        for name in ("ends", "prompt_edges"):
            values = getattr(self, name)
            if any(b <= a for a, b in zip((0, *values), values, strict=False)):
                raise InputError("nested-wait", name, values, "integers >= 1, ascending")
        segments, groups = len(self.ends) + 1, len(self.prompt_edges) + 1
        if len(self.thresholds) not in (segments, segments * groups):
            raise InputError(
                "nested-wait", "thresholds", self.thresholds,
                f"{segments} of them, one a segment, or that for each of {groups} groups",
            )  # fmt: skip

    @property
    def memory_size(self) -> int:
        """A count of the breaker's acts, and a time for each segment of each group."""
        return LAST + (len(self.ends) + 1) * (len(self.prompt_edges) + 1)

    def form_batch(self, view: EngineView) -> BatchDecision:
        thresholds = np.resize(np.array(self.thresholds, np.int64), self.memory_size - LAST)
        group = np.searchsorted(np.array(self.prompt_edges, np.int64), view.prompt_tokens, side="right")
        return batch_behind_gates(
            view, Gates(thresholds, np.array(self.ends, np.int64), group, self.max_hold_s)
        )


policy = NestedWait
