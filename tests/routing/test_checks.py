"""The conformance suite, itself tested: every bad policy fails its own check, with its own message, and no other."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from tests.routing._routed import moment

from evenstep import names
from evenstep.cli.policy import _short_run
from evenstep.policy_checks import _in_second_process
from evenstep.routing.checks import check, difference, kernel_call
from evenstep.routing.policies.fcfs import FCFS
from evenstep.routing.policies.round_robin import RoundRobin
from evenstep.routing.view import RoutingDecision

BAD = Path(__file__).parent.parent / "bad_policies"
EXPECTED = {
    "peeks": ("no peeking", "reaches outside its view: gc.get_objects"),
    "peeks_through_frames": ("no peeking", "frames through tb_frame"),
    "peeks_behind_the_window": ("no peeking", "what stands behind the view's arrays"),
    "over_capacity": ("capacity", "over capacity: worker 0 is sent"),
    "assigns_twice": ("one answer a request", "a request is assigned once"),
    "unknown_worker": ("known workers", "unknown worker"),
    "reads_a_clock": ("no clock", "reads a clock: time.monotonic"),
    "mutates_its_view": ("view left alone", "route changes free_slots"),
    "doors_differ": ("doors agree", "plain route answers"),
    "writes_past_its_space": ("doors agree", "view 0: the rule, in plain Python, raises IndexError: "),
    "remembers_by_itself": ("pure memory", "depends on what was asked before"),
    "holds_beside_idle": ("never holds what fits an idle worker", "runs nothing and has"),
    "throws_dice": ("no chance of its own", "global random generator"),
}


def failures(policy, simulate=None):
    return {f.name: f.message for f in check(policy, simulate) if not f.passed}


def test_every_bad_policy_is_expected_here():
    assert {p.stem for p in BAD.glob("*.py")} == set(EXPECTED)


@pytest.mark.slow
@pytest.mark.parametrize("stem", EXPECTED)
def test_a_bad_policy_fails_its_own_check_with_its_own_message(stem):
    name, message = EXPECTED[stem]
    found = failures(names.build("routing", {"name": str(BAD / f"{stem}.py")}))
    also = {"deterministic", "no peeking"} if stem == "remembers_by_itself" else set()  # the same fault, seen otherwise
    also |= {"never holds what fits an idle worker"}  # most of them send next to nothing
    assert {name} <= set(found) <= {name} | also
    assert message in found[name]


def test_a_rule_that_writes_outside_of_its_arrays_is_never_asked_compiled():
    """Compiled code checks no index: a write far outside was a segmentation fault, and the check said nothing."""
    found = check(names.build("routing", {"name": str(BAD / "writes_past_its_space.py")}))
    assert [(f.name, f.passed) for f in found] == [("frozen", True), ("doors agree", False)]
    assert EXPECTED["writes_past_its_space"][1] in found[-1].message


def test_a_rule_that_fails_otherwise_before_it_leaves_its_arrays_is_never_asked_compiled(tmp_path):
    """Views 0 and 1 have several requests; compiled, a division by 0 in them ended nothing, and a later view Python."""
    source = (BAD / "writes_past_its_space.py").read_text()
    mine = tmp_path / "mine.py"
    mine.write_text(source.replace("view.waiting_load.size]", "view.waiting_load.size // (view.waiting_load.size < 2)]"))
    found = check(names.build("routing", {"name": str(mine)}))
    assert [(f.name, f.passed) for f in found] == [("frozen", True), ("doors agree", False)]
    assert "in plain Python, raises IndexError" in found[-1].message and "view 0" not in found[-1].message


def test_a_list_for_an_array_is_no_answer():
    @dataclass(frozen=True)
    class Lists:
        def route(self, view):
            return RoutingDecision(FCFS().route(view).worker.tolist())

    assert failures(Lists()) == {"answers": "view 0: route answers worker as a list; expected an array"}


def test_a_good_policy_passes_and_names_every_check():
    findings = check(RoundRobin(), lambda policy, door: "same")
    assert [f.name for f in findings if not f.passed] == []
    assert len({f.name for f in findings}) == len(findings) == 15


def test_a_digest_that_differs_between_doors_is_found():
    assert (
        "plain door 1, compiled door 2" in failures(FCFS(), lambda p, door: "1" if door == "plain" else "2")["same digest"]
    )


BY_KEY = """
from dataclasses import dataclass
import numpy as np
from evenstep import HOLD, RoutingDecision

@dataclass(frozen=True)
class ByKey:
    def route(self, view):
        worker, free, kv = np.full(view.waiting_id.size, HOLD), view.free_slots.copy(), view.kv_free.copy()
        for i in range(worker.size):
            open_to = np.flatnonzero((free > 0) & (kv >= view.waiting_load[i]))
            if open_to.size:
                g = worker[i] = open_to[KEY % open_to.size]
                free[g] -= 1
                kv[g] -= view.waiting_load[i]
        return RoutingDecision(worker)

policy = ByKey
"""


@pytest.mark.slow
@pytest.mark.parametrize(("key", "passed"), [("view.decision", True), ("hash('x' + str(view.decision))", False)])
def test_a_digest_that_differs_between_processes_is_found(tmp_path, key, passed):
    path = tmp_path / "by.key.py"
    path.write_text(BY_KEY.replace("KEY %", f"{key} %"))
    policy = names.build("routing", {"name": str(path)})
    assert (_in_second_process(policy, _short_run) == _short_run(policy, "plain")) == passed
    found = {f.name: f for f in check(policy, _short_run)}["same digest"]
    assert found.passed == passed
    assert passed or "a second one" in found.message


@pytest.mark.slow
def test_a_digest_that_differs_between_equal_runs_is_found():
    runs = iter("12345")
    assert "two equal runs: 1 and 2" in failures(FCFS(), lambda p, door: next(runs))["same digest"]


@dataclass(frozen=True)
class Raises:
    def route(self, view):
        return RoutingDecision(np.zeros(1 // view.waiting_id.size, np.int64))


@dataclass(frozen=True)
class AnswersAList:
    def route(self, view):
        return [0] * view.waiting_id.size


@dataclass(frozen=True)
class WritesIntoItsView:
    def route(self, view):
        view.free_slots[0] -= 1
        return RoutingDecision(np.full(view.waiting_id.size, -1, np.int64))


class Thaws:
    def route(self, view):
        return RoutingDecision(np.full(view.waiting_id.size, -1, np.int64))


def test_a_policy_that_raises_is_told_on_which_view():
    assert "raises ZeroDivisionError" in failures(Raises())["answers"]


def test_a_policy_that_answers_something_else_is_told():
    assert failures(AnswersAList()) == {"answers": "route answers list; expected a RoutingDecision"}


def test_a_policy_that_writes_into_a_read_only_array_is_told_to_copy():
    assert "copy what you count on" in failures(WritesIntoItsView())["view left alone"]


def test_a_policy_whose_parameters_can_change_is_told():
    assert "no frozen dataclass" in failures(Thaws())["frozen"]


# --- the compiled door beside the plain one ------------------------------------------------------------------

VIEW = moment([0, 0], [1, 2], [5, 5, 5])


class NoKernel:
    def route(self, view):
        return RoutingDecision(np.full(view.waiting_id.size, -1, np.int64))


def test_a_policy_without_a_kernel_has_no_compiled_door():
    assert kernel_call(NoKernel(), VIEW) is None


def test_the_compiled_door_answers_like_the_plain_one():
    assert kernel_call(FCFS(), VIEW).decision().worker.tolist() == FCFS().route(VIEW).worker.tolist() == [1, 0, 1]


def test_a_write_beyond_the_scratch_is_seen():
    call = kernel_call(FCFS(), VIEW)
    call.decision()
    assert call.overrun() == ""
    call.guarded["scratch_f"][-1] = 0.0
    assert call.overrun() == "the kernel writes beyond the end of scratch_f"


def test_differences_are_told_by_the_first_field_that_differs():
    a = RoutingDecision(np.array([0, 1]), np.array([1]))
    none = np.array([0])
    assert difference(a, a, none) == ""
    assert "request 1: plain route answers 1, the kernel -1" in difference(a, RoutingDecision(np.array([0, -1])), none)
    assert "memory: plain route keeps [1], the kernel [0]" in difference(a, RoutingDecision(np.array([0, 1])), none)
    assert "bound" in difference(a, RoutingDecision(np.array([0, 1]), np.array([1]), 2.0), none)
