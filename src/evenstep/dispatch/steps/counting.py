"""Counts chunks and leaving requests; the only place that changes tokens, steps and step times."""

from __future__ import annotations

from typing import Any

from evenstep import compiled
from evenstep.compiled import FLOAT, I1, INT, check, declared, part
from evenstep.dispatch.steps.lockstep import deliver, leave, place, was_in_step
from evenstep.dispatch.steps.state import NEW, TOGETHER, WIDE, StepTables
from evenstep.dispatch.steps.steps import begins, stopped
from evenstep.request import I8

TABLES = compiled.struct(StepTables)


@part
def _has_room(steps: StepTables, group: int, ahead: int) -> bool:
    """Whether there is room for a delivery so many steps ahead, and for all steps that may end with it."""
    groups = steps.groups
    most = max(ahead, groups.early[group])
    if most > steps.early_room:
        return False
    news = groups.news[group]
    return groups.size[group] == 1 or (news < TOGETHER and news + most + 3 <= steps.news_room)


@declared(None if INT is None else INT(I1, INT, INT, FLOAT, INT, TABLES))
def count_chunks(told: I8, at: int, count: int, now_s: float, joined: int, steps: StepTables) -> int:
    """Count chunks from `at` on, up to the first one that the caller has to handle.

    Not counted are first tokens, rows that are not in the table or have no worker, and a chunk for which the tables need
    more room (`GroupSteps.make_room`). If a step ends while a request waits for that, its chunk is counted as the last, and
    `steps.ended` gets the group. Returns the index of the first chunk that was not counted; `count` if all were.

    Args:
        told: int64[2 n], the row of each chunk, then the tokens of each.
        at: index of the first chunk to count.
        count: index after the last chunk to count, at most n.
        now_s: time at which they came, in seconds.
        joined: row whose first token is among them, and which the caller moved to running already; -1 = none.
        steps: the tables to change.
    """
    requests, workers, groups = steps.requests, steps.workers, steps.groups
    check(at >= 0 and count <= len(told) // 2)
    while at < count:
        row, tokens = told[at], told[len(told) // 2 + at]
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
            requests.produced[row] += tokens
            workers.load[worker] += tokens
            at += 1
            continue
        step: Any = place(groups, group, last, tokens, now_s)
        if not _has_room(steps, group, step - groups.step[group]):
            break
        if step >= groups.step[group] and groups.delivered[group] == 0:
            newcomer: Any = requests.prompt[row] + requests.produced[row] - 1 if last == NEW else 0
            begins(steps, group, worker, newcomer)
        requests.produced[row] += tokens
        workers.load[worker] += tokens
        requests.step[row], ended = deliver(steps, group, last, step, now_s)
        at += 1
        if ended > 0 and steps.quiet[0] == 0:
            steps.ended[0] = group
            break
    return at


@declared(None if INT is None else INT(INT, TABLES))
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
