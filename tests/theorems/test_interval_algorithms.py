"""Interval scheduling's algorithms, written down once more straight from the paper: the same schedules, step by step.

Unit-time batches, all requests at time zero, a request of prompt s that has run for k steps holds s + k. Ties are by the
dice of the house, which the paper leaves open.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies import examples

from evenstep import streams
from evenstep.cost.unit import Unit
from evenstep.request import Trace
from evenstep.scheduling.a_max import AMax
from evenstep.scheduling.a_min import AMin
from evenstep.scheduling.h_sf import HindsightShortestFirst
from evenstep.scheduling.order import CHANCE
from evenstep.sim.engine import Engine, simulate_engine


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


def fits(running, more, now, memory, prompt, believed):
    """Eq. 3; who has outgrown its believed length is believed to need one more step."""
    entries = [(prompt[i] + now - start, max(believed[i] - (now - start), 1)) for i, start in running]
    entries += [(prompt[i], max(believed[i], 1)) for i in more]
    return all(sum(own + r for own, left in entries if left >= r) <= memory for _, r in entries)


def schedule(prompt, output, believed, memory, key, reading=None):
    """Steps at which requests finish, and evictions; `reading` None never evicts (Algorithms 1 and 3), else Algorithm 2."""
    believed, waiting, running, now, evictions = list(believed), set(range(prompt.size)), [], 0, 0
    finished = np.zeros(prompt.size)
    while waiting or running:
        gone = []
        while sum(prompt[i] + now + 1 - start for i, start in running) > memory:
            assert reading is not None
            running.sort(key=lambda entry: key(believed, entry[0]))
            gone.append(running.pop(0))
        for i, start in gone:
            believed[i] = now - start if reading == "literal" else max(believed[i], now - start)
            evictions += 1
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
    return finished, evictions


def simulated(policy, prompt, output, bounds, memory, overflow, seed=0):
    engine = Engine(token_budget=0, batch_limit=0, kv_tokens=memory, overflow=overflow, hold_produced=True)
    trace = Trace(prompt_tokens=prompt, output_tokens=output)
    done = simulate_engine(trace, policy, engine=engine, batch_time=Unit(), bounds=bounds, seed=seed)
    assert done.iterations is not None and done.iterations.kv_held.max() <= memory
    return done.requests.finished_s, done.totals.evictions


@examples(150)
@given(instances())
def test_hindsight_is_algorithm_3(case):
    prompt, output, _, _, memory = case
    mine, _ = schedule(prompt, output, output, memory, lambda believed, i: (believed[i], i))
    found, _ = simulated(HindsightShortestFirst(), prompt, output, None, memory, "never")
    assert found.tolist() == mine.tolist()


@examples(150)
@given(instances(), st.integers(0, 5))
def test_a_max_is_algorithm_1(case, seed):
    prompt, output, low, high, memory = case
    dice = streams.uniform(seed, CHANCE, np.arange(prompt.size))
    mine, _ = schedule(prompt, output, high, memory, lambda believed, i: (believed[i], dice[i]))
    found, _ = simulated(AMax(), prompt, output, (low, high), memory, "never", seed)
    assert found.tolist() == mine.tolist()


@pytest.mark.parametrize("reading", ["literal", "repaired"])
@examples(250)
@given(case=instances(), seed=st.integers(0, 5))
def test_a_min_is_algorithm_2(reading, case, seed):
    prompt, output, low, high, memory = case
    dice = streams.uniform(seed, CHANCE, np.arange(prompt.size))
    mine, evictions = schedule(
        prompt, output, low, memory, lambda believed, i: (believed[i], dice[i]), reading
    )
    found, evicted = simulated(AMin(reading=reading), prompt, output, (low, high), memory, "restart", seed)
    assert found.tolist() == mine.tolist() and evicted == evictions
