"""The prefill budget: which prefiller takes the next prompt, if any has room (BalanceRoute sec. 5)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from evenstep.dispatch.settings import PREFILL_THRESHOLD, WorkerSpec

#: Capacity in tokens of a prefiller that does not report it, so that the requests sent there have a weight.
_ASSUMED_TOKENS = 100_000


@dataclass(slots=True)
class Prefiller:
    """An engine that only prefills, with its share of used memory and its requests."""

    spec: WorkerSpec  # the worker, as its operator describes it
    #: share of its KV memory in use by its last report, 0..1. Before the first, and after a failed reading, it is 1: it
    #: takes no work. It is 0 if its metrics are not read.
    used: float = 1.0
    charged: int = 0  # tokens of prompts sent there since that report and not released
    capacity: float = _ASSUMED_TOKENS  # its KV memory in tokens; 100,000 while it is not known
    sample: int = 0  # running number of that report, 0 before the first
    is_up: bool = True  # it is not ejected
    leaves: bool = False  # it gets no new prompts, and is removed when it has no requests left
    requests: set[int] = field(default_factory=set[int])  # rows whose prompt it computes or keeps

    @staticmethod
    def stated(spec: WorkerSpec) -> float:
        """The KV capacity in tokens that a prefiller's description states; 100,000 without one."""
        return float(spec.kv_tokens or _ASSUMED_TOKENS)

    def go_unread(self) -> None:
        """From now on count only prompts that are sent there: its metrics are not read any more."""
        self.used = 0.0

    @property
    def filled(self) -> float:
        """Share of the prefiller's KV memory in use, with prompts sent since its last report; may be above 1."""
        return self.used + self.charged / self.capacity


class PrefillBudget:
    """The prefillers of a fleet, by name in `prefillers`, and the KV memory that each has left."""

    def __init__(self) -> None:
        self.prefillers: dict[str, Prefiller] = {}

    def add(self, spec: WorkerSpec) -> None:
        """Add a prefiller. It counts as full until its first report, unless its metrics are not read."""
        used = 1.0 if spec.scraped else 0.0
        self.prefillers[spec.name] = Prefiller(spec, used=used, capacity=Prefiller.stated(spec))

    def choose(self, without: Collection[str] = ()) -> Prefiller | None:
        """The least filled prefiller with room, ties to the one that joined first; None if no prefiller has room.

        It has room if it is up and stays, has a free slot, and at most 90 % of its KV memory is filled. Nothing is charged.
        `without` are names of prefillers that must not be chosen.
        """
        best = None
        for found in self.prefillers.values():
            open_ = found.is_up and not found.leaves and len(found.requests) < found.spec.slots
            if open_ and found.filled <= PREFILL_THRESHOLD and found.spec.name not in without:
                best = found if best is None or found.filled < best.filled else best
        return best

    def charge(self, name: str, row: int, tokens: int) -> int:
        """Charge a prompt of `tokens` to a prefiller, and list its row there; returns the `sample` to pass to `release`."""
        found = self.prefillers[name]
        found.charged += tokens
        found.requests.add(row)
        return found.sample

    def correct(self, name: str, more: int, sample: int) -> None:
        """Charge `more` tokens for a prompt that was charged at `sample`; nothing if a later report contains the prompt."""
        found = self.prefillers[name]
        if found.sample == sample:
            found.charged += more

    def release(self, name: str, row: int, tokens: int, sample: int) -> None:
        """Take off a prompt whose KV is gone; an unknown prefiller is ignored.

        `tokens` and `sample` are as charged. A later report contains the prompt: then nothing is subtracted.
        """
        found = self.prefillers.get(name)
        if found is None:
            return
        found.requests.discard(row)
        if found.sample == sample:
            found.charged -= tokens

    def sampled(self, name: str, kv_used: float, kv_tokens: int) -> None:
        """Take a prefiller's report: the share (0..1) of its KV memory in use, and its capacity in tokens (0 = not said).

        A capacity in the operator's description has precedence. Charges before the report are dropped. If its metrics are
        not read any more, the report was under way when they were given up: only its capacity counts.
        """
        found = self.prefillers[name]
        if kv_tokens and not found.spec.kv_tokens:
            found.capacity = float(kv_tokens)
        if found.spec.scraped:
            found.used, found.charged, found.sample = kv_used, 0, found.sample + 1

    def unreadable(self, name: str) -> None:
        """Count a prefiller, whose metrics could not be read, as full until its next report; no effect if none are read."""
        found = self.prefillers[name]
        if found.spec.scraped:
            found.used = 1.0

    def free(self, name: str) -> float:
        """Share of a prefiller's KV memory that prompts may still fill until 90 % is in use; 0 if it is beyond that."""
        return max(0.0, PREFILL_THRESHOLD - self.prefillers[name].filled)
