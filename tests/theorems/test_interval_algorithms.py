"""Interval scheduling's algorithms, written down once more straight from the paper: the same schedules, step by step.

Unit-time batches, all requests at time zero, a request of prompt s that has run for k steps holds s + k. Ties are by the
dice of the house, which the paper leaves open: one draw for the queue, another for victims. One test has dice of its own.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies import examples

from evenstep import streams
from evenstep.cost.unit import Unit
from evenstep.request import Trace
from evenstep.scheduling.intervals.learning import VICTIMS
from evenstep.scheduling.order import CHANCE
from evenstep.scheduling.policies.a_ell import AEll
from evenstep.scheduling.policies.a_max import AMax
from evenstep.scheduling.policies.a_min import AMin
from evenstep.scheduling.policies.alpha_switch import AlphaSwitch
from evenstep.scheduling.policies.h_sf import HindsightShortestFirst
from evenstep.sim.engine.simulation import Engine, simulate_engine


@st.composite
def instances(draw):
    """Prompts, outputs, lower and upper bounds, memory that holds each request alone."""
    count = draw(st.integers(1, 12))
    prompt, output, spread = (
        np.array(draw(st.lists(st.integers(1, most), min_size=count, max_size=count))) for most in (7, 18, 12)
    )
    if draw(st.booleans()):
        prompt[:] = prompt[0]
    high = output + spread - 1
    memory = int((prompt + high).max()) + draw(st.integers(0, 40))
    return prompt, output, np.maximum(output - spread + 1, 1), high, memory


def fits(running, more, now, memory, prompt, believed, began=None, returns=""):
    """Eq. 3; who has outgrown its believed length is believed to need one more step."""
    began = began if began and returns == "goes on" else {}
    running = [*running, *((i, began.get(i, now)) for i in more)]
    entries = [(prompt[i] + now - start, max(believed[i] - (now - start), 1)) for i, start in running]
    return all(sum(own + r for own, left in entries if left >= r) <= memory for _, r in entries)


def schedule(prompt, output, believed, memory, key, reading=None, victim=None):
    """Steps at which requests finish, and each eviction: who gives way, and the output tokens it had.

    `reading` None never evicts (Algorithms 1 and 3), else Algorithm 2, with the order `victim` of those that give way.
    """
    believed, waiting, running, now, lost = list(believed), set(range(prompt.size)), [], 0, []
    finished = np.zeros(prompt.size)
    while waiting or running:
        gone = []
        while sum(prompt[i] + now + 1 - start for i, start in running) > memory:
            assert reading is not None
            running.sort(key=lambda entry: victim(believed, entry[0]))
            gone.append(running.pop(0))
        for i, start in gone:
            believed[i] = now - start if reading == "literal" else max(believed[i], now - start)
            lost.append((i, now - start))
        batch = []
        for i in sorted(waiting, key=lambda i: key(believed, i)):
            if not fits(running, [*batch, i], now, memory, prompt, believed):
                break
            batch.append(i)
        waiting = (waiting - set(batch)) | {i for i, _ in gone}
        running += [(i, now) for i in batch]
        now += 1
        for i, start in list(running):
            if now - start == output[i]:
                finished[i] = now
                running.remove((i, start))
    return finished, lost


def kv_lost(prompt, lost):
    """KV tokens that evictions waste: prompts, and all output tokens but the last, whose KV was not yet computed."""
    return sum(int(prompt[i]) + produced - 1 for i, produced in lost)


def algorithm_6(prompt, output, low, high, memory, returns="goes on"):
    """Steps at which requests finish, and how many were moved.

    A request that is moved and taken back in the same step starts again where `returns` is "from zero", as it is printed.
    """
    believed = [low] * prompt.size
    queue, running, now, moved = list(range(prompt.size)), {}, 0, set()
    finished = np.zeros(prompt.size)
    while queue or running:
        gone = {i: start for i, start in running.items() if now - start >= low and i not in moved}
        running = {i: start for i, start in running.items() if i not in gone}
        for i in gone:
            believed[i] = high
        moved |= set(gone)
        queue += list(gone)
        while queue and fits(list(running.items()), [queue[0]], now, memory, prompt, believed, gone, returns):
            i = queue.pop(0)
            running[i] = gone[i] if i in gone and returns == "goes on" else now
        now += 1
        for i, start in list(running.items()):
            if now - start == output[i]:
                finished[i] = now
                del running[i]
    return finished


def simulated(policy, prompt, output, bounds, memory, overflow, seed=0):
    engine = Engine(token_budget=0, batch_limit=0, kv_tokens=memory, overflow=overflow, hold_produced=True)
    trace = Trace(prompt_tokens=prompt, output_tokens=output)
    done = simulate_engine(trace, policy, engine=engine, batch_time=Unit(), bounds=bounds, seed=seed)
    assert done.iterations is not None and done.iterations.kv_held.max() <= memory
    return done.requests.finished_s, done.totals.evictions, done.totals.wasted_tokens


@examples(150)
@given(instances())
def test_hindsight_is_algorithm_3(case):
    prompt, output, _, _, memory = case
    mine, _ = schedule(prompt, output, output, memory, lambda believed, i: (believed[i], i))
    found, _, _ = simulated(HindsightShortestFirst(), prompt, output, None, memory, "never")
    assert found.tolist() == mine.tolist()


@examples(150)
@given(instances(), st.integers(0, 5))
def test_a_max_is_algorithm_1(case, seed):
    prompt, output, low, high, memory = case
    dice = streams.uniform(seed, CHANCE, np.arange(prompt.size))
    mine, _ = schedule(prompt, output, high, memory, lambda believed, i: (believed[i], dice[i]))
    found, _, _ = simulated(AMax(), prompt, output, (low, high), memory, "never", seed)
    assert found.tolist() == mine.tolist()


@pytest.mark.parametrize("reading", ["literal", "repaired"])
@examples(250)
@given(case=instances(), seed=st.integers(0, 5))
def test_a_min_is_algorithm_2(reading, case, seed):
    prompt, output, low, high, memory = case
    queue, victims = (streams.uniform(seed, name, np.arange(prompt.size)) for name in (CHANCE, VICTIMS))
    mine, lost = schedule(
        prompt,
        output,
        low,
        memory,
        lambda believed, i: (believed[i], queue[i]),
        reading,
        lambda believed, i: (believed[i], victims[i]),
    )
    found, evicted, wasted = simulated(AMin(reading=reading), prompt, output, (low, high), memory, "restart", seed)
    assert found.tolist() == mine.tolist() and (evicted, wasted) == (len(lost), kv_lost(prompt, lost))


def test_an_eviction_wastes_the_prompt_and_all_tokens_but_the_last():
    """The hand example of docs/reference/metrics.md: two requests of 6 + 3 tokens, room for 17.

    After two steps both hold 8, and a third token each would take 18. One gives way with two tokens produced: the KV of
    its prompt and of the first of them was computed, that of the second not yet. It runs anew when the other has left.
    """
    prompts, output, low = np.full(2, 6), np.full(2, 3), np.ones(2, np.int64)
    finished, evictions, wasted = simulated(AMin(), prompts, output, (low, output), 17, "restart")
    assert sorted(finished.tolist()) == [3, 6] and (evictions, wasted) == (1, 6 + 2 - 1)
    order = (lambda believed, i: (believed[i], i),) * 2
    mine, lost = schedule(prompts, output, low, 17, order[0], "literal", order[1])
    assert sorted(mine.tolist()) == [3, 6] and [produced for _, produced in lost] == [2]


def test_an_eviction_of_a_large_instance_wastes_what_it_held():
    """The lost tokens of an independent simulation, and what ours counts beyond them: 5 KV tokens an eviction."""
    prompts, output = np.full(286, 6), np.random.default_rng(0).integers(1, 54, 286)
    low, high = np.ones(286, np.int64), np.full(286, 53)
    dice = [streams.uniform(0, name, np.arange(286)) for name in (CHANCE, VICTIMS)]
    orders = [lambda believed, i, d=one: (believed[i], d[i]) for one in dice]
    mine, lost = schedule(prompts, output, low, 545, orders[0], "literal", orders[1])
    found, evictions, wasted = simulated(AMin(), prompts, output, (low, high), 545, "restart")
    assert found.tolist() == mine.tolist() and evictions == len(lost) == 845
    assert sum(produced for _, produced in lost) == 7048 and wasted == 7048 + 5 * 845


@pytest.mark.slow
def test_a_min_costs_what_it_costs_with_any_independent_dice():
    """Where the first admitted is the first evicted, latency is an eighth more.

    What we call wasted counts the KV of the prompt as well, and not yet that of the token produced last.
    """
    count, prompt, memory = 286, 6, 545
    prompts, output = np.full(count, prompt), np.random.default_rng(1).integers(1, 54, count)
    bounds = np.ones(count, np.int64), np.full(count, 53)
    ours, theirs = [], []
    for seed in range(8):
        dice = np.random.default_rng(seed).random((2, count))
        finished, lost = schedule(
            prompts,
            output,
            bounds[0],
            memory,
            lambda believed, i, d=dice: (believed[i], d[0, i]),
            "literal",
            lambda believed, i, d=dice: (believed[i], d[1, i]),
        )
        theirs.append((finished.mean(), kv_lost(prompts, lost)))
        finished, _, wasted = simulated(AMin(), prompts, output, bounds, memory, "restart", seed)
        ours.append((finished.mean(), wasted))
    assert np.mean(ours, axis=0) == pytest.approx(np.mean(theirs, axis=0), rel=0.03)


@pytest.mark.parametrize("policy", [AEll(), AlphaSwitch(0.2)], ids=["a-ell", "alpha-switch"])
@examples(200)
@given(
    outputs=st.lists(st.booleans(), min_size=1, max_size=14),
    low=st.integers(1, 6),
    more=st.integers(0, 20),
    prompt=st.integers(1, 5),
    spare=st.integers(0, 60),
)
def test_a_ell_is_algorithm_6(policy, outputs, low, more, prompt, spare):
    high = low + more
    output, prompts = np.where(outputs, high, low), np.full(len(outputs), prompt)
    memory = prompt + high + spare
    mine = algorithm_6(prompts, output, low, high, memory)
    bounds = np.full(output.size, low), np.full(output.size, high)
    found, _, _ = simulated(policy, prompts, output, bounds, memory, "restart")
    assert found.tolist() == mine.tolist()


def test_a_ell_moves_requests_also_where_all_fit_at_their_lower_bounds():
    """104 requests of one or 29 tokens in 343 KV tokens all start at once, and cannot all grow."""
    output = np.where(np.arange(104) % 3 == 0, 29, 1)
    prompts, bounds = np.full(104, 2), (np.ones(104, np.int64), np.full(104, 29))
    printed = algorithm_6(prompts, output, 1, 29, 343, returns="from zero")
    found, _, _ = simulated(AEll(), prompts, output, bounds, 343, "restart")
    assert found.mean() <= 1.02 * printed.mean()
