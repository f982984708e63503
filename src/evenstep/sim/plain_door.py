"""The plain door: a policy's own `route` is called at every decision of the compiled loop."""

from __future__ import annotations

from typing import Any

import numpy as np

from evenstep import compiled
from evenstep.errors import EvenstepError, PolicyError
from evenstep.routing.view import (
    CLASS,
    FREE_SLOTS,
    GROUP,
    ID,
    KEY,
    KV_FREE,
    LOAD,
    QUEUED,
    QUEUED_LOAD,
    SECONDS_PER_TOKEN,
    SINCE_S,
    WAITING_LOAD,
    RoutingDecision,
    RoutingView,
)
from evenstep.routing.view import RUNNING as ON_WORKER
from evenstep.sim import cluster_layout as at
from evenstep.sim.cluster_state import State

_INT64 = np.dtype(np.int64)


class _Thawed:
    """A view while it is filled in; it becomes a frozen `RoutingView` by changing its class (same slots)."""

    __slots__ = RoutingView.__slots__


class PlainDoor:
    """Builds the view, calls `route`, hands the answer to the loop, which checks it as it checks a kernel's."""

    def __init__(self, policy: Any, state: State, seed: int, name: str) -> None:
        from evenstep.sim import plain_door_kernel

        self.route, self.state, self.seed, self.name = policy.route, state, seed, name
        self.loop = compiled.entry(plain_door_kernel.advance)
        self.look_again()

    def look_again(self) -> None:
        """Take the windows anew: the state's buffers were replaced."""
        ints, floats = self.state.ints, self.state.floats
        workers_i, workers_f = ints.sealed(at.WORKERS_I), floats.sealed(at.WORKERS_F)
        self.group, self.queued = workers_i[GROUP], workers_i[QUEUED]
        self.free_slots, self.running = workers_i[FREE_SLOTS], workers_i[ON_WORKER]
        self.load, self.queued_load = workers_f[LOAD], workers_f[QUEUED_LOAD]
        self.kv_free, self.seconds_per_token = workers_f[KV_FREE], workers_f[SECONDS_PER_TOKEN]
        waiting_i, waiting_f = ints.sealed(at.WAITING_I), floats.sealed(at.WAITING_F)
        self.ids, self.classes, self.keys = waiting_i[ID], waiting_i[CLASS], waiting_i[KEY]
        self.loads, self.since = waiting_f[WAITING_LOAD], waiting_f[SINCE_S]
        self.has_columns = self.state.columns.size > 0
        self.unclassed, self.unknown = np.zeros_like(self.ids), np.full(self.ids.size, np.nan)
        self.unclassed.flags.writeable = self.unknown.flags.writeable = False
        self.projections, self.growth = floats.sealed(at.PROJECTIONS), floats.sealed(at.GROWTH)
        self.memory, self.sealed_memory = ints.window(at.MEMORY), ints.sealed(at.MEMORY)
        self.cached = self.state.cached
        self.worker = ints.window(at.WORKER_OUT)
        self.sc, self.sf = ints.window(at.SCALARS_I), floats.window(at.SCALARS_F)

    def advance(self, arguments: tuple[Any, ...]) -> int:
        """Go on, decision by decision, until the host is needed for something else."""
        advance = self.loop
        status = advance(*arguments)
        while status == at.DECISION:
            self.decide()
            status = advance(*arguments)
        return status

    def decide(self) -> None:
        sc, sf = self.sc, self.sf
        first = sc.item(at.FIRST)
        end = first + (1 if sc.item(at.INSTANT) else sc.item(at.WAITING))
        view: Any = _Thawed()
        view.decision, view.seed = sc.item(at.DECISIONS), self.seed
        view.now_s = now_s = sf.item(at.NOW)
        view.mean_wait_s = sf.item(at.MEAN_WAIT)
        view.group, view.queued, view.queued_load = self.group, self.queued, self.queued_load
        view.load, view.free_slots, view.running = self.load, self.free_slots, self.running
        view.kv_free, view.seconds_per_token = self.kv_free, self.seconds_per_token
        view.waiting_id = ids = self.ids[first:end]
        view.waiting_load = self.loads[first:end]
        view.waited_s = now_s - self.since[first:end]
        if self.has_columns:
            view.waiting_class, view.waiting_key = self.classes[first:end], self.keys[first:end]
        else:
            view.waiting_class, view.waiting_key = self.unclassed[: end - first], ids
        view.waiting_steps = self.unknown[: end - first]
        view.projections, view.growth = self.projections, self.growth
        view.cached_tokens, view.memory = self.cached, self.sealed_memory
        view.__class__ = RoutingView
        try:
            decision: RoutingDecision = self.route(view)
            worker, memory = decision.worker, decision.memory
            if worker.shape != (end - first,) or (worker.dtype is not _INT64 and worker.dtype != _INT64):
                raise PolicyError(
                    f"policy {self.name} broke its contract at decision {view.decision}: worker has shape {worker.shape}"
                    f" and dtype {worker.dtype}; expected ({end - first},) and int64, one entry a waiting request"
                )
            self.worker[: end - first] = worker
            if memory is not None and memory.size:
                self.memory[:] = memory
            sf[at.BOUND] = decision.bound
        except EvenstepError:
            raise
        except Exception as error:
            raise PolicyError(
                f"policy {self.name} raised {type(error).__name__} at decision {view.decision}: {error}"
            ) from error
