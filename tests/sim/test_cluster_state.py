"""The state of the compiled cluster: laid out, filled in, grown."""

from __future__ import annotations

import numpy as np
import pytest
from tests.sim.policies import Fingerprint, Oldest

from evenstep.cost.linear import Linear
from evenstep.cost.piecewise import Piecewise
from evenstep.cost.power import Power
from evenstep.cost.unequal import Unequal
from evenstep.request import Trace
from evenstep.routing.view import FREE_SLOTS, GROUP, KV_FREE
from evenstep.sim import cluster_layout as at
from evenstep.sim.cluster import Cluster, Outage
from evenstep.sim.cluster_state import State, prepared
from evenstep.sim.drift import GRAIN, Drift


def state(
    trace=None, policy=None, step_time=None, *, power=None, samples=0, prediction=0, **cluster
) -> State:
    trace = trace or Trace(np.array([3, 5, 9]), np.array([4, 1, 2]))
    return prepared(
        trace, policy or Oldest(), Cluster(**({"workers": 3, "slots": (2, 1, 4)} | cluster)),
        step_time or Linear(1.0, 0.5), prediction=prediction, refresh_every=16, seed=7, power=power,
        samples=samples, decisions=False, records=True,
    )  # fmt: skip


def test_every_worker_starts_empty_with_its_slots_lowest_on_top():
    found = state(groups=(1, 2), queue_depth=2, kv_tokens=50.0)
    workers = found.ints.window(at.WORKERS_I)
    assert workers[GROUP].tolist() == [0, 1, 1]
    assert workers[FREE_SLOTS].tolist() == [4, 3, 6]
    assert found.ints.window(at.SCALARS_I)[at.FREE_TOTAL] == 13
    stack = found.ints.window(at.FREE_STACK)
    assert [stack[g, :b].tolist() for g, b in enumerate((2, 1, 4))] == [[1, 0], [4], [11, 10, 9, 8]]
    assert found.floats.window(at.WORKERS_F)[KV_FREE].tolist() == [50.0] * 3
    assert (found.ints.window(at.SLOT_INTS)[:, at.ROW] == -1).all()
    assert (found.ints.window(at.WORKER_OUT) == -1).all()
    assert found.ints.window(at.GROUP_INTS)[at.GROUP_FIRST].tolist() == [0, 1]


def test_outages_are_sorted_by_step_those_of_one_step_as_given():
    lost = (Outage(5, 1), Outage(2, 0), Outage(5, 2), Outage(9, 0, back=True))
    rows = state(outages=lost).ints.window(at.OUTAGES)
    assert rows[:, :3].tolist() == [[2, 0, 0], [5, 1, 0], [5, 2, 0], [9, 0, 1]]


@pytest.mark.parametrize(
    ("drift", "scale", "delta"),
    [(Drift(), 1, 1), (Drift(growth=0.0), 1, 0), (Drift(growth=0.25), round(1 / GRAIN), round(0.25 / GRAIN))],
)
def test_loads_are_whole_tokens_or_grains(drift, scale, delta):
    found = state(drift=drift)
    sc = found.ints.window(at.SCALARS_I)
    assert (sc[at.SCALE], sc[at.DELTA]) == (scale, delta)
    assert found.floats.window(at.SCALARS_F)[at.UNIT] == 1 / scale


@pytest.mark.parametrize(
    ("law", "kind"),
    [(Linear(1.0, 0.5), 0), (Piecewise("0:0/10:0.1/20:0.4"), 1), (Unequal(), 2), (Unequal(share=0.0), 0)],
)
def test_only_a_law_that_is_one_line_through_zero_takes_the_short_way(law, kind):
    assert state(step_time=law).ints.window(at.SCALARS_I)[at.LAW_KIND] == kind


def test_power_brings_its_table_and_without_it_there_is_none():
    assert state().floats.window(at.ROOT_TABLE).size == 0
    power = Power()
    found = state(power=power)
    assert np.array_equal(found.floats.window(at.ROOT_TABLE), at.root_table(1.0 - power.gamma))
    counts = found.floats.window(at.COUNT_POWER)
    assert counts.shape == (5,)
    assert counts[0] == 0.0
    assert (np.diff(counts) > 0).all()


def test_sessions_are_numbered_in_order_of_their_first_request_with_roots_and_successors():
    trace = Trace(
        np.ones(5, np.int64), np.ones(5, np.int64),
        session=np.array([9, 4, 9, -1, 4]), after=np.array([-1, -1, 0, -1, 1]), think_s=np.zeros(5),
    )  # fmt: skip
    links = state(trace, arrivals="closed").links
    n, sessions = 5, int(links[-1])
    assert sessions == 3
    offsets, children = links[: n + 1], links[n + 1 : 2 * n + 1]
    assert [children[offsets[row] : offsets[row + 1]].tolist() for row in range(n)] == [[2], [4], [], [], []]
    assert links[2 * n + 1 : 3 * n + 1].tolist() == [0, 1, 0, 2, 1]
    assert links[3 * n + 1 : 3 * n + 1 + sessions].tolist() == [2, 2, 1]  # requests left in each
    roots = links[3 * n + 1 + sessions : -1]
    assert roots.tolist() == [0, 1, 2, 3, 0, 1, 3]  # offsets, then rows


def test_class_and_key_are_session_then_prompt_key_then_the_request():
    trace = Trace(
        np.ones(3, np.int64), np.ones(3, np.int64), request_class=np.array([1, 0, 2]),
        prompt_key=np.array([50, 60, 0]), session=np.array([8, -1, -1]), after=np.full(3, -1),
        think_s=np.zeros(3),
    )  # fmt: skip
    assert state(trace).columns.tolist() == [[1, 0, 2], [8, 60, 2]]
    assert state().columns.size == 0


def test_a_grown_state_keeps_its_content_and_has_twice_the_room():
    found = state(policy=Fingerprint(horizon=3, memory_size=2), power=Power(), samples=4, prediction=2)
    random = np.random.default_rng(0)
    sc = found.ints.window(at.SCALARS_I)
    rooms = {name: int(sc[name]) for name in (at.POOL_ROOM, at.HEAP_ROOM, at.CARRY_ROOM, at.QUEUE_ROOM)}
    for buffer, untouched in ((found.ints, (at.SCALARS_I, at.QUEUE_I, at.WORKER_OUT)), (found.floats, ())):
        for section in set(buffer.shapes) - set(untouched):
            window = buffer.window(section)
            window[...] = random.integers(0, 99, window.shape)
    found.ints.window(at.QUEUE_I)[:, at.Q_LOAD] = np.arange(rooms[at.QUEUE_ROOM])
    before = [{k: b.window(k).copy() for k in b.shapes} for b in (found.ints, found.floats)]
    found.grow(Fingerprint(horizon=3, memory_size=2))
    after = [{k: b.window(k) for k in b.shapes} for b in (found.ints, found.floats)]
    sc = found.ints.window(at.SCALARS_I)
    assert {name: int(sc[name]) for name in rooms} == {name: 2 * room for name, room in rooms.items()}
    for old, new in zip(before, after, strict=True):
        for section, content in old.items():
            kept = new[section][tuple(slice(n) for n in content.shape)]
            if old is before[0] and section == at.SCALARS_I:
                changed = set(np.flatnonzero(kept != content).tolist())
                assert changed == {*rooms, at.QUEUE_FREE}
            elif old is before[0] and section == at.QUEUE_I:
                assert np.array_equal(kept[:, at.Q_LOAD], content[:, at.Q_LOAD])
            else:
                assert np.array_equal(kept, content), section
    assert (after[0][at.WORKER_OUT][rooms[at.POOL_ROOM] :] == -1).all()


def test_after_growth_every_queue_node_is_free_once():
    found = state(queue_depth=1)
    for _ in range(2):
        found.grow(Oldest())
    nodes = found.ints.window(at.QUEUE_I)
    node, seen = int(found.ints.window(at.SCALARS_I)[at.QUEUE_FREE]), []
    while node >= 0:
        seen.append(node)
        node = int(nodes[node, at.Q_NEXT])
    assert sorted(seen) == list(range(nodes.shape[0]))
