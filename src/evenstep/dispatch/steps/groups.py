"""The steps of all barrier groups: their columns, and the figures of one group."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from evenstep.dispatch.columns import Columns, Restored
from evenstep.dispatch.fleet.mirror import Mirror
from evenstep.dispatch.steps.lockstep import AHEAD, MOST
from evenstep.dispatch.steps.state import TOGETHER, EarlySteps, GroupColumns, Members, NewSteps
from evenstep.dispatch.steps.step_fit import fit_of
from evenstep.measure.metrics import idle_share, imbalance_envelope, known, spread

_EARLY_ROOM = 2 * AHEAD  # early steps there is room for, at first
_MARGIN = 2 * AHEAD + 4  # steps that a chunk may end at once, at first
_FIRST = 2  # number of the first step: the step before it has 1, which is above `BEHIND`


class GroupSteps(Restored):
    """The steps of all groups. Each request is tracked by the number of its last delivered step, which its row keeps.

    Args:
        members, running: of each group, the places of its workers in the mirror, and the number of running requests.

    Attributes:
        at: columns of the groups (`GroupColumns`), for single numbers.
        early_room, news_room: rows for each group in `early`, and for each group of several workers in `news`.
        generation: grows by one whenever columns are replaced.
    """

    made_anew = ("at",)

    def __init__(self, members: Sequence[Sequence[int]] = (), running: Sequence[int] = ()) -> None:
        sizes = [len(places) for places in members]
        many = np.array([size > 1 for size in sizes], np.bool_)
        self.early_room, self.news_room, self.generation = _EARLY_ROOM, TOGETHER + _MARGIN, 0
        self.groups = Columns(GroupColumns, len(sizes))
        self.early = Columns(EarlySteps, len(sizes) * self.early_room)
        self.members = Columns(Members, sum(sizes))
        self.news = Columns(NewSteps, int(many.sum()) * self.news_room)
        groups = self.groups.arrays
        groups.running[:], groups.step[:], groups.counts_tokens[:] = running, _FIRST, 1
        groups.size[:], groups.begin[:] = sizes, np.cumsum([0, *sizes])[:-1]
        groups.news_at[:] = np.where(many, (np.cumsum(many) - 1) * self.news_room, -1)
        unknown = groups.seen_s, groups.ended_s, groups.complete_s, groups.counted_s, groups.seconds
        for column in (*unknown, groups.seconds_per_token, groups.overhead_s):
            column[:] = math.nan
        groups.lasted_s[:] = math.inf
        self.members.arrays.place[:] = [place for places in members for place in places]
        self._make_anew()

    def _make_anew(self) -> None:
        self.at: Any = self.groups.at

    def __len__(self) -> int:
        return len(self.groups)

    def make_room(self, group: int, last: int = 0, tokens: int = 0) -> None:
        """Make room in the tables for the next chunk, or the next request that leaves; `generation` tells of new columns.

        `last`: step that the chunk's request delivered last, 0 for a request that leaves. `tokens`: those in the chunk.
        If the idle time of 256 steps is not computed yet, that is done first.
        """
        at = self.at
        ahead = max(at.early[group], last - at.step[group] + (min(tokens, MOST) if at.counts_tokens[group] else 1))
        if ahead > self.early_room:
            room = self.early_room
            while room < ahead:
                room *= 2
            self.early, self.early_room = _widened(self.early, self.early_room, room), room
            self.generation += 1
        if at.size[group] > 1:
            while at.news[group] >= TOGETHER:  # a chunk may end several times as many
                self._look_at(group, TOGETHER)
            if at.news[group] + ahead + 3 > self.news_room:
                room, before, first = TOGETHER + ahead + 3, self.news_room, self.groups.arrays.news_at
                self.news, self.news_room = _widened(self.news, before, room), room
                first[first > 0] = first[first > 0] // before * room
                self.generation += 1

    def look(self, group: int) -> None:
        """Compute idle share and idle seconds of the group's steps counted since the last look, into its columns."""
        while self.at.news[group]:
            self._look_at(group, min(self.at.news[group], TOGETHER))

    def _look_at(self, group: int, count: int) -> None:
        """Compute idle share and idle seconds of the group's `count` oldest steps in `news`, and remove them there."""
        at, size = self.at, self.at.size[group]
        begin, end = at.news_at[group], at.news_at[group] + at.news[group]
        new = self.news.floats[:, begin:end]
        heaviest, total, fixed, seconds = np.ascontiguousarray(new[:, :count])
        is_of_time = ~np.isnan(fixed)  # without a law the shares are of load, and no seconds follow from them
        share = idle_share(heaviest, total, np.full(count, float(size)), np.where(is_of_time, fixed, 0.0))
        at.idle_share[group] = float(share[-1])
        at.idle_device_s[group] += size * float((share * seconds)[is_of_time].sum())
        new[:, : end - begin - count] = new[:, count:].copy()
        at.news[group] -= count

    def check(self, group: int, last: Sequence[int]) -> None:
        """Raise a RuntimeError unless a group's counts agree with its running requests.

        `last` has, for each running request of the group, the number of the step that it delivered last.
        """
        at, early = self.at, self.early.arrays
        step, begin, end = at.step[group], group * self.early_room, group * self.early_room + at.early[group]
        going = [at.going[group], *early.going[begin:end].tolist()]
        kept = [at.running[group], at.expected[group], at.delivered[group]]
        kept += early.delivered[begin:end].tolist()
        told = [len(last), sum(one >= step - 1 for one in last) + sum(going)]
        told += [sum(one >= step + n for one in last) + sum(going[n:]) for n in range(len(going))]
        if kept != told:
            raise RuntimeError(f"the steps of group {group} have {kept}; its requests say {told}")


def _widened(columns: Columns[Any], room: int, wider: int) -> Columns[Any]:
    """A copy of the columns with `wider` rows for each group instead of `room`; new rows are 0."""
    made = Columns(columns.shape, len(columns) // room * wider)
    for old, new in ((columns.ints, made.ints), (columns.floats, made.floats)):
        if old.size:
            new.reshape(len(new), -1, wider)[:, :, :room] = old.reshape(len(old), -1, room)
    return made


class Steps:
    """Figures of one group's steps, read from the common columns at each access."""

    def __init__(self, all_steps: GroupSteps, group: int) -> None:
        self._all, self._group = all_steps, group

    @property
    def members(self) -> list[int]:
        """Places of the group's workers in the mirror, ascending."""
        return self._of_members(self._all.members.arrays.place)

    @property
    def load(self) -> list[float]:
        """KV tokens of each worker at the start of the last counted step, in the order of `members`; 0 before the first."""
        return self._of_members(self._all.members.arrays.load)

    def _of_members(self, column: Any) -> Any:
        """The group's part of a column of members, as a list."""
        begin = self._all.at.begin[self._group]
        return column[begin : begin + self._all.at.size[self._group]].tolist()

    def values(self, mirror: Mirror) -> dict[str, object]:
        """The group's figures by metric name, for a metrics page: numbers, a text, a dictionary, None for an unknown value.

        The idle ratio is of the last counted step, 0..1, and 0 for a single worker. With a fitted law it is of step time,
        the fixed part included, else of loads alone. Idle device seconds are those lost at the barrier, summed over workers
        and over the steps counted while there was a fitted law.
        """
        self._all.look(self._group)
        at, group, fit = self._all.at, self._group, fit_of(self._all.at, self._group)
        load = np.array([mirror.at.load[g] + mirror.at.foreign_load[g] for g in self.members])
        heaviest, lightest, total = (np.array([float(x)]) for x in (load.max(), load.min(), load.sum()))
        return {
            "balance_ratio": float(total[0] / load.size / heaviest[0]) if heaviest[0] > 0 else 1.0,
            "barrier_idle_ratio": at.idle_share[group],
            "ratios_are_of": "time" if fit.seconds_per_token > 0.0 else "load",
            "imbalance_tokens": {
                "envelope": float(imbalance_envelope(heaviest, total, np.array([float(load.size)]))[0]),
                "spread": float(spread(heaviest, lightest)[0]),
            },
            "barrier_idle_device_seconds_total": at.idle_device_s[group],
            "steps_total": at.steps[group],
            "step_seconds": at.step_s[group],
            "overhead_seconds": known(fit.overhead_s),
            "seconds_per_token": known(fit.seconds_per_token),
            "fit_r_squared": known(fit.r_squared),
            "fit_error": known(fit.error) if fit.error < math.inf else None,
        }
