# pyright: basic
"""The compiled twin of `prompt_size.PromptSizes.estimate` and `learn`, on the numbers of one model."""

from __future__ import annotations

import numpy as np

from evenstep.compiled import jit

#: Places of a model's numbers, float64: weighted bytes and tokens of its prompts, bytes of a token; share of the past that
#: stays with every prompt, bytes of a token where nothing is known, tokens that this counts as.
BYTES, TOKENS, RATE, KEEP, PRIOR, PRIOR_TOKENS = range(6)
NUMBERS = 6


@jit
def estimate(numbers, size):
    """Tokens of a prompt of so many bytes, at least 1."""
    return max(1, np.int64(np.rint(size / numbers[RATE])))


@jit
def learn(numbers, size, tokens):
    """An engine has told the tokens of a prompt, both above 0."""
    numbers[BYTES] = numbers[KEEP] * numbers[BYTES] + size
    numbers[TOKENS] = numbers[KEEP] * numbers[TOKENS] + tokens
    all_bytes = numbers[BYTES] + numbers[PRIOR] * numbers[PRIOR_TOKENS]
    numbers[RATE] = all_bytes / (numbers[TOKENS] + numbers[PRIOR_TOKENS])
