"""The state of the compiled cluster: laid out, filled in, grown."""

from __future__ import annotations

import numpy as np
import pytest
from tests.sim.kernels import state
from tests.sim.policies import Fingerprint

from evenstep.compiled import Rows, column, fill
from evenstep.cost.linear import Linear
from evenstep.cost.piecewise import Piecewise
from evenstep.cost.power import Power
from evenstep.cost.unequal import Unequal
from evenstep.request import Trace
from evenstep.sim.cluster.drift import GRAIN, Drift
from evenstep.sim.cluster.model import DEPARTURES, LINES, LINES_OF_LONGEST, ONE_LINE
from evenstep.sim.cluster.roots import root_table
from evenstep.sim.cluster.simulation import Outage
from evenstep.sim.cluster.state import Options


def test_every_worker_starts_empty_with_its_slots_lowest_on_top():
    run = state(groups=(1, 2), queue_depth=2, kv_tokens=50.0).run
    assert run.fleet.group.tolist() == [0, 1, 1]
    assert run.fleet.free_slots.tolist() == [4, 3, 6]
    assert run.now.free_total == 13
    stacks = [run.slots.free[g, :b].tolist() for g, b in enumerate((2, 1, 4))]
    assert stacks == [[1, 0], [4], [11, 10, 9, 8]]
    assert run.fleet.kv_free.tolist() == [50.0] * 3
    assert (column(run.slots.rows, "row") == -1).all()
    assert (run.pool.worker == -1).all()
    assert column(run.fleet.groups, "first").tolist() == [0, 1]


def test_outages_are_sorted_by_step_those_of_one_step_as_given():
    lost = (Outage(5, 1), Outage(2, 0), Outage(5, 2), Outage(9, 0, back=True))
    rows = state(outages=lost).run.fleet.outages
    assert column(rows, "step").tolist() == [2, 5, 5, 9]
    assert column(rows, "worker").tolist() == [0, 1, 2, 0]
    assert column(rows, "back").tolist() == [0, 0, 0, 1]


@pytest.mark.parametrize(
    ("drift", "scale", "delta"),
    [(Drift(), 1, 1), (Drift(growth=0.0), 1, 0), (Drift(growth=0.25), round(1 / GRAIN), round(0.25 / GRAIN))],
)
def test_loads_are_whole_tokens_or_grains(drift, scale, delta):
    fixed = state(drift=drift).run.fixed
    assert (fixed.scale, fixed.delta) == (scale, delta)
    assert fixed.unit == 1 / scale


@pytest.mark.parametrize(
    ("law", "kind"),
    [
        (Linear(1.0, 0.5), ONE_LINE),
        (Piecewise("0:0/10:0.1/20:0.4"), LINES),
        (Unequal(), LINES_OF_LONGEST),
        (Unequal(share=0.0), ONE_LINE),
    ],
)
def test_only_a_law_that_is_one_line_through_zero_takes_the_short_way(law, kind):
    assert state(step_time=law).run.fixed.law_kind == kind


def test_power_brings_its_table():
    power = Power()
    law = state(options=Options(power=power, decisions=True)).run.law
    assert np.array_equal(law.roots, root_table(1.0 - power.gamma))
    assert law.token_power.shape == (5,)
    assert law.token_power[0] == 0.0
    assert (np.diff(law.token_power) > 0).all()


def test_sessions_are_numbered_in_order_of_their_first_request_with_roots_and_successors():
    trace = Trace(
        np.ones(5, np.int64),
        np.ones(5, np.int64),
        session=np.array([9, 4, 9, -1, 4]),
        after=np.array([-1, -1, 0, -1, 1]),
        think_s=np.zeros(5),
    )
    run = state(trace, arrivals="closed").run
    sessions, offsets = run.sessions, run.sessions.child_offsets
    assert sessions.left.size == 3
    children = [sessions.children[offsets[row] : offsets[row + 1]].tolist() for row in range(5)]
    assert children == [[2], [4], [], [], []]
    assert sessions.session.tolist() == [0, 1, 0, 2, 1]
    assert sessions.left.tolist() == [2, 2, 1]  # requests left in each
    assert sessions.root_offsets.tolist() == [0, 1, 2, 3]
    assert sessions.roots.tolist() == [0, 1, 3]


def test_class_and_key_are_session_then_prompt_key_then_the_request():
    trace = Trace(
        np.ones(3, np.int64),
        np.ones(3, np.int64),
        request_class=np.array([1, 0, 2]),
        prompt_key=np.array([50, 60, 0]),
        session=np.array([8, -1, -1]),
        after=np.full(3, -1),
        think_s=np.zeros(3),
    )
    requests = state(trace).run.requests
    assert requests.request_class.tolist() == [1, 0, 2]
    assert requests.key.tolist() == [8, 60, 2]
    assert state().run.requests.key.size == 0


def leaves(part, name="run"):
    """Every array and table of records of a struct by its path."""
    if isinstance(part, np.ndarray | Rows):
        return {name: part}
    words = part._asdict() if isinstance(part, tuple) else {}
    return {path: leaf for word, inner in words.items() for path, leaf in leaves(inner, f"{name}.{word}").items()}


def content(leaf) -> list:
    """A copy of an array, or of every word of a table of records."""
    if isinstance(leaf, Rows) or leaf.dtype.names:
        names = leaf.shape.__annotations__ if isinstance(leaf, Rows) else leaf.dtype.names
        return [column(leaf, name).copy() for name in names]
    return [leaf.copy()]


def test_a_grown_state_keeps_its_content_and_has_twice_the_room():
    options = Options(prediction=DEPARTURES, samples=4, power=Power(), decisions=True)
    found, random = (
        state(policy=Fingerprint(horizon=3, memory_size=2), options=options),
        np.random.default_rng(0),
    )
    run = found.run
    for array in (run.pool.waiting_i, run.pool.waiting_f, run.policy.memory, run.fleet.units):
        array[...] = random.integers(0, 99, array.shape)
    for table in (run.coming, run.carried):
        fill(
            table,
            **{name: random.integers(0, 99, len(table)) for name in ("key", "row") if hasattr(table[0], name)},
        )
    fill(run.queues, units=np.arange(len(run.queues)))
    before = {path: content(leaf) for path, leaf in leaves(run).items()}
    found.grow()
    after = {path: content(leaf) for path, leaf in leaves(found.run).items()}
    wider = set()
    for path, columns in before.items():
        for old, new in zip(columns, after[path], strict=True):
            if new.shape != old.shape:
                wider.add(path)
                assert new.shape == (*old.shape[:-1], 2 * old.shape[-1])
            if path != "run.queues":
                assert np.array_equal(new[tuple(slice(n) for n in old.shape)], old, equal_nan=True), path
    pool = {f"run.pool.{name}" for name in found.run.pool._fields}
    assert wider == {"run.coming", "run.carried", "run.queues", *pool}
    assert column(found.run.queues, "units").tolist()[: len(run.queues)] == list(range(len(run.queues)))
    assert (found.run.pool.worker[run.pool.worker.size :] == -1).all()


def test_after_growth_every_queue_node_is_free_once():
    found = state(queue_depth=1)
    for _ in range(2):
        found.grow()
    nodes, node, seen = found.run.queues, int(found.run.now.queue_free), []
    while node >= 0:
        seen.append(node)
        node = int(nodes[node].next)
    assert sorted(seen) == list(range(len(nodes)))
