"""Decides how many prefill tokens a batch runs while requests decode: up to where more tokens begin to cost time.

An iteration lasts at least as long as reading the weights. Beyond some number of tokens, the *knee*, each token adds time;
prefill tokens below the knee are free. So the rule spreads prefills evenly over iterations, unless chunks as large as the
engine takes delay less. It learns the engine from fading sums over *bare* iterations (decodes alone) and *heavy* ones
(with prefill tokens, and over a quarter longer than bare ones). The line of heavy ones meets the bare time at the knee. Sums
over *light* iterations near the knee show what its tokens really cost.

On some engines a batch of prefills and decodes takes longer than one of each. Further sums compare prefill tokens that ran
alone with those that ran together with decodes. Where the former took less than nine tenths of what the latter added,
prefills run alone but for probes (`apart`).
"""

from __future__ import annotations

import numpy as np

from evenstep.compiled import jit
from evenstep.request import I8
from evenstep.scheduling.adaptive import iteration_time
from evenstep.scheduling.adaptive.iteration_time import RAN, SINCE, fade, fade_line, line, quantised
from evenstep.scheduling.batch import keep, kept

_FIRST = iteration_time.MEMORY
#: Words of memory: prefill tokens of the last batch, tokens prefilled and decoded so far, the knee. As float64: seconds that
#: a prefill token costs at the knee (0 = prefills are not held back); sums over bare iterations (1, seconds), heavy ones
#: (five, see `iteration_time.fade_line`) and light ones (1, prefill tokens, seconds).
RAN_PREFILL, PREFILLED, DECODED, KNEE, PRICE = range(_FIRST, _FIRST + 5)
BARE, BARE_S, HEAVY = range(_FIRST + 5, _FIRST + 8)
LIGHT, LIGHT_TOKENS, LIGHT_S = range(_FIRST + 12, _FIRST + 15)
#: Words of memory: number of batches with prefills. Fading float64 sums: prefill tokens that ran alone, and their seconds;
#: prefill tokens that ran with decodes, and the seconds by which their batches took longer than decodes alone.
PREFILLS, PURE_TOKENS, PURE_S, MIXED_TOKENS, MIXED_S = range(_FIRST + 15, _FIRST + 20)
#: Number of words kept in memory, those of `iteration_time` included.
MEMORY = _FIRST + 20
#: Prefills run apart where a token then costs less than this share of the seconds it costs with decodes. One batch with
#: prefills in `PROBES` tries the other way; where running apart takes longer, one in `SELDOM` times as many does.
PAYS, PROBES, SELDOM = 0.9, 64, 8
#: A heavy iteration lasts more than `LONGER` times a bare one. Sums of `KNOWN` bare or light ones are needed to use them.
LONGER, KNOWN = 1.25, 8.0
#: Fewest prefill tokens below the knee that make it worth stopping there.
LEAST = 16
#: The least price of a token, seconds.
FREE = 1e-9


@jit
def learn_mixing(memory: I8, tokens: float, prefill: float, seconds: float) -> None:
    """Add a batch of `tokens`, `prefill` of them of prefills, that took `seconds` to the sums of its kind.

    A batch of prefills alone adds its `seconds`. A mixed one adds its `seconds` minus the mean of decodes alone, once that
    mean is known. A batch without prefill tokens adds nothing.
    """
    if prefill > 0.0 and prefill == tokens:
        fade(memory, PURE_TOKENS, prefill)
        fade(memory, PURE_S, seconds)
    elif prefill > 0.0 and kept(memory, BARE) > 0.0:
        fade(memory, MIXED_TOKENS, prefill)
        fade(memory, MIXED_S, seconds - kept(memory, BARE_S) / kept(memory, BARE))


@jit
def apart(memory: I8) -> bool:
    """True if prefills should run apart: a prefill token alone takes less than `PAYS` of the time it adds to decodes.

    Until both times are known that counts as false. To keep learning, one in `PROBES` batches with prefills gets the
    opposite answer, or one in `PROBES` x `SELDOM` if running apart takes longer.
    """
    pure, mixed = kept(memory, PURE_TOKENS), kept(memory, MIXED_TOKENS)
    pays = kept(memory, PURE_S) * mixed < PAYS * kept(memory, MIXED_S) * pure
    period = PROBES
    if kept(memory, PURE_S) * mixed > kept(memory, MIXED_S) * pure:
        period = PROBES * SELDOM
    return pays != (memory[PREFILLS] % period == period - 1)


@jit
def learned(memory: I8, now_s: float, running: int) -> None:
    """Add the duration of the last iteration, up to `now_s`, to the sums of its kinds.

    Bare ones ran decodes alone; heavy ones ran prefill tokens and took over a quarter longer; light ones ran some, too, and
    in all at least half the knee, but are not heavy. Before the first bare one, no iteration counts as heavy or light.
    `learn_mixing` adds it to prefills alone or mixed. Does nothing if the last batch was empty, or if `running` (requests
    that hold memory now) is 0. Call it before `note` and `iteration_time.note` overwrite what it reads.
    """
    if memory[RAN] == 0 or running == 0:
        return
    tokens, prefill = float(memory[RAN]), float(memory[RAN_PREFILL])
    seconds = quantised(now_s - kept(memory, SINCE))
    learn_mixing(memory, tokens, prefill, seconds)
    if prefill == 0.0:
        fade(memory, BARE, 1.0)
        fade(memory, BARE_S, seconds)
    elif kept(memory, BARE) == 0.0:
        return
    elif seconds > LONGER * kept(memory, BARE_S) / kept(memory, BARE):
        fade_line(memory, HEAVY, tokens, seconds)
    elif 2 * memory[RAN] >= memory[KNEE]:
        fade(memory, LIGHT, 1.0)
        fade(memory, LIGHT_TOKENS, prefill)
        fade(memory, LIGHT_S, seconds)


@jit
def note(memory: I8, prefill: int, decodes: int) -> None:
    """Store this batch's prefill tokens for `learned`; add them and its decode tokens to `PREFILLED` and `DECODED`.

    If it has prefill tokens, count the batch in `PREFILLS`.
    """
    memory[RAN_PREFILL] = prefill
    if prefill > 0:
        memory[PREFILLS] += 1
    memory[PREFILLED] += prefill
    memory[DECODED] += decodes


@jit
def budget(memory: I8, decodes: int, behind: int, most: int) -> int:
    """Tokens of this batch, `decodes` included: about the knee, or `most` where finishing prefills at once delays less.

    It is `most` also without decodes, and if the knee is unknown or too close to `decodes`. `behind` is the number of
    requests that wait for the one that prefills now.

    A budget at the knee delays this prefill and those after it; `most` makes every decode wait for the prefill. The one with
    the smaller delay for each token, summed over requests, is taken. Up to `most`, the result leaves at least as many
    prefill tokens for each decode as ran in the past. Writes the words `PRICE` (0 = not held back) and, if known, `KNEE`.
    """
    memory[PRICE] = 0
    bare = kept(memory, BARE)
    if decodes == 0 or bare < KNOWN:
        return most
    slope, flat, _ = line(memory, HEAVY, 0.0)
    if slope == 0.0:
        return most
    bare_s = kept(memory, BARE_S) / bare
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
    keep(memory, PRICE, max(price, FREE))
    return min(most, int(held + 0.5))
