"""The input and the answer of a routing policy.

The plain door is `RoutingPolicy.route`: a `RoutingView` in, a `RoutingDecision` out. The compiled door is a function
``route_into``, which `routing.rules` generates for a rule::

    route_into(decision, seed, now_s, mean_wait_s, first, waiting,
               workers_i, workers_f, waiting_i, waiting_f,
               projections, growth, cached, memory, parameters,
               scratch_i, scratch_f, worker) -> bound

Arguments that are not listed here are as in `RoutingView`:

* `first`, `waiting`: column of the oldest waiting request in `waiting_i` and `waiting_f`, and the number W of requests.
  Request i, oldest first, is in column first + i.
* `workers_i`: int64[4, G], rows `GROUP`, `QUEUED`, `FREE_SLOTS`, `RUNNING`.
* `workers_f`: float64[4, G], rows `LOAD`, `QUEUED_LOAD`, `KV_FREE`, `SECONDS_PER_TOKEN`.
* `waiting_i`: int64[3, *], rows `ID`, `CLASS`, `KEY`.
* `waiting_f`: float64[3, *], rows `WAITING_LOAD`, `SINCE_S` (``now_s - waited_s``), `STEPS`.
* `cached`: `cached_tokens`.
* `memory`: int64[M], the policy's memory, changed in place.
* `parameters`: float64[P], the policy's fields (`compiled.parameters`).
* `scratch_i`, `scratch_f`: int64[*] and float64[*], working space of the sizes that the rule's ``room`` returns.
* `worker`: int64[>= W], the answer for request i at i; all `HOLD` on entry, write only what is admitted.

A rule writes `memory`, scratch and `worker`, and changes no other array: these are the host's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from evenstep.errors import InputError
from evenstep.request import F8, I8
from evenstep.wording import counted, of_other_class

#: Answer for a request that stays in the pool.
HOLD = -1
#: Steps ahead at which expected loads are computed exactly. They are smooth, so the steps between are interpolated.
EXPECTED_AT = (0, 1, 2, 4, 8, 14, 22, 34, 50, 72, 104, 148, 210)

# Rows of workers_i, workers_f, waiting_i and waiting_f.
GROUP, QUEUED, FREE_SLOTS, RUNNING = 0, 1, 2, 3
LOAD, QUEUED_LOAD, KV_FREE, SECONDS_PER_TOKEN = 0, 1, 2, 3
ID, CLASS, KEY = 0, 1, 2
WAITING_LOAD, SINCE_S, STEPS = 0, 1, 2


@dataclass(frozen=True, slots=True, eq=False)
class RoutingView:
    """The state of the cluster at one decision: G workers and W waiting requests, oldest first.

    A policy must not write to the arrays. A host may reuse them at its next decision: copy what you keep.

    Args:
        decision: running number of this decision.
        seed: key of every random draw.
        now_s: the host's time, seconds.
        mean_wait_s: mean wait of the requests admitted so far, seconds; 0 before the first, and between an engine's ranks.
        group: int64[G], barrier group of each worker, 0..G-1; envelope, margin and imbalance are per group.
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
        waiting_key: int64[W], session, else prompt key, else request id; a policy cannot tell which of them it is.
        waiting_steps: float64[W], expected output tokens, where a client of a live dispatcher states them; nan where
            unknown, which is the normal case, and always in a simulation.
        projections: float64[G, H+1], load of the running requests h steps ahead; column 0 is `load`. Expected loads are
            exact at the steps `EXPECTED_AT` and at H, and interpolated linearly between. May have shape [G, 0] for a policy
            without horizon.
        growth: float64[H+1], KV tokens a newcomer has gained after h steps; nan when profiles differ by request.
        cached_tokens: float64[W, G], prompt tokens of a request cached on a worker; shape [0, 0] where unknown.
        memory: int64[M], the policy's memory as its last decision left it; zeros at first, and after a live fleet changes.
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
    """The answer of a routing policy: the worker of each waiting request.

    Args:
        worker: int64[W], in the order of the view's requests: a worker's index, or `HOLD` (-1) to keep the request waiting.
        memory: int64[M], the next view's `memory`; None = the memory stays unchanged.
        bound: a certified lower bound on the policy's objective, in its unit; nan = no bound.
    """

    worker: I8
    memory: I8 | None = None
    bound: float = float("nan")


@runtime_checkable
class RoutingPolicy(Protocol):
    """A frozen dataclass whose fields are its parameters. `route` depends on these and the view alone, and changes neither.

    The attributes `horizon`, `expects_loads`, `memory_size`, `reads_cached`, `needs_steps` and `plain_only` are optional.
    The functions of the same or a similar name say what each means, and return its value.
    """

    def route(self, view: RoutingView) -> RoutingDecision:
        """Choose the worker of each waiting request, or `HOLD`.

        A worker gets at most `free_slots` requests and at most `kv_free` tokens of `waiting_load` (see `broken_rule`).
        """
        ...


def horizon_of(policy: object) -> int:
    """Value of a policy's `horizon`: decode steps it looks ahead, for which the host needs a predictor; default 0."""
    return int(getattr(policy, "horizon", 0))


def expects_loads(policy: object) -> bool:
    """Value of a policy's `expects_loads`, default False. If True, its projections are expected loads.

    An expected load weights each request with its probability of still running. If the value is False, or the predictor has
    no survival curve, a request counts in full until the step at which it is expected to leave (BalanceRoute App. C).
    """
    return bool(getattr(policy, "expects_loads", False))


def memory_size_of(policy: object) -> int:
    """Value of a policy's `memory_size`: the number M of int64 words in `RoutingView.memory`; default 0."""
    return int(getattr(policy, "memory_size", 0))


def reads_cached(policy: object) -> bool:
    """Value of a policy's `reads_cached`, default False. If False, a host may leave `cached_tokens` at shape [0, 0]."""
    return bool(getattr(policy, "reads_cached", False))


def needs_steps(policy: object) -> bool:
    """Value of a policy's `needs_steps`, default False. If True, it uses `waiting_steps`, which no simulation provides."""
    return bool(getattr(policy, "needs_steps", False))


def plain_only(policy: object) -> bool:
    """Value of a policy's `plain_only`, default False. If True, simulations call its `route`, not its compiled rule."""
    return bool(getattr(policy, "plain_only", False))


def check_simulated(policy: object, where: str) -> None:
    """Check that a simulation can run a policy; `where` is the policy's name in errors.

    Raises an `InputError` if the policy needs the expected output tokens of waiting requests, which no simulation provides.
    """
    if needs_steps(policy):
        expected = "prompt, since no simulation shows the expected output tokens of waiting requests"
        raise InputError(where, "length", "predicted", expected, "Only clients of a live dispatcher can name them.")


def broken_rule(view: RoutingView, decision: RoutingDecision) -> str:
    """Describe the first rule of a policy's contract that a decision breaks; empty if it breaks no rule.

    Checked in this order: its class, that both are arrays, shape and dtype of `worker`, known workers, free slots, free KV
    tokens, shape of `memory`, and that it is int64. With no request waiting nothing after the dtype of `worker` is checked.
    Hosts call it on answers of `route`, unless their loop checks the same rules.
    """
    if other := of_other_class("route", decision, RoutingDecision):
        return other
    worker = decision.worker
    waiting, workers = view.waiting_id.size, view.load.size
    memory = view.memory if decision.memory is None else decision.memory
    for name, found in (("worker", worker), ("memory", memory)):
        if not isinstance(found, np.ndarray):  # pyright: ignore[reportUnnecessaryIsInstance] - a guest may differ
            return f"{name} is a {type(found).__name__}; expected an array of int64"
    if worker.shape != (waiting,):
        return f"worker has shape {worker.shape}; expected ({waiting},), one entry a waiting request"
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
        free = counted(view.free_slots[g], "free slot")
        return f"over capacity: worker {g} is sent {counted(count[g], 'request')} and has {free}"
    tokens = np.bincount(sent, weights=view.waiting_load[worker != HOLD], minlength=workers)
    if np.any(tokens > view.kv_free):
        g = int(np.argmax(tokens > view.kv_free))
        return f"over capacity: worker {g} is sent {tokens[g]:g} KV tokens and has {view.kv_free[g]:g} free"
    if memory.shape != view.memory.shape:
        return f"memory has shape {memory.shape}; expected {view.memory.shape}"
    return f"memory has dtype {memory.dtype}; expected int64" if memory.size and memory.dtype != np.int64 else ""
