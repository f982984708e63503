"""Batch time affine in the KV tokens a batch holds."""

from __future__ import annotations

from dataclasses import dataclass

from evenstep.cost.batch import Batch, check_numbers, layout
from evenstep.request import F8


@dataclass(frozen=True, slots=True)
class AffineKv:
    """``d0 + d1 * KV tokens held by the batch``.

    Args:
        d0_s: seconds of an iteration with any batch.
        d1_s: seconds a KV token.

    Raises:
        InputError: a negative or non-finite value.

    Source: WAIT eq. 1. The paper gives no numbers; the defaults are of the order of a 7B model on one GPU.
    """

    d0_s: float = 0.01
    d1_s: float = 4e-7

    def __post_init__(self) -> None:
        check_numbers("affine-kv", d0_s=self.d0_s, d1_s=self.d1_s)

    def seconds(self, batch: Batch) -> float:
        return self.d0_s + self.d1_s * batch.kv

    def table(self) -> F8:
        return layout(constant=self.d0_s, per_kv=self.d1_s)


batch_law = AffineKv
