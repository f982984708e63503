"""Batch time of data-parallel ranks in lock-step: a law split into each rank's own part and the part they have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from evenstep.cost.batch import TOKENS, BatchTime, on_lines
from evenstep.request import F8


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """A batch-time law in the form that R ranks in lock-step need.

    The ranks meet in every layer at the collectives around the experts, and all layers are alike. So a step lasts as long as
    the slowest rank's own part, plus the part that all do together. A rank without requests runs one dummy token, so that
    the others can proceed.

    If graphs are captured (`sizes`), a rank pads its tokens to the next captured size; if all of them run as graphs, to
    the largest of these. If one rank is too large for a graph, it pads nothing, and each other keeps its own padding.

    Args:
        own: float64[*], a law's numbers (`cost.batch`), for the part of a rank that depends on its own batch.
        experts: float64[2, P], tokens a rank on average, and seconds of all layers of experts; None = none are shared.
        links: float64[2, P], tokens of each rank, and seconds of all collectives if all ranks have the same number; None =
            no collectives.
        sizes: captured sizes, tokens, ascending; empty = no graphs.
        shares_path: True if both directions share one path, as through the host's memory: then ranks of unequal tokens take
            as long as equal ones of the same sum. Else the most that any rank receives counts, as on a link with a lane each
            way.

    Source: vLLM 0.19, v1/worker/dp_utils.py (padding), v1/engine/core.py (dummy batches). With unequal tokens each rank's
        share is broadcast, or reduced, by itself and goes one way (distributed/device_communicators/pynccl.py). NCCL issue
        384 shows that this is far faster through the host's memory than both ways at once. The sum is ours.
    """

    own: F8
    experts: F8 | None = None
    links: F8 | None = None
    sizes: tuple[int, ...] = ()
    shares_path: bool = False

    def seconds(self, batches: F8, overhead_s: float, beside_s: F8) -> tuple[float, F8]:
        """Seconds of a step of all ranks, and of each rank's own part.

        Args:
            batches: float64[R, FEATURES], each rank's batch; zeros for a rank without one. It is not changed.
            overhead_s: seconds of any rank's step on top of its batch.
            beside_s: float64[R], seconds each rank takes for moving memory.

        Returns:
            The longest own part plus the common part; and float64[R], own parts. Both include the two extra times.
        """
        from evenstep.cost.batch_seconds import seconds_of

        tokens = self.padded(batches[:, TOKENS])
        seen = batches.copy()
        seen[:, TOKENS] = tokens
        own = np.array([float(seconds_of(self.own, batch)) for batch in seen]) + overhead_s + beside_s
        together = 0.0
        if self.experts is not None:
            together += float(on_lines(self.experts, tokens.sum() / tokens.size))
        if self.links is not None:
            together += float(on_lines(self.links, self.share(tokens)))
        return float(own.max()) + together, own

    def share(self, tokens: F8) -> float:
        """The number of tokens at which `links` is read, from the padded `tokens`, float64[R], of unequal ranks.

        It is their mean if both directions share a path or R is 1, else the mean of all ranks but the smallest.
        """
        if self.shares_path or tokens.size == 1:
            return float(tokens.sum()) / tokens.size
        return float(tokens.sum() - tokens.min()) / (tokens.size - 1)

    def padded(self, tokens: F8) -> F8:
        """float64[R], tokens that each rank runs, with dummy tokens and padding (`Parts`), from the tokens of its batch."""
        found = np.maximum(tokens, 1.0)
        if not self.sizes:
            return found
        sizes = np.array(self.sizes, np.float64)
        graphs = found <= sizes[-1]
        found[graphs] = sizes[np.searchsorted(sizes, found[graphs])]
        return np.full(found.size, found.max()) if graphs.all() else found


@runtime_checkable
class TakenApart(Protocol):
    """A law that can split off the part that several data-parallel ranks do together: `in_lockstep` returns the parts."""

    def in_lockstep(self, ranks: int) -> Parts: ...


def parts_of(law: BatchTime, ranks: int) -> Parts:
    """Split a law for `ranks` ranks in lock-step; if it is not `TakenApart`, all of it is each rank's own part.

    Raises:
        InputError: `ranks` is above 1, and the law's experts lie on another number of devices above 1.
    """
    return law.in_lockstep(ranks) if isinstance(law, TakenApart) else Parts(law.table())
