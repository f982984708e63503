"""The plain door: a policy's own `route` is called at every decision of the compiled loop."""

from __future__ import annotations

from typing import Any, cast

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
from evenstep.sim.cluster_layout import BOUND, DECISION, DECISIONS, FIRST, MEAN_WAIT, NOW, WAITING
from evenstep.sim.cluster_state import State

_INT64 = np.dtype(np.int64)
_set = object.__setattr__


class _Thawed:
    """A view while it is filled in; it becomes a frozen `RoutingView` by changing its class (same slots)."""

    __slots__ = RoutingView.__slots__


class PlainDoor:
    """Builds the view, calls `route`, hands the answer to the loop, which checks it as it checks a kernel's."""

    def __init__(self, policy: Any, state: State, seed: int, name: str) -> None:
        if state.is_short:
            from evenstep.sim import short_loop_plain_kernel as plain_door_kernel
        else:
            from evenstep.sim import plain_door_kernel

        self.route, self.state, self.seed, self.name = policy.route, state, seed, name
        self.loop = compiled.entry(plain_door_kernel.advance)
        self.look_again()

    def look_again(self) -> None:
        """Take the windows anew: the state's buffers were replaced."""
        ints, floats = self.state.ints, self.state.floats
        workers_i, workers_f = ints.sealed(at.WORKERS_I), floats.sealed(at.WORKERS_F)
        waiting_i, waiting_f = ints.sealed(at.WAITING_I), floats.sealed(at.WAITING_F)
        self.ids, self.classes, self.keys = waiting_i[ID], waiting_i[CLASS], waiting_i[KEY]
        self.loads, self.since = waiting_f[WAITING_LOAD], waiting_f[SINCE_S]
        self.has_columns = self.state.columns.size > 0
        self.unclassed, self.unknown = np.zeros_like(self.ids), np.full(self.ids.size, np.nan)
        self.unclassed.flags.writeable = self.unknown.flags.writeable = False
        self.memory = ints.window(at.MEMORY)
        self.worker = ints.window(at.WORKER_OUT)
        self.sc, self.sf = ints.window(at.SCALARS_I), floats.window(at.SCALARS_F)
        self.now = self.sf[NOW : NOW + 1].reshape(())  # an array without axes: subtracts faster than a float
        self.instant, self.shown, self.answered = bool(self.sc[at.INSTANT]), -1, self.worker[:0]
        self.view = view = cast("Any", _Thawed())
        view.seed = self.seed
        view.group, view.queued, view.queued_load = (
            workers_i[GROUP],
            workers_i[QUEUED],
            workers_f[QUEUED_LOAD],
        )
        view.load, view.free_slots, view.running = (
            workers_f[LOAD],
            workers_i[FREE_SLOTS],
            workers_i[ON_WORKER],
        )
        view.kv_free, view.seconds_per_token = workers_f[KV_FREE], workers_f[SECONDS_PER_TOKEN]
        view.projections, view.growth = floats.sealed(at.PROJECTIONS), floats.sealed(at.GROWTH)
        view.cached_tokens, view.memory = self.state.cached, ints.sealed(at.MEMORY)

    def advance(self, arguments: tuple[Any, ...]) -> int:
        """Go on, decision by decision, until the host is needed for something else."""
        advance = self.loop
        status = advance(*arguments)
        while status == DECISION:
            self.decide()
            status = advance(*arguments)
        return status

    def decide(self) -> None:
        sc, sf = self.sc, self.sf
        first, waiting = sc.item(FIRST), 1 if self.instant else sc.item(WAITING)
        end = first + waiting
        view = self.view  # one object for all decisions: what it shows is valid until its policy has answered
        _set(view, "__class__", _Thawed)
        view.decision = sc.item(DECISIONS)
        view.now_s = sf.item(NOW)
        view.mean_wait_s = sf.item(MEAN_WAIT)
        view.waiting_id = ids = self.ids[first:end]
        view.waiting_load = self.loads[first:end]
        view.waited_s = self.now - self.since[first:end]
        if self.has_columns:
            view.waiting_class, view.waiting_key = self.classes[first:end], self.keys[first:end]
            view.waiting_steps = self.unknown[:waiting]
        else:
            view.waiting_key = ids
            if waiting != self.shown:
                view.waiting_class, view.waiting_steps = self.unclassed[:waiting], self.unknown[:waiting]
        if waiting != self.shown:
            self.answered, self.shown = self.worker[:waiting], waiting
        view.__class__ = RoutingView
        try:
            decision: RoutingDecision = self.route(view)
            worker, memory = decision.worker, decision.memory
            if worker.shape != (waiting,) or (worker.dtype is not _INT64 and worker.dtype != _INT64):
                raise PolicyError(
                    f"policy {self.name} broke its contract at decision {view.decision}: worker has shape {worker.shape}"
                    f" and dtype {worker.dtype}; expected ({waiting},) and int64, one entry a waiting request"
                )
            self.answered[...] = worker
            if memory is not None and memory.size:
                self.memory[:] = memory
            sf[BOUND] = decision.bound
        except EvenstepError:
            raise
        except Exception as error:
            raise PolicyError(
                f"policy {self.name} raised {type(error).__name__} at decision {view.decision}: {error}"
            ) from error
