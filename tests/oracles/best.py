"""The policy `best` in plain words: from the moment of a decision, by the search of BF-IO, to the answer."""

from __future__ import annotations

import numpy as np
from tests.oracles.best_memory import PACKED, is_bound
from tests.oracles.best_moment import OWED, has_no_barrier, moment_of, tries
from tests.oracles.best_shares import pay
from tests.oracles.bf_io import decide

from evenstep.routing.policies.best import Best
from evenstep.routing.view import HOLD, RoutingDecision, RoutingView


def route(policy: Best, view: RoutingView) -> RoutingDecision:
    """What the rule of `best` decides, equal in bits."""
    moment, memory = moment_of(policy, view)
    if moment.count == 0:
        return RoutingDecision(np.full(moment.waiting, HOLD, np.int64), memory)
    is_alone, moves = has_no_barrier(moment), tries(policy.moves, moment.count)
    if is_alone or is_bound(moment):
        worker = decide(moment, 0, moves, 1, 1 if is_alone else PACKED)
    else:
        worker = decide(moment, policy.starts, moves, 1)
    pay(policy.class_weights, view, moment, worker, memory[OWED:])
    return RoutingDecision(worker, memory)
