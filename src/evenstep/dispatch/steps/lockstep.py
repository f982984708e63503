"""Counts chunks and leaving requests, by the steps of their barrier group.

Each chunk is assigned to a step of its group. A step is complete when all expected requests have delivered it. If its
seconds are known, it is counted with them and its loads when the next one begins.

The workers of a group step together, so all their running requests are counted as one. A request delivers once in each step
since it joined: its k-th token belongs to the k-th of these steps, however late its connection is read. A step ends when
every expected request has delivered it. A request that delivers earlier, for the next step or for several, is early there.

Where counting fails, time decides. The first token of a newcomer belongs to the last delivered step if it comes within half
a step, else to the next one. A request that ends a step more than half a step after all others was assigned one step too
low, and moves to the next one. If one is `AHEAD` steps ahead, those without the present step are no longer expected. They
join like newcomers at their next chunk: an engine or a slow client may have delayed them. If requests differ by several
steps time and again, the engine makes several tokens in a step, and chunks are counted instead. Requests of several copies
are never expected: each copy has its own chunks.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from evenstep import compiled
from evenstep.compiled import F1, I1, INT, check, declared, part
from evenstep.dispatch.steps.state import NEW, TOGETHER, WIDE, EarlySteps, GroupColumns, StepTables
from evenstep.dispatch.steps.step_fit import add
from evenstep.request import F8, I8

#: Steps that one request may be ahead of another.
AHEAD = 8
#: Tokens of a chunk that are handled one by one; an engine may report any number.
MOST = 1024
#: Requests that part by several steps `_OFTEN` times, each of which is forgotten in 32 steps, are counted by chunks.
_OFTEN, _RARELY = 8, 1 / 32
_TABLES = compiled.struct(StepTables)


@part
def place(groups: GroupColumns, group: int, last: int, tokens: int, now_s: float) -> int:
    """The number of the step that a chunk belongs to; the last one if its tokens belong to several steps.

    Args:
        last: number of the step that the chunk's request delivered last, or `NEW` or `BEHIND`.
        tokens: tokens in the chunk; each is a step of its own, unless the group counts chunks.
        now_s: time of the chunk, which decides for a request that joins.
    """
    step = groups.step[group]
    if last >= step - 1:
        return last + (min(tokens, MOST) if groups.counts_tokens[group] != 0 else 1)
    if groups.early[group] > 0:
        return step + groups.early[group]
    is_next = groups.expected[group] == 0 or groups.delivered[group] > 0 or _is_late(groups, group, now_s)
    return step if is_next else step - 1


@part
def deliver(steps: StepTables, group: int, last: int, step: int, now_s: float) -> tuple[int, int]:
    """Count a request's delivery of all steps after `last`, up to `step`. If it is the first of a step, call `begins` first.

    Args:
        last: number of the step that the request had delivered last, before this chunk.
        step: number of the chunk's step, from `place`.

    Returns the step that the request has now delivered last, which may be later than `step`, and the number of steps of the
    group that ended.
    """
    groups, first, ended = steps.groups, last + 1, 0
    if last < groups.step[group] - 1:
        groups.expected[group] += 1
        first = groups.step[group]
    elif step == groups.step[group] and _was_waited_for(groups, group) and _is_late(groups, group, now_s):
        _parts(groups, group, groups.early[group] > 1)
        groups.expected[group] -= 1  # for a moment: the others delivered this step long ago
        ended = _close(steps, group, ended)
        groups.expected[group] += 1
        first = groups.step[group]
        step = first + groups.early[group]
    _count(steps, group, first, step, now_s)
    if step - groups.step[group] >= AHEAD:
        groups.expected[group] = groups.delivered[group]
        _parts(groups, group, True)
    return step, _settle(steps, group, _close(steps, group, ended))


@part
def leave(steps: StepTables, group: int, last: int) -> int:
    """Count off a request that stops running. Returns the number of steps of its group that end because of it.

    `last` is the number of the step that the request delivered last, or `BEHIND` or `WIDE`.
    """
    groups, ended = steps.groups, 0
    groups.running[group] -= 1
    ahead = last - groups.step[group]
    if ahead == 0:  # it is counted in all that it has delivered
        groups.going[group] += 1
    elif ahead > 0:
        steps.early.going[group * steps.early_room + ahead - 1] += 1
    elif ahead == -1:
        groups.expected[group] -= 1
        ended = _settle(steps, group, _close(steps, group, 0))
    if groups.running[group] == 0:
        groups.ended_s[group], groups.lasted_s[group] = np.nan, np.inf
        groups.counts_tokens[group], groups.parted[group] = 1, 0.0
    return ended


@part
def was_in_step(groups: GroupColumns, group: int, last: int) -> bool:
    """Whether a request that leaves took part in the step under way, or, if no chunk of that has come, in the last one.

    `last` is the number of the step that the request delivered last; always true for `WIDE`.
    """
    is_between = groups.delivered[group] == 0
    return last == WIDE or last >= groups.step[group] - (1 if is_between else 0)


@part
def _parts(groups: GroupColumns, group: int, is_far: bool) -> None:
    """Note in `parted` a request that is several steps apart (`is_far`); after several, the group counts by chunk."""
    if is_far:
        groups.parted[group] += 1.0
    if groups.parted[group] >= _OFTEN:
        groups.counts_tokens[group] = 0


@part
def _was_waited_for(groups: GroupColumns, group: int) -> bool:
    """Whether exactly one expected request, of several, has not delivered the present step."""
    return groups.expected[group] > 1 and groups.expected[group] == groups.delivered[group] + 1


@part
def _is_late(groups: GroupColumns, group: int, now_s: float) -> bool:
    """Whether more than half a mean step has passed since the last delivery; False while no step's time is known."""
    return 2.0 * (now_s - groups.seen_s[group]) > groups.lasted_s[group]


@part
def _count(steps: StepTables, group: int, first: int, step: int, now_s: float) -> None:
    """Record a request's delivery of the steps `first` to `step`, at `now_s`: in the present one, and in early ones."""
    groups, early = steps.groups, steps.early
    under_way = groups.step[group]
    if first == under_way and first <= step:
        groups.delivered[group] += 1
        groups.seen_s[group] = now_s
    ahead = step - under_way
    check(ahead <= steps.early_room)
    groups.early[group] = max(groups.early[group], ahead)
    at = group * steps.early_room - 1
    for k in range(at + max(first - under_way, 1), at + ahead + 1):
        early.delivered[k] += 1
        early.seen_s[k] = now_s


@part
def _close(steps: StepTables, group: int, before: int) -> int:
    """End the present step, and those after it, that all expected requests have delivered.

    Each gets an equal part of the time since the last end. `before` steps ended with the same chunk already. Returns how
    many have ended with it by now, those included.
    """
    groups, ended, at_s = steps.groups, 0, 0.0
    while groups.delivered[group] > 0 and groups.delivered[group] == groups.expected[group]:
        ended, at_s = ended + 1, groups.seen_s[group]
        groups.step[group] += 1
        groups.expected[group] -= groups.going[group]
        groups.delivered[group] = groups.going[group] = 0
        if groups.early[group] > 0:
            _next(groups, steps.early, group, group * steps.early_room)
    if ended == 0:
        return before
    seconds = (at_s - groups.ended_s[group]) / ended
    groups.ended_s[group] = at_s
    if seconds >= 0.0:
        known_s = groups.lasted_s[group]
        groups.lasted_s[group] = seconds if known_s == np.inf else 0.75 * known_s + 0.25 * seconds
    groups.parted[group] = max(0.0, groups.parted[group] - _RARELY * ended)
    for number in range(ended):
        if before + number > 0:
            begins(steps, group, -1, 0)
        left = ended - 1 - number
        completed(groups, group, at_s - seconds * left if left > 0 else at_s)
    return before + ended


@part
def _settle(steps: StepTables, group: int, ended: int) -> int:
    """Begin the next step if `ended` > 0 steps ended and a request has delivered the next one already. Returns `ended`."""
    if ended > 0 and steps.groups.delivered[group] > 0:
        begins(steps, group, -1, 0)
    return ended


@part
def _next(groups: GroupColumns, early: EarlySteps, group: int, at: int) -> None:
    """Make the group's first early step, in row `at` of `early`, the present one; the others move up by one row."""
    groups.delivered[group], groups.going[group] = early.delivered[at], early.going[at]
    groups.seen_s[group] = early.seen_s[at]
    end = at + groups.early[group] - 1
    for k in range(at, end):
        early.delivered[k], early.going[k] = early.delivered[k + 1], early.going[k + 1]
        early.seen_s[k] = early.seen_s[k + 1]
    early.delivered[end] = early.going[end] = 0
    early.seen_s[end] = 0.0
    groups.early[group] -= 1


@part
def completed(groups: GroupColumns, group: int, now_s: float) -> None:
    """Note `now_s`, the time at which a step was complete; its seconds begin when the step before was complete.

    The step is counted, with its loads, when the next one begins (`begins`). The first step after a pause has no seconds.
    """
    groups.seconds[group] = now_s - groups.complete_s[group]
    groups.complete_s[group] = now_s


@part
def begins(steps: StepTables, group: int, worker: int, newcomer: int) -> None:
    """Begin the next step, and count the last one, if its seconds are known and above 0, with the loads it started from.

    `newcomer`: KV tokens that a request new in the next step has on the worker in place `worker`, which are not in those
    loads; 0 without such a request. The loads go to `Members.load`.
    """
    groups, workers, members = steps.groups, steps.workers, steps.members
    begin, end = groups.begin[group], groups.begin[group] + groups.size[group]
    check(end <= len(members.place))
    seconds = groups.seconds[group]
    groups.seconds[group] = np.nan
    if seconds > 0.0:  # neither the first step, nor chunks of several steps in one read
        for k in range(begin, end):
            g = members.place[k]
            load = workers.load[g] + workers.foreign_load[g] - workers.running[g] + workers.left[g]
            members.load[k] = load - newcomer if g == worker else load
        _add_step(steps, group, seconds)
    for k in range(begin, end):
        workers.left[members.place[k]] = 0.0


@part
def stopped(steps: StepTables, group: int) -> None:
    """Count the last step of a group that now has no running requests; the pause until its next step is in no step."""
    begins(steps, group, -1, 0)
    steps.groups.complete_s[group] = np.nan


@part
def _add_step(steps: StepTables, group: int, seconds: float) -> None:
    """Count a step of `seconds`, with the loads in the members' columns: add it to the fit, and keep it for idle time."""
    groups, load, news = steps.groups, steps.members.load, steps.news
    begin, size = groups.begin[group], groups.size[group]
    groups.step_s[group], groups.counted_s[group] = seconds, groups.complete_s[group]
    heaviest: Any = load[begin]
    total = 0.0
    for k in range(begin, begin + size):
        heaviest = max(heaviest, load[k])
        total += load[k]
    add(groups, group, heaviest, seconds)
    if size == 1:  # no other worker to wait for
        return
    slope = groups.seconds_per_token[group]
    at = groups.news_at[group] + groups.news[group]
    check(0 <= groups.news[group] < steps.news_room)
    news.heaviest[at], news.total[at], news.seconds[at] = heaviest, total, seconds
    news.fixed[at] = groups.overhead_s[group] / slope if slope > 0.0 else np.nan
    groups.news[group] += 1


@part
def _has_room(steps: StepTables, group: int, ahead: int) -> bool:
    """Whether there is room for a delivery so many steps ahead, and for all steps that may end with it."""
    groups = steps.groups
    most = max(ahead, groups.early[group])
    if most > steps.early_room:
        return False
    news = groups.news[group]
    return groups.size[group] == 1 or (news < TOGETHER and news + most + 3 <= steps.news_room)


@declared(None if INT is None else INT(I1, I1, F1, INT, INT, INT, _TABLES))
def count_chunks(rows: I8, tokens: I8, seen_s: F8, at: int, count: int, joined: int, steps: StepTables) -> int:
    """Count chunks from `at` on, up to the first one that the caller has to handle.

    Not counted are first tokens but `joined`'s, rows not in the table or without a worker, and a chunk for which the tables
    need more room (`GroupSteps.make_room`). If a step ends while a request waits for that, its chunk is counted as the last,
    and `steps.ended` gets the group. Returns the index of the first chunk that was not counted; `count` if all were.

    Args:
        rows, tokens: int64[n], the row of each chunk's request, and its output tokens.
        seen_s: float64[n], the time at which each chunk came, in seconds.
        at: index of the first chunk to count.
        count: index after the last chunk to count, at most n.
        joined: row whose first token is among them, and which the caller moved to running already; -1 = none.
        steps: the tables to change.
    """
    requests, workers, groups = steps.requests, steps.workers, steps.groups
    check(at >= 0 and count <= len(rows))
    while at < count:
        row, brought, now_s = rows[at], tokens[at], seen_s[at]
        if not 0 <= row < len(requests.worker):
            break
        worker: Any = requests.worker[row]
        last: Any = requests.step[row]
        if not 0 <= worker < len(workers.group) or (last == NEW and row != joined):
            break
        group: Any = workers.group[worker]
        check(0 <= group < len(groups.step))
        if requests.copies[row] > 1:  # each copy has its own chunks, and is not waited for
            requests.step[row] = WIDE
            requests.produced[row] += brought
            workers.load[worker] += brought
            at += 1
            continue
        step: Any = place(groups, group, last, brought, now_s)
        if not _has_room(steps, group, step - groups.step[group]):
            break
        if step >= groups.step[group] and groups.delivered[group] == 0:
            newcomer: Any = requests.prompt[row] + requests.produced[row] - 1 if last == NEW else 0
            begins(steps, group, worker, newcomer)
        requests.produced[row] += brought
        workers.load[worker] += brought
        requests.step[row], ended = deliver(steps, group, last, step, now_s)
        at += 1
        if ended > 0 and steps.quiet[0] == 0:
            steps.ended[0] = group
            break
    return at


@declared(None if INT is None else INT(INT, _TABLES))
def count_leave(row: int, steps: StepTables) -> int:
    """Count off the running request in this row: from now on no step of its barrier group waits for its tokens.

    Call it before the row loses its worker and tokens, and after `GroupSteps.make_room` for the group. Returns the number of
    the group's steps that end because they waited only for this request, 0 or more.
    """
    requests, groups = steps.requests, steps.groups
    worker, last = requests.worker[row], int(requests.step[row])
    group: Any = steps.workers.group[worker]
    if was_in_step(groups, group, last):
        steps.workers.left[worker] += requests.prompt[row] + requests.produced[row] - requests.copies[row]
    ended = leave(steps, group, last)
    if groups.running[group] == 0:
        stopped(steps, group)
    return int(ended)
