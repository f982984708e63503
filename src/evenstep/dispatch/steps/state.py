"""The state of the steps of all barrier groups, as named columns that plain methods and compiled functions share."""

from __future__ import annotations

from typing import NamedTuple

from evenstep.compiled import Floats, Ints

#: Instead of the number of the step that a request delivered last: it has no token yet; it is not waited for; it has copies.
NEW, BEHIND, WIDE = -1, 0, -2
#: New steps whose idle time is evaluated together.
TOGETHER = 256


class GroupColumns(NamedTuple):
    """Numbers of each barrier group, one column each. Times are seconds on the host's clock.

    `lockstep` counts and times steps, and `step_fit` fits the law of their seconds.
    """

    running: Ints  # requests
    step: Ints  # the oldest step that is not yet delivered by all
    expected: Ints  # requests expected in it
    delivered: Ints  # those of them that have delivered it
    going: Ints  # those of the delivered that have left since
    early: Ints  # how many steps after it have a delivery
    counts_tokens: Ints  # 1 if each token of a chunk is its own step, 0 if a chunk is one step
    begin: Ints  # place of its first worker in the columns of members
    size: Ints  # workers
    news: Ints  # steps whose idle time was not evaluated yet
    news_at: Ints  # place of the first of them in the columns of new steps; -1 for a group of one worker, which has none
    steps: Ints  # counted
    seen_s: Floats  # time of the last delivery in the step, or in the step before until there is one
    ended_s: Floats  # when the last step ended; nan = unknown
    lasted_s: Floats  # moving average of how long a step took; inf = unknown
    parted: Floats  # how often requests were several steps apart, lately
    complete_s: Floats  # when its last step was complete; nan = nothing ran before
    seconds: Floats  # of a step that is complete and not counted yet, else nan
    step_s: Floats  # how long the last counted step took; 0 before there is one
    counted_s: Floats  # when that ended; nan before there is one
    idle_share: Floats  # of the last evaluated step
    idle_device_s: Floats  # of all workers, in the evaluated steps that had a law
    weight: Floats  # of the steps in the fitted law
    load_mean: Floats  # of the envelope, in KV tokens
    seconds_mean: Floats
    load_moment: Floats  # centred: sum of squares of loads
    both_moment: Floats  # of products of loads and seconds
    seconds_moment: Floats  # of squares of seconds
    seconds_per_token: Floats  # the law's slope; nan without one
    overhead_s: Floats  # its fixed part


class EarlySteps(NamedTuple):
    """The steps after the present one, which may already have deliveries: `early_room` rows a group, group after group.

    The columns are as in `GroupColumns`; the first row of a group is the step after `step`.
    """

    delivered: Ints
    going: Ints
    seen_s: Floats


class Members(NamedTuple):
    """The workers of each group, group after group; `GroupColumns.begin` and `size` say which rows are a group's."""

    place: Ints  # in the mirror
    load: Floats  # in the last step counted, before its own tokens


class NewSteps(NamedTuple):
    """Steps whose idle time is not computed yet: `news_room` rows for each group of several workers. Loads are KV tokens."""

    heaviest: Floats  # the heaviest worker's load
    total: Floats  # all loads
    fixed: Floats  # the fixed part of a step, in tokens; nan while there is no law
    seconds: Floats


class Held(NamedTuple):
    """Columns of the mirror (`mirror.WorkerColumns`) that steps read and write, one row for each worker."""

    group: Ints
    running: Ints
    load: Floats
    foreign_load: Floats
    left: Floats


class Told(NamedTuple):
    """Columns of the table of requests (`rows.RequestColumns`) that steps read and write."""

    worker: Ints
    prompt: Ints
    produced: Ints
    copies: Ints
    step: Ints


class StepTables(NamedTuple):
    """The tables that chunks and leaving requests change; their columns are as their types say."""

    requests: Told
    workers: Held
    groups: GroupColumns
    early: EarlySteps
    members: Members
    news: NewSteps
    early_room: int  # rows for each group in `early`
    news_room: int  # rows for each group of several workers in `news`
    quiet: Ints  # array of one number, only read: 1 while no request waits for the end of a step, else 0
    ended: Ints  # array of one number, written: the group whose step ended while a request waited for that; -1 = no group
