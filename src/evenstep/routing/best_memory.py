"""Where KV memory limits the slots: what `best` keeps free on each worker, and for whom.

Between two departures a worker gains a token for every running request and step; what leaves then sets free more than was
gained, or nothing would ever be admitted. Free memory is thus a reserve that is spent evenly and paid back in lumps,
insurance's dual risk model: the chance that a reserve u is ever spent is ``exp(-R u)``. With lumps of a prompt and an
output each, exponential as usual, ``1/R = output * (1 + output / prompt)``. Where outputs outweigh prompts that grows
without bound, but a worker's load does not: it strays from its mean by a few outputs times the root of its requests.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from evenstep.request import F8, I8
from evenstep.routing.bf_io_moment import Moment, in_order
from evenstep.routing.view import RoutingView

if TYPE_CHECKING:
    from evenstep.routing.best import Best

#: What requests are thought to produce while none has left, in mean requests.
UNKNOWN = 0.55
#: Most that is kept free: so many outputs, times the root of the requests a worker holds.
SPREAD = 5.0
#: A request that has waited so many usual waits and fits nowhere has a worker kept for it.
PATIENCE = 4.0
#: One open worker in so many is kept for those who fit nowhere, and at least one.
KEPT_IN = 4


def memory_left(
    policy: Best, view: RoutingView, moment: Moment, sent: I8, gone: int, request: float, usual_s: float
) -> F8:
    """float64[G], KV tokens that may be admitted on each worker; inf where only slots limit.

    Args:
        sent: int64[2], how many requests were admitted, and their KV tokens at that time.
        gone: requests that have left so far.
        request: mean KV tokens of those that run or wait.
        usual_s: usual wait, seconds; 0 or inf while unknown.
    """
    left = np.array(view.kv_free)
    running = int(view.running.sum())
    prompt = max(int(sent[1]) / int(sent[0]), 1.0) if sent[0] > 0 else request
    produced = max(0.0, in_order(view.load.tolist()) / running - prompt) if running > 0 else 0.0
    if gone < running or running == 0:
        share = gone / running if running > 0 else 0.0
        produced = max(produced, (1.0 - share) * (UNKNOWN * request))
    for g in range(left.size):
        if left[g] < np.inf:
            there = int(view.running[g] + view.queued[g])
            most = SPREAD * math.sqrt(there + max(0.0, float(left[g])) / request)
            risk = min(policy.headroom * (1.0 + produced / prompt), most)
            kept = max(risk * produced, (there + 1) * moment.growth[-1])
            one = min(float(left[g]), float(moment.size[0])) if there == 0 else 0.0
            left[g] = max(one, left[g] - kept)
    keep_for_patient(view, moment, left, usual_s)
    return left


def keep_for_patient(view: RoutingView, moment: Moment, left: F8, usual_s: float) -> None:
    """Nothing is admitted on a worker that gathers memory for a request that has waited long and fits nowhere.

    It is always the one with most memory left, so the next decision, which knows nothing of this one, keeps the same.
    """
    if not 0 < usual_s < math.inf:
        return
    opened = np.flatnonzero(view.free_slots > 0).tolist()
    keeps = max(len(opened) // KEPT_IN, 1)
    for size, waited in zip(moment.size.tolist(), view.waited_s[: moment.size.size].tolist(), strict=True):
        if keeps == 0 or not waited > PATIENCE * usual_s:
            return
        most = max(opened, key=lambda g: left[g])
        if size > left[most]:
            left[most] = 0.0
            keeps -= 1


def note_sent(sent: I8, moment: Moment, worker: I8, most: int) -> None:
    """Take note of what was admitted; halved beyond `most`, so that the latest count."""
    for size, to in zip(moment.size.tolist(), worker[: moment.size.size].tolist(), strict=True):
        if to >= 0:
            sent[0] += 1
            sent[1] += int(size)
    if sent[0] > most:
        sent //= 2
