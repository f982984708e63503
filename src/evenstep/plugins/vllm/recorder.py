"""Observes a vLLM engine core: the content and duration of each step.

Only this file depends on vLLM's internals, which are not public. So it accepts only the versions it was tried with.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Any

from evenstep.errors import EngineError
from evenstep.plugins.vllm.settings import Recording, rank_of
from evenstep.plugins.vllm.step_file import StepFile

#: Versions whose engine core is as described here.
KNOWN = ("0.32",)
_LOOPS = ("EngineCoreProc", "DPEngineCoreProc")


def install(asked: Recording) -> None:
    """Make every engine core of this process record its steps once its loop begins; a second call changes nothing.

    Raises EngineError for a version of vLLM that is not in `KNOWN`.
    """
    found = str(import_module("vllm").__version__)
    if re.match(r"\d+\.\d+", found) is None or ".".join(found.split(".")[:2]) not in KNOWN:
        known = ", ".join(f"{version}.x" for version in KNOWN)
        raise EngineError(
            f"vllm: version is {found!r}; expected {known}. Unset EVENSTEP_STEPS_FOLDER to run without step records."
        )
    core = import_module("vllm.v1.engine.core")
    for name in _LOOPS:
        loop = getattr(core, name)
        if not hasattr(loop.run_busy_loop, "recorded_by_evenstep"):
            loop.run_busy_loop = _watched(loop.run_busy_loop, asked)


def _watched(run: Callable[[Any], None], asked: Recording) -> Callable[[Any], None]:
    """Wrap an engine core's busy loop `run`: when it starts, the core's steps are recorded in the file of its rank."""

    @wraps(run)
    def run_busy_loop(core: Any) -> None:
        parallel = core.vllm_config.parallel_config
        is_parallel = parallel.data_parallel_size > 1
        rank = rank_of(asked, int(parallel.data_parallel_index), is_parallel, os.getpid())
        attach(core, StepFile(asked.folder, rank))
        run(core)

    run_busy_loop.recorded_by_evenstep = True  # type: ignore[attr-defined]
    return run_busy_loop


def attach(core: Any, file: StepFile, clock: Callable[[], float] = time.perf_counter) -> None:
    """Record the steps of this engine core from now on.

    A step begins when the scheduler is asked for it, or when the tokens of the step before are known, whichever is later. It
    ends when its own tokens are known. A dummy batch, which a rank runs while only others have work, is a step without
    requests. A schedule without tokens is no step.

    Args:
        core: vLLM's engine core; methods of it and of its scheduler are wrapped.
        file: where the steps go; a step is written when it ends.
        clock: seconds; only differences count.
    """
    scheduler = core.scheduler
    schedule, update, step_along = scheduler.schedule, scheduler.update_from_output, core.execute_dummy_batch
    unix_s = time.time() - clock()
    begun: dict[int, tuple[float, int, int, int, int]] = {}
    own_steps, last_end_s = 0, 0.0

    def place() -> tuple[int, int]:
        nonlocal own_steps
        if hasattr(core, "step_counter"):  # ranks in lock-step count together
            return core.current_wave, core.step_counter
        own_steps += 1
        return 0, own_steps - 1

    def ended(start_s: float, wave: int, step: int, running: int, kv_tokens: int, produced: int) -> None:
        nonlocal last_end_s
        end_s = clock()
        start_s = max(start_s, last_end_s)
        last_end_s = end_s
        file.add(wave, step, unix_s + start_s, end_s - start_s, running, kv_tokens, produced)

    def recorded_schedule(*args: Any, **kwargs: Any) -> Any:
        start_s = clock()
        output = schedule(*args, **kwargs)
        if output.total_num_scheduled_tokens:
            running = scheduler.running
            kv_tokens = sum(request.num_computed_tokens for request in running)
            begun[id(output)] = (start_s, *place(), len(running), kv_tokens)
        return output

    def recorded_update(output: Any, *args: Any, **kwargs: Any) -> Any:
        told = update(output, *args, **kwargs)
        if (step := begun.pop(id(output), None)) is not None:
            produced = sum(len(one.new_token_ids) for client in told.values() for one in client.outputs)
            ended(*step, produced)
        return told

    def recorded_step_along(*args: Any, **kwargs: Any) -> Any:
        start_s, where = clock(), place()
        done = step_along(*args, **kwargs)
        ended(start_s, *where, 0, 0, 0)
        return done

    scheduler.schedule, scheduler.update_from_output = recorded_schedule, recorded_update
    core.execute_dummy_batch = recorded_step_along
