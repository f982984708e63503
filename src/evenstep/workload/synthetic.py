"""Synthetic workloads: laws of lengths, an arrival process, and maybe prompts that come back."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from evenstep import streams
from evenstep.errors import InputError
from evenstep.request import I8, Trace
from evenstep.workload.arrivals import Arrivals, Saturated
from evenstep.workload.laws import Capped, Law


@dataclass(frozen=True, slots=True)
class Recurring:
    """Prompts that come back: each request is of one of `keys` prompts, all alike.

    A prompt has one prompt length and one output length, drawn from the workload's laws; a request's output is its
    prompt's, plus a whole number from ``-jitter..jitter``, at least 1.
    """

    keys: int
    jitter: int = 0

    def __post_init__(self) -> None:
        if self.keys < 1:
            raise InputError("recurring", "keys", self.keys, "a whole number >= 1")
        if self.jitter < 0:
            raise InputError("recurring", "jitter", self.jitter, "a whole number >= 0")


@dataclass(frozen=True, slots=True)
class Synthetic:
    """A workload that is drawn.

    Args:
        requests: number of requests.
        prompt, output: laws of the lengths, drawn independently.
        arrivals: arrival process; without one there are no times (saturated runs).
        recurring: prompts that come back, or None.
        seed: added to the seed of a draw, so that two workloads in one file differ.
        name: for reports.
        notes: sentences for every trace drawn.
    """

    requests: int
    prompt: Law
    output: Law
    arrivals: Arrivals = field(default_factory=Saturated)
    recurring: Recurring | None = None
    seed: int = 0
    name: str = "synthetic"
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.requests < 1:
            raise InputError("synthetic", "requests", self.requests, "a whole number >= 1")

    def draw(self, seed: int, replicate: int = 0) -> Trace:
        """The trace under this key; another replicate is another draw.

        A capped output law also sets `max_tokens`.
        """
        key = seed + self.seed
        ids = np.arange(self.requests, dtype=np.int64)
        notes = (*self.notes, f"Synthetic: drawn with seed {key}, replicate {replicate}.")
        prompt_key: I8 | None = None
        if self.recurring is None:
            prompt = self.prompt.quantile(streams.uniform(key, "workload-prompt", ids, draw=replicate))
            output = self.output.quantile(streams.uniform(key, "workload-output", ids, draw=replicate))
        else:
            prompt, output, prompt_key = self._recurring(self.recurring, key, replicate)
        return Trace(
            prompt_tokens=prompt, output_tokens=output, arrival_s=self.arrivals.times(self.requests, key, replicate),
            max_tokens=np.full(self.requests, self.output.cap, np.int64) if isinstance(self.output, Capped) else None,
            prompt_key=prompt_key, name=self.name, format="synthetic", synthetic=True, notes=notes,
        )  # fmt: skip

    def _recurring(self, recurring: Recurring, key: int, replicate: int) -> tuple[I8, I8, I8]:
        ids = np.arange(self.requests, dtype=np.int64)
        kinds = np.arange(recurring.keys, dtype=np.int64)
        which = (streams.uniform(key, "workload-key", ids, draw=replicate) * recurring.keys).astype(np.int64)
        prompts = self.prompt.quantile(streams.uniform(key, "workload-key-prompt", kinds, draw=replicate))
        outputs = self.output.quantile(streams.uniform(key, "workload-key-output", kinds, draw=replicate))
        width = 2 * recurring.jitter + 1
        jitter = (streams.uniform(key, "workload-jitter", ids, draw=replicate) * width).astype(
            np.int64
        ) - recurring.jitter
        return prompts[which], np.maximum(outputs[which] + jitter, 1), which + 1
