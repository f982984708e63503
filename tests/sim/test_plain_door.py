"""The plain door: what a policy sees is read-only and true, what it answers is checked, what it raises is named."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
from tests.sim.policies import Oldest

from evenstep.cost.linear import Linear
from evenstep.cost.per_worker import PerWorker
from evenstep.errors import InputError, PolicyError
from evenstep.predict.oracle import Oracle
from evenstep.request import Trace
from evenstep.routing.view import RoutingDecision, RoutingView
from evenstep.sim.cluster.simulation import Cluster, simulate

TRACE = Trace(np.array([3, 5, 9]), np.array([4, 1, 2]), session=np.array([4, -1, 4]), after=np.full(3, -1))


@dataclasses.dataclass(frozen=True)
class Does:
    """Calls a function with each view and answers what it answers, or as `Oldest`."""

    act: object
    horizon: int = 2
    memory_size: int = 2

    def route(self, view: RoutingView) -> RoutingDecision:
        answer = self.act(view)  # type: ignore[operator]
        return Oldest().route(view) if answer is None else answer


def run(act, trace=TRACE, **cluster):
    options = {"workers": 2, "slots": 1, "pool": 3} | cluster
    return simulate(trace, Does(act), cluster=Cluster(**options), step_time=Linear(1.0, 0.0), predictor=Oracle(), seed=9)


def test_no_array_of_a_view_can_be_written():
    tried = []

    def write(view):
        for field in dataclasses.fields(view):
            array = getattr(view, field.name)
            if isinstance(array, np.ndarray) and array.size and field.name != "waited_s":  # a copy made for the view
                with pytest.raises(ValueError, match="read-only"):
                    array[...] = 1
                tried.append(field.name)

    run(write)
    assert {
        "load",
        "free_slots",
        "waiting_id",
        "waiting_load",
        "waiting_key",
        "projections",
        "growth",
    } <= set(tried)
    assert {"group", "queued", "kv_free", "seconds_per_token", "waiting_steps", "memory"} <= set(tried)


def test_workers_of_different_speed_show_what_a_token_costs_them():
    seen = []
    policy = Does(lambda view: seen.append(view.seconds_per_token.tolist()))
    law = PerWorker(speed=(1.0, 4.0), overhead_s=1.0, per_token_s=0.5)
    simulate(TRACE, policy, cluster=Cluster(3, 1, pool=3), step_time=law, predictor=Oracle())
    assert seen[0] == [0.5, 0.125, 0.5]


def test_a_view_is_a_routing_view_and_frozen():
    def rebind(view):
        assert type(view) is RoutingView
        with pytest.raises(dataclasses.FrozenInstanceError):
            view.load = None

    assert run(rebind).totals.requests == 3


def test_a_view_shows_the_moment():
    seen = []

    def keep(view):
        seen.append(
            (
                view.decision,
                view.seed,
                view.now_s,
                view.waiting_id.tolist(),
                view.waited_s.tolist(),
                view.load.tolist(),
            )
        )

    run(keep)
    # rows 0 and 1 start at once; row 1 leaves at 1, row 0 has 3 + 1 tokens by then
    assert seen == [(0, 9, 0.0, [0, 1, 2], [0, 0, 0], [0, 0]), (1, 9, 1.0, [2], [1.0], [4, 0])]


def test_class_and_key_are_shown_where_the_trace_has_them():
    seen = []
    run(lambda view: seen.append((view.waiting_class.tolist(), view.waiting_key.tolist())))
    bare = Trace(TRACE.prompt_tokens, TRACE.output_tokens)
    run(lambda view: seen.append((view.waiting_class.tolist(), view.waiting_key.tolist())), trace=bare)
    assert seen == [([0, 0, 0], [4, 1, 4]), ([0], [4]), ([0, 0, 0], [0, 1, 2]), ([0], [2])]


def test_memory_comes_back_and_stays_where_an_answer_leaves_it_out():
    seen = []

    def count(view):
        seen.append(view.memory.tolist())
        memory = view.memory + 1 if len(seen) < 3 else None
        return dataclasses.replace(Oldest().route(view), memory=memory)

    run(count, workers=1)
    rows = Trace(np.ones(5, np.int64), np.ones(5, np.int64))
    seen.clear()
    run(count, trace=rows, workers=1)
    assert seen == [[0, 0], [1, 1], [2, 2], [2, 2], [2, 2]]


def test_after_the_pool_has_grown_the_view_is_of_the_new_buffers():
    rows = 3000  # more than the pool of timed arrivals has room for
    trace = Trace(np.ones(rows, np.int64), np.ones(rows, np.int64), arrival_s=np.zeros(rows))
    seen = []

    def first_only(view):
        seen.append((view.waiting_id.size, int(view.waiting_id[0]), int(view.waiting_id[-1])))

    out = run(first_only, trace=trace, workers=2, slots=300, arrivals="timed")
    assert seen[0] == (rows, 0, rows - 1)
    assert [first for _, first, _ in seen] == [0, 600, 1200, 1800, 2400]
    assert out.totals.requests == rows


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (
            RoutingDecision(np.zeros(2, np.int64)),
            "worker has shape (2,) and dtype int64; expected (3,) and int64",
        ),
        (RoutingDecision(np.zeros(3)), "worker has shape (3,) and dtype float64; expected (3,) and int64"),
        (
            RoutingDecision(np.array([0, 0, -1])),
            "over capacity: worker 0 is sent more requests than it has free",
        ),
        (RoutingDecision(np.array([7, -1, -1])), "unknown worker 7; expected -1 (hold) or 0..1"),
    ],
)
def test_a_broken_contract_names_policy_decision_and_rule(answer, said):
    with pytest.raises(PolicyError) as error:
        run(lambda view: answer)
    assert str(error.value).startswith("policy Does broke its contract at decision 0: ")
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (3, "route answers int; expected a RoutingDecision"),
        ([0, 1, -1], "route answers list; expected a RoutingDecision"),
        (np.zeros(3, np.int64), "route answers ndarray; expected a RoutingDecision"),
        (
            SimpleNamespace(worker=np.array([0, 1, -1]), memory=None, bound=0.0),
            "route answers SimpleNamespace; expected a RoutingDecision",
        ),
        (RoutingDecision([0, 1, -1]), "worker is a list; expected an array of int64"),  # type: ignore[arg-type]
        (RoutingDecision(np.zeros(3, np.int64), [0]), "memory is a list; expected an array of int64"),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_decision_breaks_the_contract(answer, said):
    with pytest.raises(PolicyError, match=f"^policy Does broke its contract at decision 0: {said}$"):
        run(lambda view: answer)


def test_a_policy_that_answers_its_view_breaks_the_contract():
    with pytest.raises(PolicyError, match="broke its contract at decision 0: route answers RoutingView; expected"):
        run(lambda view: view)


def test_what_a_policy_raises_is_named_with_the_decision_and_kept_as_the_cause():
    def fail(view):
        if view.decision == 1:
            raise ZeroDivisionError("by hand")

    with pytest.raises(PolicyError, match="^policy Does raised ZeroDivisionError at decision 1: by hand$") as error:
        run(fail)
    assert isinstance(error.value.__cause__, ZeroDivisionError)


def test_an_error_of_ours_that_a_policy_raises_is_the_policy_s():
    """It read like an error of the user's own settings: nothing named the policy."""

    def refuse(view):
        raise InputError("here", "field", 1, "another")

    said = r"^policy Does raised InputError at decision 0: here: field is 1; expected another\.$"
    with pytest.raises(PolicyError, match=said) as error:
        run(refuse)
    assert type(error.value.__cause__) is InputError


def test_memory_of_another_type_than_int64_is_a_broken_contract():
    answer = RoutingDecision(np.zeros(3, np.int64), np.zeros(1, np.int32))
    said = "^policy Does broke its contract at decision 0: memory has dtype int32; expected int64$"
    with pytest.raises(PolicyError, match=said):
        run(lambda view: answer)


def test_a_policy_may_start_a_run_of_its_own_and_goes_on_after_it():
    inner = []

    def nested(view):
        if not inner:
            inner.append(run(Oldest().route))
        return Oldest().route(view)

    assert run(nested).digest == inner[0].digest


def test_an_interrupt_inside_a_policy_ends_the_run():
    def interrupt(view):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(interrupt)
