"""Rules for counting steps of a barrier group: when a step is complete, its load, and its seconds."""

from __future__ import annotations

from typing import Any

import numpy as np

from evenstep.compiled import check, part
from evenstep.dispatch.steps.state import GroupColumns, StepTables
from evenstep.dispatch.steps.step_fit import add


@part
def completed(groups: GroupColumns, group: int, now_s: float) -> None:
    """Note `now_s`, the time at which a step was complete; its seconds are those since the step before was.

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
        _count(steps, group, seconds)
    for k in range(begin, end):
        workers.left[members.place[k]] = 0.0


@part
def stopped(steps: StepTables, group: int) -> None:
    """Count the last step of a group that now has no running requests; the pause until its next step is in no step."""
    begins(steps, group, -1, 0)
    steps.groups.complete_s[group] = np.nan


@part
def _count(steps: StepTables, group: int, seconds: float) -> None:
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
