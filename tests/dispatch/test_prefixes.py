"""What was sent where, by prompt blocks."""

from __future__ import annotations

import random
from collections import OrderedDict

import numpy as np
import pytest
from tests.dispatch.told import Story

from evenstep.dispatch import commands as co
from evenstep.dispatch import events as ev
from evenstep.dispatch.fleet.prefixes import Prefixes
from evenstep.dispatch.log.file import LogFile, part_of
from evenstep.dispatch.replay import replay
from evenstep.dispatch.settings import Settings, WorkerSpec
from evenstep.streams import uniform


def cached(found, *requests):
    return found.cached(np.array(requests), np.full(100, 100)).tolist()


def test_a_prompt_counts_as_cached_where_it_was_sent_until_the_worker_is_lost():
    found = Prefixes(room=8)
    found.resize(["a", "b"])
    found.add(1, (5, 6))
    assert cached(found, 1, 3) == [[0, 0], [0, 0]]
    assert cached(found, 3) == []  # nothing is known
    found.add(2, (5, 7))
    assert cached(found, 1, 2, 3) == [[0, 0], [0, 0], [0, 0]]
    found.sent(1, 1, 100)
    assert cached(found, 2) == [[0, 50]]
    found.sent(2, 1, 100)
    assert (found.sent_tokens, found.hit_tokens) == (200, 50)
    found.lost(1)
    found.add(4, (5, 7))
    assert cached(found, 4) == [[0, 0]]


def test_a_worker_that_fails_a_health_check_loses_what_it_was_believed_to_hold():
    story = Story("prefix-affinity")
    for name in "ab":
        story.worker(name)
    name = story.sent(1, blocks=(1, 2, 3)).worker
    place = story.d.mirror.place[name]
    story.arrives(2, blocks=(1, 2, 3))
    row = story.d.rows.by_request[2]
    assert story.d.parts.prefixes.cached(np.array([row]), np.full(100, 90))[0, place] == 90
    story.tell(ev.Probed, worker=name, ok=False)
    assert story.d.parts.prefixes.cached(np.array([row]), np.full(100, 90))[0, place] == 0


def test_a_reload_changes_how_many_blocks_a_worker_may_hold():
    story = Story("prefix-affinity")
    story.worker("a")
    story.sent(1, blocks=(1, 2, 3))
    story.tell(ev.Reloaded, settings=Settings(prefix_blocks=2))
    assert story.d.snapshot()["workers"][0]["prefix_room_blocks"] == 2
    story.tell(ev.WorkerAdded, spec=WorkerSpec(name="b", scraped=False))
    assert [worker["prefix_room_blocks"] for worker in story.d.snapshot()["workers"]] == [2, 2]


def test_nothing_is_kept_of_requests_that_ended():
    found = Prefixes(room=8)
    found.resize(["a"])
    found.add(1, (5,))
    cached(found, 1)
    with pytest.raises(RuntimeError, match="ended"):
        found.check(set(), set())
    found.forget(1)
    found.check(set(), set())


def test_what_is_sent_and_what_makes_room_for_it_is_seen_by_those_that_wait():
    found = Prefixes(room=3)
    found.resize(["a", "b"])
    found.is_read = True
    for row, blocks in enumerate([(1, 2, 3), (1, 2, 4), (9,)]):
        found.add(row, blocks)
    found.sent(0, 0, 90)
    assert found.cached(np.array([1, 2]), np.array([90, 90, 10])).tolist() == [[60, 0], [0, 0]]
    found.sent(2, 0, 10)  # block 3 goes
    found.check({0, 1, 2}, {1})
    found.waits_again(0)
    assert found.cached(np.array([0, 1]), np.array([90, 90, 10])).tolist() == [[60, 0], [60, 0]]
    found.check({0, 1, 2}, {0, 1})
    found.lost(0)
    assert found.cached(np.array([0]), np.array([90])).tolist() == [[0, 0]]


@pytest.mark.parametrize("is_read", [True, False])
@pytest.mark.parametrize("seed", range(6))
def test_waiting_requests_always_see_what_workers_hold(is_read, seed):
    """Prompts are paths of a tree; `check` compares what is kept up with a fresh look-up."""
    chance, found = random.Random(seed), Prefixes(room=6)
    found.resize(["a", "b"])
    found.is_read = is_read
    prompts, waiting, sent, hits = {}, set(), set(), 0
    for row in range(60):
        path = [chance.choice("xy") for _ in range(chance.randint(1, 5))]
        prompts[row] = tuple(hash_of(path[: k + 1]) for k in range(len(path)))
        found.add(row, prompts[row])
        waiting.add(row)
        if waiting and chance.random() < 0.7:
            gone, worker = chance.choice(sorted(waiting)), chance.randrange(2)
            hits += 60 * int(found._index.match(prompts[gone])[worker]) // len(prompts[gone])
            found.sent(gone, worker, 60)
            waiting.remove(gone), sent.add(gone)
        if sent and chance.random() < 0.3:
            back = chance.choice(sorted(sent))
            found.waits_again(back)
            sent.remove(back), waiting.add(back)
        if chance.random() < 0.3:
            over = chance.choice(sorted(prompts))
            found.forget(over)
            waiting.discard(over), sent.discard(over)
            del prompts[over]
        if chance.random() < 0.1:
            found.lost(chance.randrange(2))
        if waiting and chance.random() < 0.5:
            asked = np.array(sorted(waiting))
            held = found.cached(asked, np.full(100, 60))
            for one, row_of in zip(held, asked.tolist(), strict=True):
                share = found._index.match(prompts[row_of]) / len(prompts[row_of])
                assert one.tolist() == pytest.approx((60 * share).tolist())
        found.check(set(prompts), waiting)
    assert found.hit_tokens == hits > 0
    for row in list(prompts):
        found.forget(row)
    found.check(set(), set())
    assert not found._ends and not found.has_any


def hash_of(path):
    return int("".join(path).replace("x", "1").replace("y", "2"))


def test_of_a_long_prompt_later_blocks_count_for_more_text():
    """The first 64 blocks are of one length, each later one of eight times that (`prompt_blocks`)."""
    found = Prefixes(room=100)
    found.resize(["a"])
    blocks = tuple(range(1, 67))
    for row in range(2):
        found.add(row, blocks[: 65 + row])
    found.sent(0, 0, 720)
    assert found.cached(np.array([1]), np.array([720, 800])).tolist() == [[720.0]]
    found.sent(1, 0, 800)
    assert found.hit_tokens == 720


class Cache:
    """An engine's prefix cache of so many blocks of 10 tokens, used longest ago out first, with its counters."""

    def __init__(self, room):
        self.room, self.held, self.queried, self.hit = room, OrderedDict(), 0, 0

    def serves(self, blocks):
        depth = next((d for d, block in enumerate(blocks) if block not in self.held), len(blocks))
        self.queried, self.hit = self.queried + 10 * len(blocks), self.hit + 10 * depth
        for block in reversed(blocks):
            self.held[block] = None
            self.held.move_to_end(block)
        while len(self.held) > self.room:
            self.held.popitem(last=False)


class Served:
    """A dispatcher, engines with caches, and sessions whose prompts grow: what is believed, and what is true."""

    def __init__(self, caches, *, tells=True, log=None):
        self.story = Story("prefix-affinity", prefix_blocks=65_536, log=log)
        self.caches, self.tells = caches, tells
        self.turns, self.running = [0] * 60, []
        for name in caches:
            self.story.worker(name, slots=4)

    def request(self, number):
        # some sessions come often, others seldom
        session = int(60 * uniform(1, "session", number) ** 2)
        self.turns[session] = self.turns[session] % 12 + 1
        blocks = tuple(1000 * session + k for k in range(1, 5 * self.turns[session] + 1))
        handle = self.story.d.handle
        told = handle(ev.Arrived(now_s=number, request=number, prompt_tokens=10 * len(blocks), blocks=blocks))
        told += handle(ev.Tick(now_s=number))
        (sent,) = [c for c in told if isinstance(c, co.SendDecode)]
        self.caches[sent.worker].serves(blocks)
        self.running.append(sent)
        if len(self.running) > 5:
            done = self.running.pop(0)
            handle(ev.Finished(now_s=number, request=done.request, leg=done.leg, output_tokens=1))
        if number % 20 == 0:
            for name, cache in self.caches.items():
                counters = {"prefix_queried": cache.queried, "prefix_hit": cache.hit} if self.tells else {}
                self.story.sampled(name, at=number, **counters)

    def shares(self, requests):
        """Believed and true share of the prompt tokens of these requests."""
        prefixes = self.story.d.parts.prefixes
        before = prefixes.sent_tokens, prefixes.hit_tokens, sum(c.hit for c in self.caches.values())
        for number in requests:
            self.request(number)
        sent = prefixes.sent_tokens - before[0]
        hit = sum(c.hit for c in self.caches.values()) - before[2]
        return (prefixes.hit_tokens - before[1]) / sent, hit / sent


@pytest.mark.slow
def test_engines_with_smaller_caches_than_believed_are_believed_as_they_are_after_a_while():
    served = Served({"a": Cache(600), "b": Cache(1200)})
    served.shares(range(1, 3001))
    believed, true = served.shares(range(3001, 6001))
    assert believed == pytest.approx(true, abs=0.01)
    assert 0.2 < true < 0.9
    shown = {one["worker"]: one for one in served.story.d.snapshot()["workers"]}
    for name, cache in served.caches.items():
        assert shown[name]["prefix_room_blocks"] == pytest.approx(cache.room, rel=0.25)
        assert abs(shown[name]["prefix_believed_share"] - shown[name]["prefix_true_share"]) < 0.15


@pytest.mark.slow
def test_engines_that_tell_no_counters_are_believed_as_before():
    served = Served({"a": Cache(600), "b": Cache(1200)}, tells=False)
    believed, true = served.shares(range(1, 3001))
    assert believed > true + 0.1
    shown = served.story.d.snapshot()["workers"]
    assert [one["prefix_room_blocks"] for one in shown] == [65_536, 65_536]
    assert [one["prefix_true_share"] for one in shown] == [None, None]


@pytest.mark.slow
def test_what_was_learned_of_a_worker_stays_when_the_fleet_changes():
    served = Served({"a": Cache(600), "b": Cache(1200)})
    served.shares(range(1, 3001))
    prefixes = served.story.d.parts.prefixes
    learned = [prefixes.belief(place).room for place in range(2)]
    assert max(learned) < 1800
    served.story.worker("c")
    assert [prefixes.belief(place).room for place in range(3)] == [*learned, 65_536]
    served.story.tell(ev.WorkerRemoved, worker="a", drain=False)
    assert [prefixes.belief(place).room for place in range(2)] == [learned[1], 65_536]


def test_those_that_wait_see_what_a_worker_is_no_longer_believed_to_hold():
    found = Prefixes(room=100)
    found.resize(["a"])
    found.is_read = True
    found.sampled(0, 0, 0)
    for row in range(64):
        found.add(row, (1, 2, 3, 4))
        found.sent(row, 0, 100)
        found.forget(row)
    found.add(64, (1, 2, 3, 4))
    assert cached(found, 64) == [[100]]
    found.sampled(0, 6400, 3200)
    assert cached(found, 64) == [[50]]
    found.check({64}, {64})


@pytest.mark.slow
def test_a_replay_learns_the_same(tmp_path):
    file = LogFile(tmp_path / "log.evlog", part_bytes=200_000)
    served = Served({"a": Cache(600), "b": Cache(1200)}, log=file)
    served.shares(range(1, 1501))
    file.close()
    assert file.part > 1
    assert served.story.d.parts.prefixes.belief(0).room < 65_536
    for part in (0, file.part):
        found = replay(part_of(file.path, part))
        assert found.decisions > 10 and found.difference is None
