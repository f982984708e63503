"""Synthetic workloads: laws of lengths, an arrival process, and maybe prompts that come back."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from evenstep import streams
from evenstep.errors import InputError, check_range
from evenstep.request import F8, I8, Trace
from evenstep.workload.synthetic.arrivals import Arrivals, Saturated
from evenstep.workload.synthetic.laws import Capped, Law

#: Most requests that a workload may draw; their columns take some gigabytes.
MOST_REQUESTS = 100_000_000


@dataclass(frozen=True, slots=True)
class Recurring:
    """Prompts that come back: each request has one of `keys` prompts, each equally likely.

    A prompt has one prompt length and one output length, drawn from the workload's laws. A request's output is that of its
    prompt plus a whole number from ``-jitter..jitter``, at least 1 and at most the cap of a `Capped` law. The number of its
    prompt, from 1, is its `prompt_key`. `keys` below 1 or a negative `jitter` is an `InputError`.
    """

    keys: int
    jitter: int = 0

    def __post_init__(self) -> None:
        check_range("recurring", "a whole number >= 1", low=1, keys=self.keys)
        check_range("recurring", "a whole number >= 0", low=0, jitter=self.jitter)


@dataclass(frozen=True, slots=True)
class RequestClass:
    """A class of requests, or a tenant: its share of the requests, and laws of lengths of its own.

    `share` is above 0 and relative to the sum over all classes. A law that is None is the workload's.
    """

    share: float
    prompt: Law | None = None
    output: Law | None = None

    def __post_init__(self) -> None:
        check_range("class", "a finite number above 0", above=0, finite=True, share=self.share)


@dataclass(frozen=True, slots=True)
class Synthetic:
    """A workload whose requests are drawn at random.

    Raises:
        InputError: `requests` out of range, or classes with laws of their own together with `recurring`.
    """

    requests: int  # number of requests, 1 to `MOST_REQUESTS`
    prompt: Law  # law of prompt lengths, drawn independently of output lengths
    output: Law  # law of output lengths
    arrivals: Arrivals = field(default_factory=Saturated)  # arrival process; without one there are no times (saturated runs)
    recurring: Recurring | None = None  # prompts that come back, or None
    seed: int = 0  # added to the seed of a draw, so that two workloads can differ
    name: str = "synthetic"  # for reports
    notes: tuple[str, ...] = ()  # sentences for every trace drawn
    #: drawn for each request in proportion to their shares; a class's number is its place in the list, from 0. Empty = one
    #: class, without a column.
    classes: tuple[RequestClass, ...] = ()

    def __post_init__(self) -> None:
        if self.recurring is not None and any(c.prompt or c.output for c in self.classes):
            hint = "Prompts that come back have lengths of their own: give the classes shares only."
            raise InputError("synthetic", "classes", "laws of their own", "no laws of lengths with recurring", hint)
        check_range("synthetic", f"a whole number in 1..{MOST_REQUESTS}", low=1, high=MOST_REQUESTS, requests=self.requests)

    def draw(self, seed: int, replicate: int = 0) -> Trace:
        """Draw the trace of this key: the same for the same seed and replicate, independent for another replicate.

        If an output law is `Capped`, `max_tokens` is its cap, and 0 for classes without one. Else it is absent.
        """
        key = seed + self.seed
        ids = np.arange(self.requests, dtype=np.int64)
        notes = (*self.notes, f"Synthetic: drawn with seed {key}, replicate {replicate}.")
        prompt_key: I8 | None = None
        classes = self._classes(key, replicate) if self.classes else None
        if self.recurring is None:
            prompt = self._lengths("prompt", streams.uniform(key, "workload-prompt", ids, draw=replicate), classes)
            output = self._lengths("output", streams.uniform(key, "workload-output", ids, draw=replicate), classes)
        else:
            prompt, output, prompt_key = self._recurring(self.recurring, key, replicate)
        return Trace(
            prompt_tokens=prompt,
            output_tokens=output,
            arrival_s=self.arrivals.times(self.requests, key, replicate),
            max_tokens=self._caps(classes),
            prompt_key=prompt_key,
            request_class=classes,
            name=self.name,
            format="synthetic",
            synthetic=True,
            notes=notes,
        )

    def _classes(self, key: int, replicate: int) -> I8:
        """int64[N], the class of each request."""
        ends = np.cumsum([c.share for c in self.classes])
        u = streams.uniform(key, "workload-class", np.arange(self.requests), draw=replicate)
        return np.minimum(np.searchsorted(ends, u * ends[-1], side="right"), ends.size - 1).astype(np.int64)

    def _laws(self, name: str) -> list[Law]:
        """The ``prompt`` or ``output`` law of each class; without classes, a list of the workload's law."""
        return [getattr(c, name) or getattr(self, name) for c in self.classes] or [getattr(self, name)]

    def _lengths(self, name: str, u: F8, classes: I8 | None) -> I8:
        """int64[N], tokens by the ``prompt`` or ``output`` law of each request's class, at the uniform numbers `u`."""
        laws = self._laws(name)
        if classes is None:
            return laws[0].quantile(u)
        lengths = np.empty(u.size, np.int64)
        for number, law in enumerate(laws):
            lengths[classes == number] = law.quantile(u[classes == number])
        return lengths

    def _caps(self, classes: I8 | None) -> I8 | None:
        """int64[N], `max_tokens` of each request, 0 where its output law is not capped; None if no output law is."""
        caps = np.array([law.cap if isinstance(law, Capped) else 0 for law in self._laws("output")], np.int64)
        if not caps.any():
            return None
        return np.full(self.requests, caps[0]) if classes is None else caps[classes]

    def _recurring(self, recurring: Recurring, key: int, replicate: int) -> tuple[I8, I8, I8]:
        """Prompt tokens, output tokens and `prompt_key` of each request, int64[N] each."""
        ids = np.arange(self.requests, dtype=np.int64)
        kinds = np.arange(recurring.keys, dtype=np.int64)
        which = (streams.uniform(key, "workload-key", ids, draw=replicate) * recurring.keys).astype(np.int64)
        prompts = self.prompt.quantile(streams.uniform(key, "workload-key-prompt", kinds, draw=replicate))
        outputs = self.output.quantile(streams.uniform(key, "workload-key-output", kinds, draw=replicate))
        width = 2 * recurring.jitter + 1
        jitter = (streams.uniform(key, "workload-jitter", ids, draw=replicate) * width).astype(np.int64) - recurring.jitter
        output = np.maximum(outputs[which] + jitter, 1)
        if isinstance(self.output, Capped):
            output = np.minimum(output, self.output.cap)
        return prompts[which], output, which + 1
