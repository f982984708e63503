"""Gates: requests of a group run together, segment by segment, once enough of them stand at a segment's head.

A segment is a range of output lengths: a request is in segment s if its output has reached s of the `ends`. Its stage is the
number of tokens produced, and before that the prefill. It stands at a segment's head until it has run the segment's first
stage. Gate g * S + s is segment s of group g. It is open while the heads of segments 0..s of the group all hold their
thresholds. An open gate lets at most its threshold of requests run at each stage, the first admitted first. All others pause
with what they hold. Three rules are ours, because bursts end and memory does:

* a gate with requests opens once none of them has run for `max_hold_s`;
* a request that was evicted passes all gates;
* the breaker: if an open gate finds no memory and no request would run, the deepest segment runs although its gate is
  closed.

With `solve_s` the thresholds are solved anew from observations (`observed`), and the given ones apply until then. A
threshold then limits only how many enter a segment in a batch. With constant thresholds this is the same, since no stage
ever holds more than entered together. But requests that entered under a higher one would queue at every stage.

WAIT is the case of one segment and a group for each type.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from evenstep.compiled import Floats, Ints, part
from evenstep.errors import InputError, check_range
from evenstep.scheduling.batch import Batch, keep, kept, offer
from evenstep.scheduling.eviction import run_or_evict
from evenstep.scheduling.gates import observed
from evenstep.scheduling.gates.observed import Words, segment_of
from evenstep.scheduling.gates.thresholds import Demand
from evenstep.scheduling.view import RuleView


class Gates(NamedTuple):
    """The settings of a policy's gates."""

    words: Words  # number of groups and segments, and the layout of the policy's memory
    #: true if a request's group is its class; otherwise it is how many of `GatedWork.edges` its prompt reaches
    by_class: bool
    max_hold_s: float  # seconds without a run after which a gate with requests opens in any case
    solve_s: float  # seconds of a window of observations, from which thresholds are solved; 0 = they stay as given
    slack: float  # k of solved thresholds, standard deviations (`thresholds`)


class GatedWork(NamedTuple):
    """The batch, and arrays about the gates; gate g * S + s is segment s of group g, both from 0.

    A policy writes `ends`, `edges` and `threshold`; the others are working space. A request at a segment's head has
    not ended that segment's first stage. Its stage is its number of output tokens; the whole prefill is one stage.
    """

    batch: Batch
    ends: Ints  # int64[S - 1], output tokens at which the next segment begins, ascending
    edges: Ints  # int64[G - 1], prompt tokens at which the next group begins; empty where groups are classes
    #: int64[G * S], requests at a segment's head that open its gate, and most requests of each stage in a batch
    threshold: Ints
    heads: Ints  # int64[G * S], requests at the head of a segment
    members: Ints  # int64[G * S], requests in a segment
    is_open: Ints  # int64[G * S], 1 if a gate is open
    ran: Ints  # int64[G * S], 1 if one of its requests runs in this batch
    found: Ints  # int64[G * S], thresholds that are being solved; later in the batch, heads that each group lacks, by group
    stage: Ints  # int64[2 (R + G * S + 1)], a hash table of stages
    taken: Ints  # int64[2 (R + G * S + 1)], how many requests of each stage run in this batch
    oldest: Floats  # float64[G * S], earliest arrival among the requests of each gate, seconds; inf without requests
    arrivals_per_s: Floats  # of a `thresholds.Demand`, for solving
    go_on: Floats  # likewise
    work: Floats  # likewise


def counts_of(gates: int, solve_s: float) -> tuple[str, ...]:
    """Names of the first words in the memory of a policy with this many gates; a run's summary shows these words.

    The first counts how often `break_open` was called. With `solve_s` above 0 there follow counts of changed thresholds and
    of refusals of the solver, and the threshold in force of each gate, numbered from 1.
    """
    if solve_s == 0:
        return ("gates_broken",)
    solving = ("gates_broken", "thresholds_changed", "solve_refused_load", "solve_refused_memory")
    return (*solving, *(f"threshold_{gate + 1}" for gate in range(gates)))


def check_gates(where: str, thresholds: tuple[int, ...], max_hold_s: float, solve_s: float) -> None:
    """Raise an InputError that names the field and the policy (`where`) if a value is invalid.

    Thresholds must be whole numbers >= 1, at least one; times must be >= 0, and `solve_s` finite.
    """
    if not thresholds or not all(n >= 1 and n % 1 == 0 for n in thresholds):
        raise InputError(where, "thresholds", thresholds, "at least one integer, each >= 1")
    check_range(where, "a number of seconds >= 0", low=0, max_hold_s=max_hold_s)
    hint = "0 keeps the thresholds as given."
    check_range(where, "a finite number of seconds >= 0", hint, low=0, finite=True, solve_s=solve_s)


@part
def form_gated(view: RuleView, work: GatedWork, gates: Gates) -> None:
    """Form one batch: open the gates whose heads hold their thresholds, and run the requests that open gates let through.

    The caller has written `ends`, `edges` and `threshold`; with `solve_s` it overwrites `threshold` with those in force. If
    no request runs, `break_open` is called if a gate with requests is open or a request was evicted. Otherwise `wake_s`
    becomes the time at which the first gate opens.
    """
    memory, words = work.batch.memory, gates.words
    if gates.solve_s > 0.0:
        observe(view, work, gates)
    seen = look_around(view, work, gates)
    has_open = open_gates(view, work, gates)
    run_through_gates(view, work, gates, seen)
    if not runs_any(work.batch):
        if work.batch.gone[0] > 0 or has_open:
            memory[observed.BREAKS] += 1
            break_open(view, work, gates)
        else:
            for gate in range(words.gates):
                if work.members[gate] > 0:
                    work.batch.wake_s[0] = min(work.batch.wake_s[0], opens_s(work, gates, gate))
    for gate in range(words.gates):
        if work.ran[gate] == 1 or work.members[gate] == 0:
            keep(memory, words.last + gate, view.now_s)
    if gates.solve_s > 0.0:
        note(view, work, gates)


@part
def group_of(view: RuleView, work: GatedWork, gates: Gates, row: int) -> int:
    """A request's group: with `by_class` its class, at most the last group; else how many `edges` its prompt reaches."""
    if gates.by_class:
        return min(view.request_class[row], gates.words.groups - 1)
    group = 0
    for e in range(work.edges.size):
        if view.prompt_tokens[row] >= work.edges[e]:
            group += 1
    return group


@part
def gate_of(view: RuleView, work: GatedWork, gates: Gates, row: int) -> int:
    """A request's gate, g * S + s with S segments a group: its group g, and the number s of `ends` its output reached."""
    segment = segment_of(work.ends, view.produced[row], False)
    return group_of(view, work, gates, row) * gates.words.segments + segment


@part
def is_head(view: RuleView, work: GatedWork, row: int) -> bool:
    """True if a request stands at the head of its segment, where it waits for enough others.

    It stands there until its prefill ends, and again while its output is exactly as long as one of `ends`, where the next
    segment begins. A request that was ever evicted stands at no head.
    """
    if view.evictions[row] > 0:
        return False
    if view.decoding[row] == 0:
        return view.produced[row] == 0
    found = False
    for s in range(work.ends.size):
        found = found or view.produced[row] == work.ends[s]
    return found


@part
def look(view: RuleView, work: GatedWork, gates: Gates, row: int) -> bool:
    """Count a request in `members`, `heads` and `oldest` of its gate; returns true if it is at the head of its segment."""
    gate, head = gate_of(view, work, gates, row), is_head(view, work, row)
    work.members[gate] += 1
    work.heads[gate] += 1 if head else 0
    work.oldest[gate] = min(work.oldest[gate], view.arrival_s[row])
    return head


@part
def look_around(view: RuleView, work: GatedWork, gates: Gates) -> int:
    """Count running requests at their gates, then waiting ones in queue order; returns how many waiting ones it counted.

    The counts are set to 0 first. It stops once the queue has given each group as many heads as its first threshold.
    """
    words = gates.words
    work.heads[:], work.members[:], work.ran[:] = 0, 0, 0
    work.oldest[:] = np.inf
    for position in range(view.running.size):
        look(view, work, gates, view.running[position])
    for g in range(words.groups):
        work.found[g] = work.threshold[g * words.segments]
    missing, seen = words.groups, 0
    while seen < view.waiting.size and missing > 0:
        row: int = view.waiting[seen]
        if look(view, work, gates, row):
            group = group_of(view, work, gates, row)
            work.found[group] -= 1
            if work.found[group] == 0:
                missing -= 1
        seen += 1
    return seen


@part
def opens_s(work: GatedWork, gates: Gates, gate: int) -> float:
    """The host's time, seconds, at which a gate with requests opens even if it lacks heads; call it after `look_around`.

    That is `max_hold_s` after the gate last let a request run or was empty, or after its oldest request arrived if later.
    """
    last_s = kept(work.batch.memory, gates.words.last + gate)
    return max(last_s, work.oldest[gate]) + gates.max_hold_s


@part
def open_gates(view: RuleView, work: GatedWork, gates: Gates) -> bool:
    """Write to `is_open` which gates are open, by heads or by `opens_s`; returns true if an open gate has requests."""
    by_rule, has_open = False, False
    for gate in range(gates.words.gates):
        is_first = gate % gates.words.segments == 0
        by_rule = work.heads[gate] >= work.threshold[gate] and (is_first or by_rule)
        held = work.members[gate] > 0 and view.now_s >= opens_s(work, gates, gate)
        work.is_open[gate] = 1 if by_rule or held else 0
        has_open = has_open or (work.is_open[gate] == 1 and work.members[gate] > 0)
    return has_open


@part
def passes(view: RuleView, work: GatedWork, gates: Gates, row: int) -> bool:
    """True if a request's gate is open and its stage has had fewer than `threshold` requests; then it is counted there.

    A request that was ever evicted always passes and is not counted. With `solve_s` only heads are counted and limited.
    """
    if view.evictions[row] > 0:
        return True
    gate = gate_of(view, work, gates, row)
    if work.is_open[gate] == 0:
        return False
    if gates.solve_s > 0.0 and not is_head(view, work, row):
        return True
    within = view.produced[row] + 2 if view.decoding[row] == 1 else 1
    stage, size = gate * (1 << 40) + within, work.stage.size
    place = (gate * 7919 + within) % size
    while work.stage[place] != 0 and work.stage[place] != stage:
        place = (place + 1) % size
    if work.taken[place] >= work.threshold[gate]:
        return False
    work.stage[place] = stage
    work.taken[place] += 1
    return True


@part
def run(view: RuleView, work: GatedWork, gates: Gates, position: int) -> None:
    """Run a running request; if memory is short, evict those admitted last. If it runs, set `ran` of its gate to 1."""
    before = work.batch.given[0]
    run_or_evict(view, work.batch, position)
    if work.batch.given[0] > before:
        work.ran[gate_of(view, work, gates, view.running[position])] = 1


@part
def run_through_gates(view: RuleView, work: GatedWork, gates: Gates, seen: int) -> None:
    """Run the requests that the gates let through: decodes, then running prefills, then the first `seen` of the queue.

    After an eviction no request of the queue is admitted. The first that cannot run ends admissions.
    """
    work.stage[:], work.taken[:] = 0, 0
    for decoding in range(1, -1, -1):
        for position in range(view.running.size):
            row: int = view.running[position]
            if view.decoding[row] == decoding and passes(view, work, gates, row):
                run(view, work, gates, position)
    if work.batch.gone[0] > 0:
        return
    for i in range(seen):
        row: int = view.waiting[i]
        if passes(view, work, gates, row):
            if not offer(view, work.batch, row, view.running.size + i, 0):
                break
            work.ran[gate_of(view, work, gates, row)] = 1


@part
def runs_any(batch: Batch) -> bool:
    """True if any request in the batch so far runs at least one token; entries with 0 tokens do not count."""
    return batch.tokens[: batch.given[0]].sum() > 0


@part
def break_open(view: RuleView, work: GatedWork, gates: Gates) -> None:
    """Run the running requests of the deepest segment that any of them is in, in all groups, whether gates are open or not.

    If memory is short, those admitted last are evicted. If then none runs, repeat with those left; end when all are evicted.
    """
    segments, kept = gates.words.segments, view.running.size - work.batch.gone[0]
    while kept > 0 and not runs_any(work.batch):
        deepest = 0
        for position in range(kept):
            deepest = max(deepest, gate_of(view, work, gates, view.running[position]) % segments)
        for position in range(kept):
            if gate_of(view, work, gates, view.running[position]) % segments == deepest:
                run(view, work, gates, position)
        kept = view.running.size - work.batch.gone[0]


@part
def observe(view: RuleView, work: GatedWork, gates: Gates) -> None:
    """Add arrivals, ended requests and the last iteration to memory; write the thresholds in force to `work.threshold`.

    The first call starts the observations with the given `threshold`. Later ones solve anew when that is due (`solve_anew`).
    """
    memory, words, now_s = work.batch.memory, gates.words, view.now_s
    beside, force = words.beside, observed.FORCE
    begun = memory[beside + observed.BEGUN] == 1
    if begun:
        count_arrivals(view, work, gates, 1)
        observed.settle(memory, words, 1)
    else:  # requests already waiting say nothing about rates: they are marked as seen
        memory[beside + observed.BEGUN] = 1
        for gate in range(words.gates):
            memory[force + gate] = work.threshold[gate]
        keep(memory, beside + observed.LOOK, now_s + gates.solve_s)
        keep(memory, words.now + observed.START, now_s)
        keep(memory, words.now + words.window + observed.START, now_s)
        keep(memory, beside + observed.SEEN, now_s if view.waiting.size == 0 else -np.inf)
        count_arrivals(view, work, gates, 0)
    memory[words.members : words.members + 3 * words.gates] = 0
    for position in range(view.running.size):
        row: int = view.running[position]
        if view.evictions[row] == 0:
            count(view, work, gates, row, view.produced[row] if view.decoding[row] == 1 else -1, False, 1)
    if begun:
        observed.settle(memory, words, -1)
        observed.count_iteration(memory, words, now_s, view.running.size)
    if now_s - kept(memory, words.now + observed.START) >= gates.solve_s:
        observed.turn(memory, words, now_s)
    if now_s >= kept(memory, beside + observed.LOOK):
        keep(memory, beside + observed.LOOK, now_s + gates.solve_s / observed.LOOKS)
        demand = Demand(work.arrivals_per_s, work.go_on, work.work)
        observed.solve_anew(memory, words, now_s, view.kv_capacity, gates.slack, demand, work.found)
    for gate in range(words.gates):
        work.threshold[gate] = memory[force + gate]


@part
def count_arrivals(view: RuleView, work: GatedWork, gates: Gates, weight: int) -> None:
    """Add `weight` to a group's arrivals for each of its waiting requests that arrived later than the latest one seen.

    `weight` is 1, or 0 at the first call, which only marks them as seen. The queue is searched from its end until as many
    are found as have arrived: some hosts do not queue by arrival.
    """
    memory, words, i, came = work.batch.memory, gates.words, view.waiting.size - 1, view.arrived.sum()
    before_s = kept(memory, words.beside + observed.SEEN)
    latest_s, new = before_s, came - memory[words.beside + observed.CAME]
    while new > 0 and i >= 0:
        row: int = view.waiting[i]
        arrival_s: float = view.arrival_s[row]
        if arrival_s > before_s:
            memory[words.now + observed.ARRIVED + group_of(view, work, gates, row)] += weight
            latest_s, new = max(latest_s, arrival_s), new - 1
        i -= 1
    keep(memory, words.beside + observed.SEEN, latest_s)
    memory[words.beside + observed.CAME] = came


@part
def count(view: RuleView, work: GatedWork, gates: Gates, row: int, reached: int, runs: bool, sign: int) -> None:
    """Add a request that has produced `reached` tokens to the sums of its gate (sign 1), or subtract it (sign -1).

    The sums, in memory from `Words.members` on, are of requests, of their `work_since`, and of those at the segment's head.
    `reached` is -1 in the prefill. With `runs` an output that equals an end counts to the segment that ends there.
    """
    memory, words, segment = work.batch.memory, gates.words, segment_of(work.ends, reached, runs)
    start: int = work.ends[segment - 1] if segment > 0 else 0
    at = words.members + group_of(view, work, gates, row) * words.segments + segment
    memory[at] += sign
    memory[at + words.gates] += sign * observed.work_since(view.prompt_tokens[row], start, reached, 1 - view.first_decoded)
    if segment > 0 and reached == start:
        memory[at + 2 * words.gates] += sign


@part
def note_one(view: RuleView, work: GatedWork, gates: Gates, row: int, tokens: int, was_there: bool, stays: bool) -> None:
    """Move a request in the sums of the gates from where it was before this batch to where it is after running `tokens`.

    `was_there` is true if it was running before, so that the sums count it; `stays` is true if it was not evicted.
    """
    if view.evictions[row] > 0:
        return
    reached = view.produced[row] if view.decoding[row] == 1 else -1
    if was_there:
        count(view, work, gates, row, reached, False, -1)
    if stays:
        if view.decoding[row] == 1:
            reached += 1
        elif tokens == view.left[row]:
            reached = 1 - view.first_decoded
        count(view, work, gates, row, reached, True, 1)


@part
def note(view: RuleView, work: GatedWork, gates: Gates) -> None:
    """Store for the next `observe` this batch's time and KV tokens, and count its requests where they stand after it."""
    batch, memory, runs, held = work.batch, work.batch.memory, view.running.size, 0
    for p in range(batch.given[0]):
        position: int = batch.picked[p]
        tokens: int = batch.tokens[p]
        if tokens > 0:
            row: int = view.waiting[position - runs] if position >= runs else view.running[position]
            held += view.prefilled[row] + tokens
            note_one(view, work, gates, row, tokens, position < runs, True)
    for e in range(batch.gone[0]):
        position: int = batch.evicted[e]
        note_one(view, work, gates, view.running[position], 0, True, False)
    keep(memory, gates.words.beside + observed.SINCE, view.now_s)
    memory[gates.words.beside + observed.RAN] = held
