# pyright: basic
"""What is kept free where KV memory limits the slots, compiled: twin of `best_memory`, equal in bits."""

from __future__ import annotations

import math

import numpy as np

from evenstep.compiled import borrowing
from evenstep.routing.best_memory import KEPT_IN, PATIENCE, SPREAD, UNKNOWN
from evenstep.routing.bf_io_plan_kernel import GROWTH, KV, PLACE
from evenstep.routing.view import KV_FREE, QUEUED, RUNNING, SINCE_S, WAITING_LOAD


@borrowing
def set_memory(
    headroom, running, load, gone, request, usual_s, now_s, first, considered,
    sent, workers_i, workers_f, waiting_f, steps, places, tokens,
):  # fmt: skip
    """Set KV of the open workers: what may be admitted. `steps` are all steps ahead; else as in the twin."""
    prompt = max(sent[1] / sent[0], 1.0) if sent[0] > 0 else request
    produced = max(0.0, load / running - prompt) if running > 0 else 0.0
    if gone < running or running == 0:
        share = gone / running if running > 0 else 0.0
        produced = max(produced, (1.0 - share) * (UNKNOWN * request))
    for o in range(places.shape[1]):
        g = places[PLACE, o]
        free = workers_f[KV_FREE, g]
        if free < np.inf:
            there = workers_i[RUNNING, g] + workers_i[QUEUED, g]
            most = SPREAD * math.sqrt(there + max(0.0, free) / request)
            risk = min(headroom * (1.0 + produced / prompt), most)
            kept = max(risk * produced, (there + 1) * steps[GROWTH, steps.shape[1] - 1])
            one = min(free, waiting_f[WAITING_LOAD, first]) if there == 0 else 0.0
            tokens[KV, o] = max(one, free - kept)
    if not 0.0 < usual_s < np.inf:
        return
    keeps = max(places.shape[1] // KEPT_IN, 1)
    for i in range(first, first + considered):
        if keeps == 0 or not now_s - waiting_f[SINCE_S, i] > PATIENCE * usual_s:
            return
        most = 0
        for o in range(1, places.shape[1]):
            if tokens[KV, o] > tokens[KV, most]:
                most = o
        if waiting_f[WAITING_LOAD, i] > tokens[KV, most]:
            tokens[KV, most] = 0.0
            keeps -= 1


@borrowing
def note_sent(first, considered, waiting_f, worker, most, sent):
    """Take note of what was admitted; halved beyond `most`."""
    for i in range(considered):
        if worker[i] >= 0:
            sent[0] += 1
            sent[1] += np.int64(waiting_f[WAITING_LOAD, first + i])
    if sent[0] > most:
        sent[0] //= 2
        sent[1] //= 2
