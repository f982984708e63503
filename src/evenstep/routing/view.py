"""The input and the answer of a routing policy.

The plain door is `RoutingPolicy.route`: a `RoutingView` in, a `RoutingDecision` out. The compiled door is a function
``route_into``, which `routing.rules` generates for a rule::

    route_into(decision, seed, now_s, mean_wait_s, first, waiting,
               workers_i, workers_f, waiting_i, waiting_f,
               projections, growth, cached, memory, parameters,
               scratch_i, scratch_f, worker) -> bound

=============  ==============  ===========================================================================
argument       type            meaning
=============  ==============  ===========================================================================
decision       int64           running number of this decision
seed           int64           key of every random draw (`draws.uniform`)
now_s          float64         the host's time
mean_wait_s    float64         mean wait of the requests admitted so far, 0 before the first
first          int64           column of the oldest waiting request in `waiting_i` and `waiting_f`
waiting        int64           number of waiting requests W; they are columns first .. first + W - 1, oldest first
workers_i      int64[4, G]     rows `GROUP`, `QUEUED`, `FREE_SLOTS`, `RUNNING`
workers_f      float64[4, G]   rows `LOAD`, `QUEUED_LOAD`, `KV_FREE`, `SECONDS_PER_TOKEN`
waiting_i      int64[3, *]     rows `ID`, `CLASS`, `KEY`; request i stands at column first + i
waiting_f      float64[3, *]   rows `WAITING_LOAD`, `SINCE_S` (waited_s = now_s - since), `STEPS`; likewise
projections    float64[G, H+1] projected load of each worker; shape [G, 0] for a policy without horizon
growth         float64[H+1]    KV tokens a newcomer has gained after h steps
cached         float64[W, G]   prompt tokens cached there; shape [0, 0] where unknown
memory         int64[M]        what the policy keeps; changed in place
parameters     float64[P]      the policy's fields (`compiled.parameters`)
scratch_i      int64[*]        working space, as much as the rule's ``room`` asks for
scratch_f      float64[*]      working space
worker         int64[>= W]     the answer for column first + i at i; all `HOLD` on entry, write only what is admitted
=============  ==============  ===========================================================================

All input arrays are the host's own: a rule writes `memory`, scratch and `worker`, nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from evenstep.errors import InputError
from evenstep.request import F8, I8

#: Answer for a request that stays in the pool.
HOLD = -1
#: Steps ahead at which expected loads are added up; they are smooth, so lines between these do.
EXPECTED_AT = (0, 1, 2, 4, 8, 14, 22, 34, 50, 72, 104, 148, 210)

# Rows of workers_i, workers_f, waiting_i and waiting_f.
GROUP, QUEUED, FREE_SLOTS, RUNNING = 0, 1, 2, 3
LOAD, QUEUED_LOAD, KV_FREE, SECONDS_PER_TOKEN = 0, 1, 2, 3
ID, CLASS, KEY = 0, 1, 2
WAITING_LOAD, SINCE_S, STEPS = 0, 1, 2


@dataclass(frozen=True, slots=True, eq=False)
class RoutingView:
    """One moment of the cluster: G workers and W waiting requests, oldest first. Arrays are read-only.

    A host may reuse the arrays at its next decision: copy what you keep.

    Args:
        decision: running number of this decision.
        seed: key of every random draw.
        now_s: the host's time, seconds; an observation, not a clock.
        mean_wait_s: mean wait of the requests admitted so far, seconds; 0 before the first.
        group: int64[G], barrier group of each worker; envelope, margin and imbalance are per group.
        queued: int64[G], requests sent to the worker, not yet decoding.
        queued_load: float64[G], KV tokens of the queued requests; not part of `load`.
        load: float64[G], resident KV tokens of running requests.
        free_slots: int64[G], requests the worker may still be sent; queued ones hold a slot already.
        running: int64[G], requests decoding.
        kv_free: float64[G], KV tokens that may still be admitted; inf where only slots limit.
        seconds_per_token: float64[G], step seconds a KV token costs; equal on a homogeneous fleet.
        waiting_id: int64[W], request ids.
        waiting_load: float64[W], KV tokens at admission.
        waited_s: float64[W], seconds since the request became visible.
        waiting_class: int64[W], class or tenant.
        waiting_key: int64[W], session, else prompt key, else request id.
        waiting_steps: float64[W], expected output tokens, as clients of a live dispatcher name them; nan where unknown,
            which is the normal case, and always so in a simulation.
        projections: float64[G, H+1], load of the running requests h steps ahead; column 0 is `load`. Expected loads are
            exact at the steps `EXPECTED_AT` and at H; at the others they lie on the line between. May have shape [G, 0]
            for a policy without horizon.
        growth: float64[H+1], KV tokens a newcomer has gained after h steps; nan when profiles differ by request.
        cached_tokens: float64[W, G], prompt tokens of a request cached on a worker; shape [0, 0] where unknown.
        memory: int64[M], what the policy answered as `memory` at its last decision; zeros at first.
    """

    decision: int
    seed: int
    now_s: float
    mean_wait_s: float
    group: I8
    queued: I8
    queued_load: F8
    load: F8
    free_slots: I8
    running: I8
    kv_free: F8
    seconds_per_token: F8
    waiting_id: I8
    waiting_load: F8
    waited_s: F8
    waiting_class: I8
    waiting_key: I8
    waiting_steps: F8
    projections: F8
    growth: F8
    cached_tokens: F8
    memory: I8


@dataclass(frozen=True, slots=True, eq=False)
class RoutingDecision:
    """The worker of each waiting request.

    Args:
        worker: int64[W], in the order of the view's requests: a worker's index, or `HOLD` (-1) to keep the request waiting.
        memory: int64[M], shown as the next view's `memory`; None = the memory stays as it is.
        bound: a certified lower bound on the policy's objective, in its unit; nan = no bound.
    """

    worker: I8
    memory: I8 | None = None
    bound: float = float("nan")


@runtime_checkable
class RoutingPolicy(Protocol):
    """A frozen dataclass whose fields are its parameters. `route` depends on the view alone, and does not change it.

    The attributes `horizon`, `expects_loads`, `memory_size`, `reads_cached`, `needs_steps` and `plain_only` are optional.
    """

    def route(self, view: RoutingView) -> RoutingDecision:
        """Choose the worker of each waiting request, or `HOLD`.

        A worker gets at most `free_slots` requests and at most `kv_free` tokens of `waiting_load` (see `broken_rule`).
        """
        ...


def horizon_of(policy: object) -> int:
    """A policy's `horizon`: decode steps it looks ahead, for which the host needs a predictor; 0 if it looks at none."""
    return int(getattr(policy, "horizon", 0))


def expects_loads(policy: object) -> bool:
    """A policy's `expects_loads`, False if it has none: whether its projections are expected loads.

    An expected load weights each request with its probability of still running. Otherwise, and with a predictor that has
    no survival curve, a request counts in full until the step it is expected to leave at (BalanceRoute App. C).
    """
    return bool(getattr(policy, "expects_loads", False))


def memory_size_of(policy: object) -> int:
    """A policy's `memory_size`: M, the int64 words of `RoutingView.memory`; 0 if it keeps nothing."""
    return int(getattr(policy, "memory_size", 0))


def reads_cached(policy: object) -> bool:
    """A policy's `reads_cached`, False if it has none: whether it looks at `cached_tokens`.

    A host that tracks caches fills these only then; other policies may see shape [0, 0].
    """
    return bool(getattr(policy, "reads_cached", False))


def needs_steps(policy: object) -> bool:
    """A policy's `needs_steps`, False if it has none: whether it goes by `waiting_steps`, which no simulation shows."""
    return bool(getattr(policy, "needs_steps", False))


def plain_only(policy: object) -> bool:
    """A policy's `plain_only`, False if it has none: whether a simulation calls its `route`, not its compiled rule."""
    return bool(getattr(policy, "plain_only", False))


def check_simulated(policy: object, where: str) -> None:
    """Check that a simulation shows all that a policy goes by; `where` is what the error calls the policy.

    Raises:
        InputError: the policy needs the expected output tokens of waiting requests.
    """
    if needs_steps(policy):
        expected = "prompt, since no simulation shows the expected output tokens of waiting requests"
        raise InputError(where, "length", "predicted", expected, "Only clients of a live dispatcher can name them.")


def broken_rule(view: RoutingView, decision: RoutingDecision) -> str:
    """A sentence on the first rule of the contract that the decision breaks; empty if it breaks none.

    In this order: shape and dtype of `worker`, known workers, free slots, free KV tokens, shape of `memory`. With no request
    waiting only the first two are checked. A host calls it on answers through the plain door, unless its loop checks the
    same rules itself.
    """
    worker = decision.worker
    waiting, workers = view.waiting_id.size, view.load.size
    is_array = isinstance(worker, np.ndarray)  # pyright: ignore[reportUnnecessaryIsInstance] - a guest may differ
    if not is_array or worker.shape != (waiting,):
        return f"worker has shape {np.shape(worker)}; expected ({waiting},), one entry a waiting request"
    if worker.dtype != np.int64:
        return f"worker has dtype {worker.dtype}; expected int64"
    if waiting == 0:
        return ""
    if worker.min() < HOLD or worker.max() >= workers:
        wrong = int(worker[(worker < HOLD) | (worker >= workers)][0])
        return f"unknown worker {wrong}; expected {HOLD} (hold) or 0..{workers - 1}"
    sent = worker[worker != HOLD]
    count = np.bincount(sent, minlength=workers)
    if np.any(count > view.free_slots):
        g = int(np.argmax(count > view.free_slots))
        return f"over capacity: worker {g} is sent {count[g]} requests and has {view.free_slots[g]} free slots"
    tokens = np.bincount(sent, weights=view.waiting_load[worker != HOLD], minlength=workers)
    if np.any(tokens > view.kv_free):
        g = int(np.argmax(tokens > view.kv_free))
        return f"over capacity: worker {g} is sent {tokens[g]:g} KV tokens and has {view.kv_free[g]:g} free"
    if decision.memory is not None and decision.memory.shape != view.memory.shape:
        return f"memory has shape {decision.memory.shape}; expected {view.memory.shape}"
    return ""
