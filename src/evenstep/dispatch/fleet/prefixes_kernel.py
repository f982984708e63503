# pyright: basic
"""Compiled part of `prefixes`."""

from __future__ import annotations

from evenstep.compiled import jit


@jit
def tokens(depth, count, rows, prompts, found):
    """Prompt tokens of each request cached on each worker; returns whether anything is known of any.

    Args:
        depth: int64[R, G], blocks held. count: int64[R], blocks of each prompt, 0 = not known.
        rows, prompts: int64[W].
        found: float64[W, G], written.
    """
    is_known = False
    for i in range(rows.size):
        row = rows[i]
        blocks = count[row] if row < count.size else 0
        if blocks == 0:
            for g in range(found.shape[1]):
                found[i, g] = 0.0
            continue
        is_known = True
        block_tokens = prompts[i] / blocks
        for g in range(found.shape[1]):
            found[i, g] = depth[row, g] * block_tokens
    return is_known
