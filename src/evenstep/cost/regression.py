"""Batch time as a weighted sum of a batch's tokens, requests, KV tokens and further counts."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from evenstep.cost.batch import Batch, check_numbers, layout
from evenstep.request import F8


@dataclass(frozen=True, slots=True)
class Regression:
    """The sum of the counts of a batch, each times its coefficient; ``evenstep fit step-time`` fits it if all are logged.

    Args:
        constant_s: seconds of an iteration with any batch.
        token_s, request_s, kv_s: seconds a token it runs, a request in it, a KV token it holds afterwards.
        square_s: seconds a squared token of a prefill chunk.
        crossed_s: seconds a token of a prefill chunk times those computed before it.
        decode_s: seconds a context token of a decoding request.

    Raises:
        InputError: a negative or non-finite value.

    Source: ours; the terms are those of WAIT eq. 1 and Throughput-optimal App. A.1.
    """

    constant_s: float = 0.01
    token_s: float = 0.0
    request_s: float = 0.0
    kv_s: float = 0.0
    square_s: float = 0.0
    crossed_s: float = 0.0
    decode_s: float = 0.0

    def __post_init__(self) -> None:
        check_numbers("regression", **asdict(self))

    def seconds(self, batch: Batch) -> float:
        return (
            self.constant_s
            + self.token_s * batch.tokens
            + self.request_s * batch.requests
            + self.kv_s * batch.kv
            + self.square_s * batch.chunk_squares
            + self.crossed_s * batch.crossed
            + self.decode_s * batch.decode_context
        )

    def table(self) -> F8:
        return layout(
            constant=self.constant_s,
            per_kv=self.kv_s,
            per_square=self.square_s,
            per_crossed=self.crossed_s,
            per_decode=self.decode_s,
            tokens=np.array([[0.0, 1.0], [0.0, self.token_s]]),
            requests=np.array([[0.0, 1.0], [0.0, self.request_s]]),
        )


batch_law = Regression
