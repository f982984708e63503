"""Batch time from tokens and from attention over long contexts."""

from __future__ import annotations

from dataclasses import dataclass

from evenstep.cost.batch import Batch, check_numbers, layout
from evenstep.cost.token_budget import TokenBudget
from evenstep.request import F8


@dataclass(frozen=True, slots=True)
class LongContext(TokenBudget):
    """The token-budget law plus ``alpha * sum chunk^2 + gamma * sum chunk*context + beta * decode context``.

    Args:
        alpha_s: seconds a squared token of a prefill chunk.
        beta_s: seconds a context token of a decoding request.
        gamma_s: seconds a chunk token times context token; 0 is the paper, which has no such term.

    Raises:
        InputError: a negative or non-finite value.

    Source: Throughput-optimal App. A.1.
    """

    alpha_s: float = 0.0
    beta_s: float = 0.0
    gamma_s: float = 0.0

    def __post_init__(self) -> None:
        TokenBudget.__post_init__(self)
        check_numbers("long-context", alpha_s=self.alpha_s, beta_s=self.beta_s, gamma_s=self.gamma_s)

    def seconds(self, batch: Batch) -> float:
        return (
            TokenBudget.seconds(self, batch)
            + self.alpha_s * batch.chunk_squares
            + self.gamma_s * batch.crossed
            + self.beta_s * batch.decode_context
        )

    def table(self) -> F8:
        return layout(tokens=self.knots(), per_square=self.alpha_s, per_crossed=self.gamma_s, per_decode=self.beta_s)


batch_law = LongContext
