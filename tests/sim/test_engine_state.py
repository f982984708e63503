"""The engine's state before the first iteration, and that of a rank."""

import numpy as np
from tests.sim.kernels import engine_run, engine_task

from evenstep.compiled import column
from evenstep.request import Trace
from evenstep.scheduling.view import EVICTIONS, HIGH, ID, LOST_AT, LOW, PRODUCED, PROMPT, UNLIMITED
from evenstep.sim.engine.model import Shown
from evenstep.sim.engine.settings import Engine
from evenstep.sim.engine.state import prepared, rank_of

TRACE = Trace(
    np.array([5, 6, 7]),
    np.array([2, 3, 4]),
    arrival_s=np.array([1.0, 0.0, 1.0]),
    output_low=np.array([1, 2, 3]),
    output_high=np.array([9, 9, 9]),
    request_class=np.array([0, 2, 0]),
)


def test_no_limit_is_a_number_no_run_reaches():
    fixed = engine_run(TRACE, Engine(token_budget=0, batch_limit=7, block_tokens=16)).fixed
    assert fixed.token_budget == UNLIMITED and fixed.batch_limit == fixed.resident_limit == 7
    assert fixed.kv_capacity == UNLIMITED // 16 * 16


def test_the_table_that_policies_are_handed_is_the_records_memory():
    requests = engine_run(TRACE, Engine()).requests
    names = list(Shown.__annotations__)
    for name, at in (
        ("request_id", ID),
        ("prompt_tokens", PROMPT),
        ("produced", PRODUCED),
        ("output_low", LOW),
    ):
        assert names[at] == name
    assert names[HIGH] == "output_high" and names[EVICTIONS] == "evictions" and names[LOST_AT] == "lost_at"
    assert requests.table[:, PROMPT].tolist() == column(requests.shown, "prompt_tokens").tolist() == [5, 6, 7]
    requests.shown[1].produced = 3
    assert requests.table[1, PRODUCED] == 3


def test_requests_come_in_order_of_arrival():
    run = engine_run(TRACE, Engine())
    assert run.lists.coming.tolist() == [1, 0, 2] and run.now.known == 3
    assert run.policy.arrived.size == 3


def test_a_rank_shares_the_requests_and_has_none_to_come():
    task = engine_task(TRACE, Engine(kv_tokens=100))
    front = prepared(task)
    rank = rank_of(front, task)
    assert rank.requests is front.requests and rank.lists.running is not front.lists.running
    assert rank.fixed.is_rank == 1 and rank.now.known == 0 and rank.now.kv_free == 100
    rank.now.kv_free = 50
    assert front.now.kv_free == 100 and front.fixed.is_rank == 0
