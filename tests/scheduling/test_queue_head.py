"""What is remembered of a queue is what a look at all of it would find."""

from types import SimpleNamespace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from evenstep.compiled import as_plain
from evenstep.scheduling.adaptive import queue_head as foremost
from evenstep.scheduling.adaptive.queue_head import Gap

RUNNING = 2


def seen(queue, arrived):
    """What of a view is looked at: two that run, then a queue of (id, prompt, evictions)."""
    rows = [(1000, 5, 0), (1001, 7, 0), *queue]
    column = {name: np.array([row[k] for row in rows]) for k, name in enumerate(("id", "prompt", "evictions"))}
    return SimpleNamespace(
        request_id=column["id"],
        prompt_tokens=column["prompt"],
        left=column["prompt"] + 10 * column["evictions"],
        evictions=column["evictions"],
        output_low=column["prompt"] * 0,
        output_high=column["prompt"] * 0,
        arrived=np.array([arrived]),
        running=np.arange(RUNNING),
        waiting=np.arange(RUNNING, len(rows)),
    )


def joining_of(memory, joined):
    """A batch to which these positions have been added."""
    picked = np.array([*joined, 0])
    batch = SimpleNamespace(memory=memory, picked=picked, given=np.array([len(joined)]))
    return SimpleNamespace(batch=batch, start=np.zeros(1, np.int64), newcomers=batch.given)


def recall(memory, view, places, joined):
    as_plain(foremost.recall)(view, joining_of(memory, joined), places, int(view.arrived.sum()))


def found(memory, view, joined):
    place = as_plain(foremost.found)(view, joining_of(memory, joined))
    return place if place < 0 else RUNNING + place


def look_over(memory, view, places, joined):
    place, _ = as_plain(foremost.look_over)(view, joining_of(memory, joined), places, Gap(0, 0, 0, 0, 1))
    return RUNNING + place


def waiting(view, window, joined):
    return [k for k in range(RUNNING, view.left.size) if k not in joined][: max(window - len(joined), 0)]


def foremost_of(view, queue):
    evicted = [k for k in queue if view.evictions[k]]
    return evicted[0] if evicted else min(queue, key=lambda k: int(view.prompt_tokens[k]))


@given(st.integers(1, 6), st.data())
def test_what_is_remembered_is_what_a_look_at_all_finds(window, data):
    memory, queue, arrived = np.zeros(foremost.MEMORY, np.int64), [], 0
    for _ in range(data.draw(st.integers(1, 12))):
        for _ in range(data.draw(st.integers(0, 3))):
            queue.append((arrived, data.draw(st.integers(1, 9)), 0))
            arrived += 1
        if data.draw(st.integers(0, 5)) == 0:
            queue.insert(data.draw(st.integers(0, len(queue))), (500 + arrived, 3, 1))
        view, joined = seen(queue, arrived), []
        recall(memory, view, min(len(queue), window), joined)
        while (left := waiting(view, window, joined)) and data.draw(st.booleans()):
            known = found(memory, view, joined)
            assert known in (-1, foremost_of(view, left))
            assert memory[foremost.FEWEST] <= min(int(view.left[k]) for k in left)
            if known < 0 and data.draw(st.booleans()):
                assert look_over(memory, view, min(len(queue), window), joined) == foremost_of(view, left)
                assert found(memory, view, joined) == foremost_of(view, left)
            if data.draw(st.booleans()):
                request = data.draw(st.sampled_from(left))
                as_plain(foremost.leave)(view, joining_of(memory, joined), request - RUNNING)
                joined.append(request)
        queue = [row for k, row in enumerate(queue, RUNNING) if k not in joined]


def test_a_queue_that_only_grows_is_not_looked_over_again():
    memory, view = np.zeros(foremost.MEMORY, np.int64), seen([(0, 5, 0), (1, 4, 0)], 2)
    recall(memory, view, 2, [])
    assert look_over(memory, view, 2, []) == 3
    view = seen([(0, 5, 0), (1, 4, 0), (2, 3, 0)], 3)
    recall(memory, view, 3, [])
    assert found(memory, view, []) == 4
    assert memory[foremost.FEWEST] == 3


def test_whoever_is_evicted_makes_it_forget():
    memory, view = np.zeros(foremost.MEMORY, np.int64), seen([(0, 5, 0), (1, 4, 0)], 2)
    recall(memory, view, 2, [])
    look_over(memory, view, 2, [])
    view = seen([(7, 3, 1), (0, 5, 0), (1, 4, 0)], 2)
    recall(memory, view, 3, [])
    assert found(memory, view, []) == -1
    assert memory[foremost.FEWEST] == 0
