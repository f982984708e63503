"""The prefix index against lists kept by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenstep.errors import InputError
from evenstep.routing.prefix_index import PrefixIndex

#: Prompts of a few words; a block's id is the number that its whole prefix makes, as an id stands for all up to its end.
prompts = st.lists(st.integers(1, 3), max_size=6).map(
    lambda words: [int("".join(map(str, words[: k + 1]))) for k in range(len(words))]
)
moves = st.lists(st.tuples(st.sampled_from(["add", "add", "add", "forget"]), st.integers(0, 2), prompts), max_size=30)


def front(prompt, held):
    depth = 0
    while depth < len(prompt) and prompt[depth] in held:
        depth += 1
    return depth


@given(st.integers(1, 6), moves, prompts)
def test_it_knows_what_lists_of_latest_uses_know(room, done, asked):
    index, lists = PrefixIndex(3, room), [[], [], []]  # each list: latest use first
    for what, worker, prompt in done:
        if what == "forget":
            index.forget(worker)
            lists[worker] = []
        else:
            index.add(worker, prompt)
            kept = prompt[:room]
            lists[worker] = [*kept, *(b for b in lists[worker] if b not in kept)][:room]
        index.check()
    expected = [front(asked, held) for held in lists]
    assert index.match(asked).tolist() == expected
    assert [index.held(g, asked) for g in range(3)] == expected


def test_of_a_prompt_the_hindmost_blocks_go_first():
    index = PrefixIndex(1, 4)
    index.add(0, [1, 2, 3])
    index.add(0, [7, 8])
    assert index.match([1, 2, 3]).tolist() == [2]


def test_a_prompt_longer_than_the_room_keeps_its_front():
    index = PrefixIndex(2, 2)
    index.add(1, [1, 2, 3])
    assert index.match([1, 2, 3]).tolist() == [0, 2]


def test_a_worker_with_less_room_loses_what_was_used_longest_ago():
    index = PrefixIndex(2, 4)
    for worker in range(2):
        index.add(worker, [1, 2])
        index.add(worker, [7, 8])
    assert index.limit(0, 3) == [2]
    assert (index.size(0), index.size(1)) == (3, 4)
    assert index.match([1, 2]).tolist() == [1, 2]
    assert index.limit(0, 0) == [1, 8, 7]
    assert index.add(0, [5]) == []
    index.check()
    assert (index.size(0), index.held(0, [5])) == (0, 0)


@pytest.mark.parametrize(("workers", "room"), [(0, 1), (1, 0)])
def test_an_index_of_nothing_is_refused(workers, room):
    with pytest.raises(InputError, match="prefix index: "):
        PrefixIndex(workers, room)
