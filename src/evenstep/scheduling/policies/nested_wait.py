"""Nested WAIT: output lengths are unknown, and requests reveal them segment by segment."""

from __future__ import annotations

from dataclasses import dataclass

from evenstep.errors import InputError, check_range
from evenstep.scheduling.gates.gated import GatedWork as Work
from evenstep.scheduling.gates.gated import Gates, check_gates, counts_of, form_gated
from evenstep.scheduling.gates.observed import Words, lay_out, size_of, words_of
from evenstep.scheduling.rules import Ruled, rule
from evenstep.scheduling.view import RuleView


@dataclass(frozen=True, slots=True)
class NestedWait(Ruled):
    """Cuts outputs into segments; segment i runs while each of the heads 1..i has as many requests as its threshold.

    A request that reaches a segment's end goes to the head of the next one and pauses there until that segment runs. Each
    range of prompt lengths (group) has segments of its own. If pausing requests fill the memory and no request would run,
    the deepest segment runs even below its threshold (see `gates.gated`). The policy looks down the queue until every group
    has its first threshold.

    Args:
        thresholds: n_1, n_2, ... of the segments, requests; for each group in turn, or once for all groups.
        ends: output tokens after which the next segment begins, ascending, one fewer than segments.
        prompt_edges: prompt lengths, tokens, ascending, at which the next group begins; empty = one group.
        max_hold_s: seconds after which the gate of a segment that has not run opens in any case.
        solve_s: the thresholds are solved anew from the arrivals, the lengths and the iterations of the last one to two
            times so many seconds (see `gates.observed`). Until these are known the given ones are in force; 0 = they stay.
            Ends and edges stay in any case.
        slack: standard deviations by which solved thresholds, from the second on, exceed the mean number of requests that
            reach a segment's head; 0 without `solve_s`.

    Raises:
        InputError: thresholds, ends or edges not whole numbers >= 1, ends or edges that do not ascend, a time or slack
            below 0, nan or (but for `max_hold_s`) inf, or a number of thresholds that does not match.

    Source: WAIT, Algorithm 2, sec. 5.1 for groups. Segment i owns stages l'_{i-1} + 1 .. l'_i, the first also the prefill
        (its lines 1 and 19 sum the l', against its figure 6). `theory.nested_thresholds` solves for thresholds and says how
        much memory they need.
    """

    thresholds: tuple[int, ...] = (8, 4)
    ends: tuple[int, ...] = (64,)
    prompt_edges: tuple[int, ...] = ()
    max_hold_s: float = 1.0
    solve_s: float = 0.0
    slack: float = 0.0

    def __post_init__(self) -> None:
        check_gates("nested-wait", self.thresholds, self.max_hold_s, self.solve_s)
        check_range("nested-wait", "a finite number of standard deviations >= 0", low=0, finite=True, slack=self.slack)
        if self.slack and not self.solve_s:
            raise InputError("nested-wait", "slack", self.slack, "0 without solve_s", "Only solved thresholds have a slack.")
        for name in ("ends", "prompt_edges"):
            values = getattr(self, name)
            if not all(b > a and b % 1 == 0 for a, b in zip((0, *values), values, strict=False)):
                raise InputError("nested-wait", name, values, "integers >= 1, ascending")
        segments, groups = len(self.ends) + 1, len(self.prompt_edges) + 1
        if len(self.thresholds) not in (segments, segments * groups):
            expected = f"{segments} of them, one a segment, or that for each of {groups} groups"
            raise InputError("nested-wait", "thresholds", self.thresholds, expected)

    @property
    def words(self) -> Words:
        """The layout of the policy's memory, with the numbers of groups and segments."""
        return words_of(len(self.prompt_edges) + 1, len(self.ends) + 1)

    @property
    def counts(self) -> tuple[str, ...]:
        """Names of the first words of memory, which a run's summary shows (`counts_of`)."""
        return counts_of(self.words.gates, self.solve_s)

    @property
    def memory_size(self) -> int:
        """int64 words kept: counts, a threshold and a time for each segment of a group; with `solve_s`, observations too."""
        return size_of(self.words, self.solve_s)


def room(running: int, waiting: int, options: NestedWait) -> tuple[int, ...]:
    """Sizes of the arrays of `GatedWork`, in order after `batch`, for so many running and waiting requests."""
    ends, edges = len(options.ends), len(options.prompt_edges)
    gates = (edges + 1) * (ends + 1)
    table = 2 * (running + gates + 1)
    return ends, edges, gates, gates, gates, gates, gates, gates, table, table, gates, edges + 1, gates, gates


@rule
def form_batch(view: RuleView, options: NestedWait, work: Work) -> None:
    """Form a batch behind gates (`form_gated`): one group for each range of prompt lengths, each with all segments."""
    words = lay_out(len(options.prompt_edges) + 1, len(options.ends) + 1)
    for gate in range(words.gates):
        work.threshold[gate] = int(options.thresholds[gate % len(options.thresholds)])
    for s in range(work.ends.size):
        work.ends[s] = int(options.ends[s])
    for g in range(work.edges.size):
        work.edges[g] = int(options.prompt_edges[g])
    form_gated(view, work, Gates(words, False, options.max_hold_s, options.solve_s, options.slack))


policy = NestedWait
