# pyright: basic
"""How many tokens a batch runs while requests decode, compiled: the twin of `knee`, equal in bits."""

from __future__ import annotations

import numpy as np

from evenstep.compiled import jit
from evenstep.scheduling.knee import (
    BARE,
    BARE_S,
    DECODED,
    FREE,
    HEAVY,
    HEAVY_S,
    HEAVY_TOKENS,
    KNEE,
    KNOWN,
    LEAST,
    LIGHT,
    LIGHT_S,
    LIGHT_TOKENS,
    LONGER,
    MIXED_S,
    MIXED_TOKENS,
    PAYS,
    PREFILLED,
    PREFILLS,
    PRICE,
    PROBES,
    PRODUCTS,
    PURE_S,
    PURE_TOKENS,
    RAN_PREFILL,
    SELDOM,
    SQUARES,
)
from evenstep.scheduling.pace import RAN, SINCE, VARIES
from evenstep.scheduling.pace_kernel import fade, kept, quantised


@jit
def learn_mixing(memory, tokens, prefill, seconds):
    """Take note of what prefill tokens took: alone, and beside decodes."""
    if prefill > 0.0 and prefill == tokens:
        fade(memory, PURE_TOKENS, prefill)
        fade(memory, PURE_S, seconds)
    elif prefill > 0.0 and kept(memory, BARE) > 0.0:
        fade(memory, MIXED_TOKENS, prefill)
        fade(memory, MIXED_S, seconds - kept(memory, BARE_S) / kept(memory, BARE))


@jit
def apart(memory):
    """Whether prefills run without decodes; now and then the other way round, to learn."""
    pure, mixed = kept(memory, PURE_TOKENS), kept(memory, MIXED_TOKENS)
    pays = kept(memory, PURE_S) * mixed < PAYS * kept(memory, MIXED_S) * pure
    period = PROBES
    if kept(memory, PURE_S) * mixed > kept(memory, MIXED_S) * pure:
        period = PROBES * SELDOM
    return pays != (memory[PREFILLS] % period == period - 1)


@jit
def learn(memory, now_s, running):
    """Take note of how long the last iteration lasted, before `pace_kernel.learn`."""
    if memory[RAN] == 0 or running == 0:
        return
    tokens, prefill, seconds = (
        float(memory[RAN]),
        float(memory[RAN_PREFILL]),
        quantised(now_s - kept(memory, SINCE)),
    )
    learn_mixing(memory, tokens, prefill, seconds)
    if prefill == 0.0:
        fade(memory, BARE, 1.0)
        fade(memory, BARE_S, seconds)
    elif kept(memory, BARE) == 0.0:
        return
    elif seconds > LONGER * kept(memory, BARE_S) / kept(memory, BARE):
        fade(memory, HEAVY, 1.0)
        fade(memory, HEAVY_TOKENS, tokens)
        fade(memory, HEAVY_S, seconds)
        fade(memory, SQUARES, tokens * tokens)
        fade(memory, PRODUCTS, tokens * seconds)
    elif 2 * memory[RAN] >= memory[KNEE]:
        fade(memory, LIGHT, 1.0)
        fade(memory, LIGHT_TOKENS, prefill)
        fade(memory, LIGHT_S, seconds)


@jit
def note(memory, prefill, decodes):
    """Take note of the batch that is formed now."""
    memory[RAN_PREFILL] = prefill
    if prefill > 0:
        memory[PREFILLS] += 1
    memory[PREFILLED] += prefill
    memory[DECODED] += decodes


@jit
def budget(memory, decodes, behind, most):
    """Tokens to run beside `decodes`, while `behind` more could prefill as well; `most` where that is better."""
    memory[PRICE] = 0
    count, tokens, seconds = kept(memory, HEAVY), kept(memory, HEAVY_TOKENS), kept(memory, HEAVY_S)
    squares = kept(memory, SQUARES)
    spread = count * squares - tokens * tokens
    rises = count * kept(memory, PRODUCTS) - tokens * seconds
    bare = kept(memory, BARE)
    if decodes == 0 or bare < KNOWN or spread <= VARIES * count * squares or rises <= 0.0:
        return most
    slope = rises / spread
    flat, bare_s = (seconds - slope * tokens) / count, kept(memory, BARE_S) / bare
    knee = min((bare_s - flat) / slope, float(most))
    memory[KNEE] = np.int64(max(knee, 0.0) + 0.5)
    if knee < decodes + LEAST:
        return most
    chunk, slow_s, light = knee - decodes, bare_s, kept(memory, LIGHT)
    if light >= KNOWN:
        chunk, slow_s = kept(memory, LIGHT_TOKENS) / light, max(kept(memory, LIGHT_S) / light, bare_s)
    fast_s, asks = flat + slope * most, 1.0 + behind
    slow = (asks * slow_s + decodes * (slow_s - bare_s)) / chunk
    fast = (asks * fast_s + decodes * (fast_s - bare_s)) / (most - decodes)
    if fast < slow:
        return most
    needed = decodes * (1.0 + float(memory[PREFILLED]) / float(max(memory[DECODED], 1)))
    held = max(knee, min(needed, float(most)))
    price = (slow_s - bare_s + slope * (held - knee)) / (held - decodes)
    memory[PRICE] = np.float64(max(price, FREE)).view(np.int64)
    return min(most, np.int64(held + 0.5))
