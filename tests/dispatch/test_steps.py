"""Idle time at the barrier, live."""

from __future__ import annotations

import pytest
from tests.dispatch.told import Story

from evenstep.compiled import as_plain
from evenstep.dispatch import events as ev
from evenstep.dispatch.fleet.mirror import Mirror
from evenstep.dispatch.requests.rows import Rows
from evenstep.dispatch.rounds.barriers import tables_of
from evenstep.dispatch.settings import WorkerSpec
from evenstep.dispatch.steps.groups import GroupSteps, Steps
from evenstep.dispatch.steps.lockstep import begins, completed, stopped


class Two:
    """A group of two workers, whose steps begin and end as told."""

    def __init__(self):
        self.mirror, rows = Mirror(), Rows(1)
        for name in "ab":
            self.mirror.add(WorkerSpec(name=name, group="g", scraped=False), 0.0)
        steps = GroupSteps([[0, 1]], [0])
        self.tables = tables_of(steps, rows.columns.at, self.mirror.at, ([1], [-1]))._replace(
            groups=steps.groups.at, members=steps.members.at, news=steps.news.at
        )
        self.steps = Steps(steps, 0)

    @property
    def shown(self):
        return self.steps.values(self.mirror)

    def step(self, now_s, *load):
        self.mirror.at.load[0], self.mirror.at.load[1] = load
        as_plain(completed)(self.tables.groups, 0, now_s)
        as_plain(begins)(self.tables, 0, -1, 0)


def test_idle_shares_are_of_loads_until_there_is_a_law():
    two = Two()
    for now_s in (1.0, 1.5):  # the first has no beginning
        two.step(now_s, 100.0, 50.0)
    shown = two.shown
    assert shown["ratios_are_of"] == "load" and shown["steps_total"] == 1
    assert shown["barrier_idle_ratio"] == pytest.approx(0.25) and shown["balance_ratio"] == pytest.approx(0.75)
    assert shown["barrier_idle_device_seconds_total"] == 0.0  # of load, so no seconds
    assert shown["imbalance_tokens"] == {"envelope": 50.0, "spread": 50.0}
    as_plain(stopped)(two.tables, 0)
    two.step(99.0, 100.0, 50.0)
    assert two.shown["steps_total"] == 1


def test_with_a_law_they_are_of_time():
    two, now_s = Two(), 0.0
    for number in range(80):
        now_s += 100.0 + (100.0 + number)
        two.step(now_s, 100.0 + number, 0.0)
    assert two.shown["ratios_are_of"] == "time"
    assert two.shown["barrier_idle_ratio"] == pytest.approx(0.5 * 179 / 279)
    # the step that makes the law is the 50th counted; each worker that has no load waits as long as the other computes
    assert two.shown["barrier_idle_device_seconds_total"] == pytest.approx(sum(100.0 + number for number in range(50, 80)))


def test_idle_time_is_the_same_however_seldom_it_is_looked_at():
    often, seldom, now_s = Two(), Two(), 0.0
    for number in range(900):
        now_s += 100.0 + number % 7  # which makes a law
        for two in (often, seldom):
            two.step(now_s, 100.0 + number % 7, 90.0)
            two.steps._all.make_room(0)
        if number % 256 == 0:
            assert often.shown["barrier_idle_device_seconds_total"] >= 0.0
    assert seldom.shown["steps_total"] == 899 and seldom.shown["barrier_idle_device_seconds_total"] > 0.0
    assert seldom.shown["barrier_idle_device_seconds_total"] == pytest.approx(
        often.shown["barrier_idle_device_seconds_total"], rel=1e-12
    )
    assert seldom.shown["barrier_idle_ratio"] == often.shown["barrier_idle_ratio"]


def loads_of_steps(chunks):
    """Two workers of one group under `jsq`, a and b with prompts of 100 and 50: what each counted step held.

    Args:
        chunks: per step, the events in order: a request's number = it delivers a token, its negative = it is finished,
            "n" = request n of 10 tokens arrives and is sent.
    """
    story = Story()
    for name in "ab":
        story.worker(name, group="g", scraped=False, heard=False)
    sent, found = {}, []

    def arrives(request, prompt_tokens):
        story.arrives(request, prompt_tokens)
        (sent[request],) = story.tick()

    arrives(1, 100), arrives(2, 50)
    for at, step in enumerate(chunks, 1):
        for what in step:
            story.d.now_s = story.now_s = story.now_s + 1e-3
            if isinstance(what, str):
                arrives(int(what), 10)
            elif what > 0:
                story.d.produced(sent[what].row, 1)
                story.d.count()
            else:
                story.tell(ev.Finished, request=-what, leg=sent[-what].leg)
            (group,) = story.d.parts.barriers.steps
            if story.d.parts.barriers.all.at.steps[0] > len(found):
                found.append(group.load)
        story.now_s = float(at)
    return found


def test_a_step_holds_the_prompts_and_what_was_produced_before_it():
    """But for the first one, of which nobody knows how long it lasted."""
    assert loads_of_steps([(1, 2), (1, 2), (2, 1), (1,)]) == [[101.0, 51.0], [102.0, 52.0]]


@pytest.mark.parametrize("second", [(1, 2, -2), (2, -2, 1)])
def test_who_ends_with_a_step_was_in_it(second):
    assert loads_of_steps([(1, 2), second, (1,), (1,)]) == [[101.0, 51.0], [102.0, 0.0]]


def test_a_first_token_that_is_late_for_a_step_is_in_it():
    chunks = [(1, 2), ("3", 1, 2, 3), (1, 2, 3), (1,)]
    assert loads_of_steps(chunks) == [[111.0, 51.0], [113.0, 52.0]]


def test_a_first_token_that_comes_with_the_next_step_is_not_in_the_last():
    chunks = [(1, 2), ("3", 1, 2), (3, 1, 2), (1, 2, 3)]
    assert loads_of_steps(chunks) == [[101.0, 51.0], [112.0, 52.0]]


def test_a_group_that_stops_counts_its_last_step():
    assert loads_of_steps([(1, 2), (1, -1, 2, -2)]) == [[101.0, 51.0]]


def test_the_figures_of_now_have_the_load_of_others_and_an_empty_group_is_balanced():
    two = Two()
    shown = two.shown
    assert (shown["balance_ratio"], shown["imbalance_tokens"]) == (1.0, {"envelope": 0.0, "spread": 0.0})
    assert shown["seconds_per_token"] is shown["fit_error"] is shown["fit_r_squared"] is None
    two.mirror.at.load[0], two.mirror.at.load[1], two.mirror.at.foreign_load[1] = 100.0, 50.0, 30.0
    shown = two.shown
    assert shown["balance_ratio"] == pytest.approx(0.9)
    assert shown["imbalance_tokens"] == {"envelope": 20.0, "spread": 20.0}


def test_room_for_one_group_leaves_what_is_kept_of_the_others():
    steps = GroupSteps([[0, 1], [2], [3, 4], [5, 6]], [2, 1, 2, 2])
    early, news = (steps.early.arrays.seen_s, steps.news.arrays.seconds)
    for group in range(4):
        steps.at.early[group], steps.at.news[group] = 3, 5 if group != 1 else 0
        for k in range(3):
            early[group * steps.early_room + k] = 10 * group + k + 1
        for k in range(steps.at.news[group]):
            news[steps.at.news_at[group] + k] = 100 * group + k + 1
    room, generation = (steps.early_room, steps.news_room), steps.generation
    steps.make_room(0, last=steps.at.step[0] - 1, tokens=700)
    assert steps.early_room >= 699 and steps.news_room > room[1] and steps.generation > generation
    assert len(steps.early) == 4 * steps.early_room and len(steps.news) == 3 * steps.news_room
    early, news = (steps.early.arrays.seen_s, steps.news.arrays.seconds)
    for group in range(4):
        begin, at = group * steps.early_room, steps.at.news_at[group]
        assert early[begin : begin + 4].tolist() == [10 * group + k + 1 for k in range(3)] + [0.0]
        assert at < 0 if group == 1 else news[at : at + 5].tolist() == [100 * group + k + 1 for k in range(5)]
