"""Thresholds of WAIT and Nested WAIT for a trace and an engine, each with the inequality it satisfies."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenstep.cost.affine_kv import AffineKv
from evenstep.cost.batch import BatchTime
from evenstep.errors import InputError
from evenstep.experiments.compare.engine_compare import traces_of
from evenstep.experiments.compare.engine_settings import EngineSettings
from evenstep.names import options
from evenstep.request import Trace
from evenstep.sim.engine.simulation import Engine
from evenstep.theory import segments, wait_thresholds
from evenstep.theory.fluid import Types, equilibrium
from evenstep.workload.replicate import rate, scaled_to_rate

_WHERE = "evenstep thresholds"
#: The flag of each input of the theory, by the field of its errors.
_FLAGS = {
    "segments": "--segments",
    "kv_tokens": "--engine kv-tokens",
    "d0_s": "--batch-time d0-s",
    "d1_s": "--batch-time d1-s",
}
#: Fields of errors that say that the engine is too slow or too small.
_OF_ENGINE = ("load", "kv_tokens")
#: Most types of outputs; with more output lengths, neighbours share a type.
MOST_TYPES = 500
#: Numbers of segments that are tried.
COUNTS = (*range(1, 31), 50, 100, 200, 500)


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """The conditions of thresholds; `InputError` for a number out of range, another law, or a trace without a rate."""

    trace: Trace  # the requests, with arrival times
    engine: Engine  # only its KV tokens count; 0 = unlimited memory
    law: BatchTime  # seconds of an iteration, affine in the KV tokens: `AffineKv`
    segments: int | None = None  # L of Nested WAIT; None = the number in `COUNTS` that needs the least memory
    iterations: float = 1e6  # S, iterations that the memory of Nested WAIT must suffice for; >= 1
    delta: float = 0.01  # probability, in (0, 1), that this memory does not suffice

    def __post_init__(self) -> None:
        if not isinstance(self.law, AffineKv):
            name = type(self.law).__name__
            raise InputError(_WHERE, "--batch-time", name, "affine-kv, the law of WAIT's eq. 1")
        if not (math.isfinite(self.iterations) and self.iterations >= 1):
            raise InputError(_WHERE, "--iterations", self.iterations, "a finite number >= 1")
        if not 0 < self.delta < 1:
            raise InputError(_WHERE, "--delta", self.delta, "a probability above 0, below 1")
        if not rate(self.trace) > 0:
            raise InputError(self.trace.name or "trace", "arrivals", "no rate", "several arrival times")

    @property
    def kv_tokens(self) -> float | None:
        """KV tokens of memory; None = unlimited."""
        return float(self.engine.kv_tokens) or None

    def types(self, kind: Any, prompts: bool) -> Types:
        """Request types, one for each value in `kind` (int64[N], by request), ascending, at its share of the trace's rate.

        With `prompts` each type has its own mean prompt and mean output. Otherwise all types share the trace's mean prompt,
        and each has the longest output of its requests.
        """
        assert isinstance(self.law, AffineKv)
        trace, (_, which, counts) = self.trace, np.unique(kind, return_inverse=True, return_counts=True)
        rates = counts * (rate(trace) / len(trace))
        if prompts:
            prompt, output = (np.bincount(which, own) / counts for own in (trace.prompt_tokens, trace.output_tokens))
        else:
            prompt, output = np.full(counts.size, trace.prompt_tokens.mean()), np.zeros(counts.size)
            np.maximum.at(output, which, trace.output_tokens)
        return Types(rates.tolist(), prompt.tolist(), output.tolist(), self.law.d0_s, self.law.d1_s)


def answer(asked: Question) -> dict[str, Any]:
    """Thresholds, memory and latency of WAIT and Nested WAIT, for a table or as JSON.

    WAIT's types are the trace's classes, of mean lengths; Nested WAIT's are its output lengths (`MOST_TYPES`), of one mean
    prompt.

    Returns:
        ``version``, ``trace``, ``requests_per_s``, ``wait`` and ``nested_wait``. The last two hold KV tokens, seconds, and
            under ``gates`` each threshold (requests) with the inequality it satisfies. If Nested WAIT has no thresholds and
            no `segments` were asked for, ``nested_wait`` holds only ``not_solved``, the reason.

    Raises:
        InputError: an engine that does not keep up, or too little memory, for WAIT, or for Nested WAIT with `segments`.
    """
    trace = asked.trace
    classes = trace.request_class if trace.request_class is not None else np.zeros(len(trace), np.int64)
    try:
        wait = _wait(asked, asked.types(classes, prompts=True), np.unique(classes).tolist())
    except InputError as error:
        raise _of_flag(error) from None
    try:
        nested = _nested(asked)
    except InputError as error:
        if error.field not in _OF_ENGINE or asked.segments is not None:  # segments ask for Nested WAIT
            raise _of_flag(error) from None
        nested = {"not_solved": str(_of_flag(error))}
    return {"version": 1, "trace": trace.name, "requests_per_s": rate(trace), "wait": wait, "nested_wait": nested}


def _of_flag(error: InputError) -> InputError:
    """A copy of the error that names the command's flag, if it has one, as the field."""
    return InputError(_WHERE, _FLAGS.get(error.field, error.field), error.value, error.expected, error.hint)


def read(settings: EngineSettings) -> Trace:
    """The requests of replicate 0 that settings ask for, with times scaled to exactly `rate` if it is given.

    Arrivals drawn at a rate would otherwise differ from it a little by chance. `InputError` for a file that cannot be read,
    a law with an infinite mean, or any key of the engine but ``kv-tokens``.
    """
    for key, value in options(settings.engine, "--engine").items():
        if key != "kv_tokens":
            hint = "WAIT's theory has batches without other limits: only the memory changes its thresholds."
            raise InputError(_WHERE, f"--engine {key.replace('_', '-')}", value, "no key but kv-tokens", hint)
    trace = traces_of(settings, fewer=False, times_from="Give --rate.")[0]
    return trace if settings.rate is None else scaled_to_rate(trace, settings.rate)


def _wait(asked: Question, types: Types, names: list[int]) -> dict[str, Any]:
    """The ``wait`` part of `answer`; `names` are the classes of the types."""
    found = wait_thresholds.least(types, asked.kv_tokens)
    latency = wait_thresholds.expected_latency_s(types, found)
    return {
        "fluid_kv_tokens": equilibrium(types).kv_tokens,
        "iteration_s": found.iteration_s,
        "kv_tokens": found.kv_tokens,
        "expected_latency_s": float(np.average(latency, weights=types.arrivals_per_s)),
        "gates": [
            {
                "type": name,
                "threshold": n,
                "requests_per_s": a_second,
                "expected_latency_s": own,
                "satisfies": f"eq. 9: {found.iteration_s:.4g} s < n / lambda = {n / a_second:.4g} s",
            }
            for name, n, a_second, own in zip(
                names, found.thresholds.tolist(), types.arrivals_per_s, latency.tolist(), strict=True
            )
        ],
    }


def _nested(asked: Question) -> dict[str, Any]:
    """The ``nested_wait`` part of `answer`, with the best number of segments unless one was asked for."""
    output = asked.trace.output_tokens
    types = asked.types((output - 1) // math.ceil(int(output.max()) / MOST_TYPES), prompts=False)
    many = len(types.output_tokens)
    counts = [count for count in COUNTS if count <= many] if asked.segments is None else [asked.segments]
    best = segments.best(types, counts, kv_tokens=asked.kv_tokens, iterations=asked.iterations, delta=asked.delta)
    found, whole = best.solved, sum(types.arrivals_per_s)
    n = found.thresholds.tolist()
    said = [f"eq. 10: {found.iteration_s:.4g} s < n_1 / lambda = {n[0] / whole:.4g} s"]
    said += [
        f"eq. 10: n_{i + 2} / n_{i + 1} = {n[i + 1] / n[i]:.4g} > p = {p:.4g}" for i, p in enumerate(found.go_on.tolist())
    ]
    return {
        "fluid_kv_tokens": segments.least_kv_tokens(types),
        "segments": best.segments,
        "ends": found.ends.tolist(),
        "slack": found.kappa,
        "iteration_s": found.iteration_s,
        "kv_tokens": found.kv_tokens,
        "enough_kv_tokens": found.enough_kv_tokens,
        "satisfies": f"eq. 12: enough for {asked.iterations:g} iterations with probability {1 - asked.delta:g}",
        "expected_latency_s": best.latency_s,
        "gates": [
            {"segment": i + 1, "threshold": own, "satisfies": text}
            for i, (own, text) in enumerate(zip(n, said, strict=True))
        ],
    }
