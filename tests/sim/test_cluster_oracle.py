"""The reference simulator against stories worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.oracles.cluster import simulate_reference
from tests.sim.policies import Holds, Oldest, Scripted

from evenstep.cost.linear import Linear
from evenstep.cost.view import PiecewiseLinear
from evenstep.errors import InputError, PolicyError
from evenstep.predict.oracle import Oracle
from evenstep.request import Trace
from evenstep.sim.cluster.drift import Drift, Profiles
from evenstep.sim.cluster.simulation import Cluster, Outage

ONE = Linear(overhead_s=1.0, per_token_s=1.0)
FLAT = Linear(overhead_s=1.0, per_token_s=0.0)


def trace_of(*requests, **columns):
    """Requests as (prompt, output) pairs; columns by name."""
    prompt, output = (np.array(x, dtype=np.int64) for x in zip(*requests, strict=True))
    return Trace(prompt, output, **{name: np.array(x) for name, x in columns.items()})


def run(trace, policy=None, step_time=FLAT, predictor=None, **cluster):
    options = {"workers": 1, "slots": 1} | cluster
    return simulate_reference(
        trace,
        policy or Oldest(),
        cluster=Cluster(**options),
        step_time=step_time,
        predictor=predictor,
        decisions=True,
    )


def test_two_requests_in_one_batch_take_27_seconds():
    out = run(trace_of((3, 4), (5, 1)), slots=2, step_time=ONE)
    assert [x.tolist() for _, _, x in out.loads] == [[8.0], [4.0], [5.0], [6.0]]
    assert out.steps.duration_s.tolist() == [9, 5, 6, 7]
    assert out.totals.makespan_s == 27
    assert out.totals.load_steps == 3 * 4 + 6 + 5 and out.totals.active_steps == 5
    assert out.requests.finished_step.tolist() == [3, 0] and out.requests.finished_s.tolist() == [27, 9]
    assert out.requests.first_token_s.tolist() == [9, 9] and out.requests.admitted_s.tolist() == [0, 0]
    assert out.steps.tokens.tolist() == [2, 1, 1, 1] and out.steps.admitted.tolist() == [2, 0, 0, 0]


def test_the_heaviest_worker_sets_the_length_of_a_step():
    out = run(trace_of((3, 2), (10, 1)), workers=2, step_time=ONE)
    assert out.steps.envelope.tolist() == [10, 4] and out.steps.load_min.tolist() == [3, 0]
    assert out.steps.local_sum_s.tolist() == [13, 4] and out.totals.makespan_s == 11 + 5


def test_saturated_requests_are_revealed_when_the_pool_has_room():
    out = run(trace_of((1, 2), (1, 1), (1, 1)), pool=1)
    # revealed: row 0 at 0; the pool is empty at clock 1, so row 1 then; row 2 once row 1 has left it at clock 2
    assert out.requests.visible_s.tolist() == [0, 1, 3]
    assert out.requests.admitted_s.tolist() == [0, 2, 3]
    assert out.decisions.now_s.tolist() == [0, 2, 3]


def test_the_clock_jumps_to_the_next_arrival_when_nothing_runs():
    out = run(trace_of((1, 1), (1, 2), (1, 1), arrival_s=[0.5, 4.0, 4.25]), slots=2, arrivals="timed")
    # row 2 becomes visible while the only group is inside a step, and waits for its end
    assert out.requests.admitted_s.tolist() == [0.5, 4.0, 5.0]
    assert out.requests.visible_s.tolist() == [0.5, 4.0, 4.25]
    assert out.totals.makespan_s == 6.0


def test_prefill_delays_a_request_but_its_wait_counts_from_arrival():
    policy = Scripted(((0,), (0,)))
    out = run(
        trace_of((8, 1), (2, 1), arrival_s=[0.0, 0.5]),
        policy,
        arrivals="timed",
        prefill_base_s=1.0,
        prefill_per_token_s=0.5,
    )
    # row 0 is ready at 0 + 1 + 4 = 5, row 1 at 0.5 + 1 + 1 = 2.5
    assert out.requests.admitted_s.tolist() == [5.0, 2.5] and out.requests.visible_s.tolist() == [0.0, 0.5]
    assert [view.waited_s.tolist() for view in policy.views] == [[0.0], [0.0]]


def test_users_think_between_requests():
    out = run(trace_of(*[(1, 1)] * 5), slots=4, arrivals="closed", users=2, think_s=0.5)
    # both users end together at 1; the next two requests become visible at 1.5
    assert out.requests.visible_s.tolist() == [0, 0, 1.5, 1.5, 3.0]
    assert out.totals.makespan_s == 4.0


def test_a_user_who_ends_early_takes_the_next_row():
    out = run(trace_of((1, 3), (1, 1), (1, 1), (1, 1)), slots=2, arrivals="closed", users=2, think_s=0.0)
    assert out.requests.visible_s.tolist() == [0, 0, 1, 2] and out.totals.makespan_s == 3.0


def test_sessions_are_replayed_in_order_with_their_think_times():
    trace = trace_of(
        (1, 1),
        (1, 1),
        (1, 2),
        (1, 1),
        session=[7, 3, 7, -1],
        after=[-1, -1, 0, -1],
        think_s=[0.25, 0.0, 2.0, 0.5],
    )
    out = run(trace, slots=2, arrivals="closed", users=1)
    # session 7: row 0 at 0.25..1.25, row 2 at 3.25..5.25; session 3: row 1 at 5.25..6.25; row 3 alone at 6.75
    assert out.requests.visible_s.tolist() == [0.25, 5.25, 3.25, 6.75]
    assert out.totals.makespan_s == 7.75


def test_two_sessions_at_a_time_share_the_fleet():
    trace = trace_of((1, 1), (1, 2), (1, 1), session=[0, 1, 2], after=[-1, -1, -1], think_s=[0.0, 0.0, 0.0])
    out = run(trace, slots=1, workers=2, arrivals="closed", users=2)
    assert out.requests.visible_s.tolist() == [0, 0, 1] and out.requests.worker.tolist() == [0, 1, 0]


def test_a_lost_worker_gives_its_requests_back_with_what_they_produced():
    out = run(
        trace_of((5, 4), (2, 3)),
        workers=2,
        slots=1,
        step_time=ONE,
        outages=(Outage(2, 0), Outage(3, 0, back=True)),
    )
    # steps 0, 1: both run; before step 2 worker 0 is lost, row 0 waits with 2 tokens; row 1 ends with step 2
    assert [x.tolist() for _, _, x in out.loads] == [[5, 2], [6, 3], [0, 4], [7, 0], [8, 0]]
    assert out.requests.restarts.tolist() == [1, 0] and out.requests.admitted_step.tolist() == [3, 0]
    assert out.requests.admitted_s.tolist() == [0, 0] and out.requests.first_token_s.tolist() == [6, 6]
    assert out.requests.finished_step.tolist() == [4, 2] and out.totals.restarts == 1


def test_a_request_that_went_back_stands_where_it_stood():
    policy = Scripted(((0, 1), (0, -1), (1,)))
    trace = trace_of((5, 2), (2, 3), (9, 1), arrival_s=[0.0, 0.0, 0.5])
    out = run(trace, policy, workers=2, arrivals="timed", outages=(Outage(1, 0), Outage(2, 0, back=True)))
    back = policy.views[1]
    assert back.waiting_id.tolist() == [0, 2] and back.waiting_load.tolist() == [6, 9]
    assert back.waited_s.tolist() == [2.0, 1.5] and back.now_s == 2.0
    assert [view.mean_wait_s for view in policy.views] == [
        0,
        0,
        0,
    ]  # the second sending of row 0 is not counted
    assert out.requests.finished_s.tolist() == [3, 3, 4]


def test_the_mean_wait_is_that_of_first_sendings():
    policy = Scripted(((0, -1, -1), (0, -1), (0,)))
    run(trace_of((1, 2), (1, 1), (1, 1)), policy, pool=3)
    assert [view.mean_wait_s for view in policy.views] == [0.0, 0.0, 1.0]


def test_an_outage_takes_the_queue_of_a_worker_too():
    policy = Scripted(((0, 0), (1, 1)))
    out = run(trace_of((1, 4), (1, 1)), policy, workers=2, queue_depth=1, pool=2, outages=(Outage(1, 0),))
    assert out.requests.restarts.tolist() == [1, 1] and policy.views[1].free_slots.tolist() == [0, 2]
    assert out.requests.finished_s.tolist() == [4, 5] and out.requests.worker.tolist() == [1, 1]


def test_outages_that_block_everything_are_applied_at_once():
    out = run(trace_of((1, 1)), outages=(Outage(0, 0), Outage(3, 0, back=True)))
    assert out.totals.makespan_s == 1.0 and out.requests.admitted_step.tolist() == [0]
    with pytest.raises(PolicyError, match="for ever"):
        run(trace_of((1, 1)), outages=(Outage(0, 0),))


def test_the_newest_request_goes_back_when_kv_memory_overflows():
    out = run(trace_of((4, 4), (5, 4)), slots=2, kv_tokens=10.0, step_time=ONE)
    assert [x.tolist() for _, _, x in out.loads] == [[9], [5], [6], [7], [6], [7], [8]]
    assert out.requests.restarts.tolist() == [0, 1] and out.requests.admitted_step.tolist() == [0, 4]
    assert out.requests.finished_step.tolist() == [3, 6] and out.totals.makespan_s == 55


def test_a_request_is_newest_by_its_admission_step_before_its_row():
    policy = Scripted(((-1, 0), (0,), (-1,), (0,)))
    out = run(trace_of((3, 4), (2, 4)), policy, slots=2, kv_tokens=7.0)
    # row 1 from step 0 (2, 3, 4, 5), row 0 from step 1 (3, 4): at step 2 they need 8, and row 0 came later
    assert [x.tolist() for _, _, x in out.loads] == [[2], [6], [4], [5], [4], [5], [6]]
    assert out.requests.restarts.tolist() == [1, 0]


def test_a_request_that_no_worker_can_hold_alone_is_kept_running():
    out = run(trace_of((4, 4)), kv_tokens=5.0)
    assert [x.tolist() for _, _, x in out.loads] == [[4], [5], [6], [7]] and out.totals.restarts == 0


def test_kv_free_sets_growth_aside_for_every_request():
    policy = Scripted(((0, -1, -1), (0, -1), (0,)))
    run(
        trace_of((4, 3), (3, 1), (1, 1)),
        policy,
        slots=2,
        queue_depth=1,
        kv_tokens=20.0,
        kv_reserve=2.5,
        pool=3,
    )
    assert [view.kv_free.tolist() for view in policy.views] == [[20.0], [20.0 - 5 - 2.5], [20.0 - 6 - 2.5]]


def test_instant_dispatch_decides_one_request_at_a_time_as_it_arrives():
    policy = Scripted(((0,), (1,), (0,), (1,), (0,)))
    trace = trace_of((1, 3), (1, 3), (1, 1), (1, 1), (1, 1), arrival_s=[0.0, 0.0, 0.25, 0.5, 0.75])
    out = run(trace, policy, workers=2, dispatch="instant", queue_depth=1, arrivals="timed")
    assert [view.now_s for view in policy.views] == [0, 0, 0.25, 0.5, 3.0]
    assert [view.queued.tolist() for view in policy.views] == [[0, 0], [0, 0], [0, 0], [1, 0], [1, 1]]
    assert [view.free_slots.tolist() for view in policy.views] == [[2, 2], [1, 2], [1, 1], [0, 1], [1, 1]]
    assert policy.views[3].queued_load.tolist() == [1, 0] and policy.views[4].waited_s.tolist() == [2.25]
    assert out.requests.admitted_s.tolist() == [0, 0, 3, 3, 4] and out.totals.makespan_s == 5


def test_a_held_request_stops_instant_dispatch_until_the_next_event():
    policy = Scripted(((0,), (-1,), (1,), (1,)))
    out = run(
        trace_of((1, 1), (1, 1), (1, 1)),
        policy,
        workers=2,
        slots=2,
        dispatch="instant",
        pool=3,
        may_hold=True,
    )
    assert out.requests.admitted_s.tolist() == [0, 1, 1]
    assert [view.waiting_id.tolist() for view in policy.views] == [[0], [1], [1], [2]]


def test_groups_step_on_their_own_clocks():
    policy = Scripted(((0, 1, -1, -1), (1, 0)))
    out = run(trace_of((3, 2), (1, 3), (1, 1), (1, 1)), policy, workers=2, groups=(1, 1), pool=4, step_time=ONE)
    assert out.steps.group.tolist() == [0, 1, 1, 0, 1, 0, 1]
    assert out.steps.start_s.tolist() == [0, 0, 2, 4, 5, 9, 9]
    assert out.steps.step.tolist() == [0, 0, 1, 1, 2, 2, 3]
    assert out.requests.finished_step.tolist() == [1, 2, 3, 2] and out.totals.makespan_s == 11
    assert out.steps.running_all.tolist() == [2] * 7


def test_a_request_sent_to_a_group_inside_a_step_waits_for_its_boundary():
    policy = Scripted(((0, 1), (0, -1), (1,)))
    out = run(
        trace_of((3, 2), (1, 1), (1, 1), (1, 1)),
        policy,
        workers=2,
        slots=2,
        groups=(1, 1),
        pool=2,
        step_time=ONE,
        may_hold=True,
    )
    # clock 2: group 1 is at its boundary, group 0 inside its first step until 4
    assert policy.views[1].now_s == 2 and policy.views[1].free_slots.tolist() == [1, 2]
    assert policy.views[2].now_s == 4 and policy.views[2].queued.tolist() == [1, 0]
    assert out.requests.admitted_s.tolist() == [0, 0, 4, 4]
    assert out.requests.admitted_step.tolist() == [0, 0, 1, 1]


def test_an_idle_group_starts_a_request_while_others_are_inside_a_step():
    out = run(trace_of((1, 1), (1, 1), arrival_s=[0.0, 0.25]), workers=2, groups=(1, 1), arrivals="timed")
    assert out.requests.admitted_s.tolist() == [0, 0.25] and out.totals.makespan_s == 1.25


def test_speculative_decoding_takes_fewer_steps():
    out = run(trace_of((10, 7)), drift=Drift(growth=3, tokens_per_step=3))
    assert [x.tolist() for _, _, x in out.loads] == [[10], [13], [16]] and out.steps.tokens.tolist() == [
        3,
        3,
        1,
    ]


def test_a_sequence_of_growth_may_fall_but_not_below_zero():
    out = run(trace_of((4, 5)), drift=Drift(sequence=(2.0, -5.0)))
    assert [x.tolist() for _, _, x in out.loads] == [[4], [6], [1], [0], [0]]


def test_a_profile_gives_the_load_of_every_step():
    profiles = Profiles(np.array([5.0, 1.0, 2.5, 7.0]), np.array([0, 3, 4]))
    out = run(trace_of((1, 9), (1, 1)), slots=2, drift=Drift(profiles=profiles))
    assert [x.tolist() for _, _, x in out.loads] == [[12], [1], [2.5]] and out.steps.tokens.tolist() == [
        2,
        1,
        7,
    ]


def test_the_oracle_shows_a_request_until_it_leaves():
    policy = Scripted(((0, 0, -1), (0,)), horizon=3)
    run(trace_of((3, 4), (5, 1), (2, 1)), policy, slots=2, pool=3, predictor=Oracle())
    assert policy.views[0].projections.tolist() == [[0, 0, 0, 0]]
    assert policy.views[1].projections.tolist() == [[4, 5, 6, 0]]  # three steps left: it leaves at h = 3
    assert policy.views[1].growth.tolist() == [0, 1, 2, 3]


def test_a_policy_without_horizon_sees_no_projections():
    policy = Scripted(((0,),))
    run(trace_of((3, 4)), policy)
    assert policy.views[0].projections.shape == (1, 0) and policy.views[0].growth.tolist() == [0]
    assert policy.views[0].cached_tokens.shape == (0, 0) and math.isnan(policy.views[0].waiting_steps[0])


def test_the_key_of_a_request_is_its_session_or_prompt_or_number():
    policy = Scripted(((0, 0, 0),))
    trace = trace_of((1, 1), (1, 1), (1, 1), session=[-1, 0, -1], prompt_key=[9, 9, 0], request_class=[2, 0, 1])
    run(trace, policy, slots=3)
    assert policy.views[0].waiting_key.tolist() == [9, 0, 2] and policy.views[0].waiting_class.tolist() == [
        2,
        0,
        1,
    ]


def test_workers_of_different_speed_are_told_by_their_slopes():
    class Bent:
        def table(self):
            return PiecewiseLinear(np.array([0.0, 4.0, 8.0]), np.array([[0.0, 4.0, 12.0], [1.0, 3.0, 3.0]]))

        def local_seconds(self, load, running, longest):
            return self.table().local_seconds(load)

        def overhead_seconds(self, group_size):
            return 0.5 * group_size

    policy = Scripted(((0, 1),))
    out = run(trace_of((6, 1), (2, 1)), policy, workers=2, step_time=Bent())
    assert policy.views[0].seconds_per_token.tolist() == [1.0, 0.5]
    assert out.steps.local_max_s.tolist() == [8.0] and out.steps.local_sum_s.tolist() == [10.0]
    assert out.totals.makespan_s == 9.0


def test_a_step_is_overloaded_when_the_pool_without_its_largest_class_fills_all_free_slots():
    # before the decisions: loads 3 5 5 for one slot, then 5 5, then 5
    assert run(trace_of((3, 1), (5, 1), (5, 1)), pool=3).totals.overloaded_steps == 1
    # no free slot at the second of two steps: the definition holds of itself
    assert run(trace_of((3, 2))).totals.overloaded_steps == 1


def test_a_policy_that_breaks_its_contract_is_named():
    with pytest.raises(PolicyError, match=r"^policy Scripted broke its contract at decision 0: over capacity: worker 0"):
        run(trace_of((1, 1), (1, 1)), Scripted(((0, 0),)))


def test_a_policy_that_holds_for_ever_is_an_error():
    with pytest.raises(PolicyError, match="policy Holds holds 2 requests for ever"):
        run(trace_of((1, 1), (1, 1)), Holds(), may_hold=True)


def test_a_worker_that_runs_nothing_is_sent_the_oldest_held_request_that_fits_it():
    out = run(trace_of((9, 1), (2, 2), (1, 1)), Holds(), workers=2, slots=3, pool=3, kv_tokens=9.0)
    # clock 0: 9 tokens to worker 0 and 2 to worker 1; clock 1: worker 0 is idle again
    assert out.requests.worker.tolist() == [0, 1, 0] and out.requests.admitted_s.tolist() == [0, 0, 1]
    assert out.totals.counted == {"held_decisions": 2} and out.totals.decisions == 2


def test_what_does_not_fit_an_idle_worker_is_held_and_what_it_runs_keeps_the_word_of_its_policy():
    policy = Scripted(((0, -1), (-1,), (0,)))
    out = run(trace_of((5, 2), (6, 1)), policy, slots=2, pool=2, kv_tokens=9.0)
    assert out.requests.admitted_s.tolist() == [0, 2] and out.totals.counted == {"held_decisions": 0}


def test_a_horizon_without_predictor_is_an_error():
    with pytest.raises(InputError, match="simulate: predictor is 'absent'"):
        run(trace_of((1, 1)), Scripted(((0,),), horizon=2))


def test_timed_arrivals_need_times():
    with pytest.raises(InputError, match="trace: arrival_s"):
        run(trace_of((1, 1)), arrivals="timed")


def test_predecessors_outside_the_session_or_in_a_circle_are_errors():
    with pytest.raises(InputError, match="session of request 1"):
        run(trace_of((1, 1), (1, 1), session=[0, 1], after=[-1, 0]), arrivals="closed")
    with pytest.raises(InputError, match="ends before 1"):
        run(trace_of((1, 1), (1, 1), session=[0, 0], after=[-1, 1]), arrivals="closed")


def test_an_empty_trace_takes_no_time():
    out = run(Trace(np.zeros(0, np.int64), np.zeros(0, np.int64)))
    assert out.totals.makespan_s == 0 and out.steps.rows == 0 and out.requests.rows == 0
