"""The runs behind a comparison."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from evenstep.cost.linear import Linear
from evenstep.errors import InputError, PolicyError
from evenstep.experiments import crew
from evenstep.experiments.contenders import contenders
from evenstep.experiments.jobs import Plan, Shared, fingerprint, replicates, run_all
from evenstep.request import PrefixBlocks, Trace
from evenstep.sim.cluster.drift import Drift, Profiles
from evenstep.sim.cluster.simulation import Cluster

TRACE = Trace(np.arange(5, 65), np.arange(60) % 7 + 1, np.arange(60) * 0.01, name="small")


def plan(**changes) -> Plan:
    return Plan(
        **{"source": TRACE, "cluster": Cluster(workers=3, slots=2, pool=8), "step_time": Linear(), "seeds": 2} | changes
    )


def shared(*asked, **changes) -> Shared:
    found = plan(**changes)
    return Shared(found, contenders(asked), replicates(found.replicate, found.seeds, found.fewer))


def run(asked, processes=1, **changes):
    return list(run_all(shared(*asked, **changes), processes))


def test_a_step_table_for_charts_has_no_more_steps_than_asked_for():
    whole, thinned = (run(["jsq"], records=True, most_steps=most) for most in (0, 9))
    assert thinned[0].result.steps.rows == 9 < whole[0].result.steps.rows
    assert [d.result.summary for d in thinned] == [d.result.summary for d in whole]


def test_every_contender_meets_every_replicate_in_order():
    done = run(["jsq", "fcfs"])
    assert [(d.job.contender, d.job.index) for d in done] == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_all_contenders_see_the_same_replicate_and_replicates_differ():
    found = plan()
    first, second = replicates(found.replicate, 2, False)
    assert fingerprint(first) == fingerprint(TRACE)
    assert fingerprint(second) != fingerprint(first)
    assert fingerprint(found.replicate(1)) == fingerprint(second)


def test_prefix_blocks_are_part_of_what_a_trace_is():
    blocks = PrefixBlocks(np.arange(60), np.arange(61), 16)
    with_blocks, others = replace(TRACE, prefix_blocks=blocks), replace(blocks, ids=blocks.ids + 1)
    prints = {fingerprint(t) for t in (TRACE, with_blocks, replace(TRACE, prefix_blocks=others))}
    assert len(prints) == 3


def test_loads_by_request_are_compared_at_any_number_of_processes_too():
    """Other processes load kernels by a rehearsal of fewer requests, which needs fewer profiles."""
    steps = TRACE.output_tokens
    profiles = Profiles(np.arange(steps.sum()) % 9.0, np.concatenate([[0], np.cumsum(steps)]))
    cluster = Cluster(workers=3, slots=2, pool=8, drift=Drift(profiles=profiles))
    here, there = (run(["jsq", "random"], processes=n, cluster=cluster, seeds=1) for n in (1, 2))
    assert {d.job.contender: d.result.digest for d in here} == {d.job.contender: d.result.digest for d in there}
    with pytest.raises(InputError, match="seeds is 2; expected 1 where the drift has profiles"):
        plan(cluster=cluster, seeds=2)


def test_digests_are_the_same_at_any_number_of_processes(tmp_path):
    asked = ["jsq", "random"]
    here = {(d.job.contender, d.job.index): d.result.digest for d in run(asked)}
    there = {(d.job.contender, d.job.index): d.result.digest for d in run(asked, processes=2)}
    assert here == there


@pytest.fixture
def kernels_are_there(monkeypatch):
    """Runs do not begin in plain Python, as they do where kernels were never compiled."""
    monkeypatch.setattr(crew, "cold_kernels", lambda policies, loops: [[] for _ in policies])


@pytest.mark.usefixtures("kernels_are_there")
def test_long_comparisons_move_to_processes_on_their_own(monkeypatch):
    moved = []

    class Recorded(crew.Here):
        def __init__(self, count, shared):
            moved.append(count)
            super().__init__(shared)

    monkeypatch.setattr(crew, "is_worthwhile", lambda spent, done, left: done == 1)
    monkeypatch.setattr(crew, "cores", lambda: 2)
    monkeypatch.setattr(crew, "Processes", Recorded)
    assert len(run(["jsq", "fcfs"], processes=None)) == 4
    assert moved == [2]


@pytest.mark.usefixtures("kernels_are_there")
def test_in_processes_one_run_of_each_tells_the_cost_and_the_longest_go_first(monkeypatch):
    seconds = {"jsq": 1.0, "fcfs": 3.0, "random": 2.0}

    class Timed(crew.Here):
        def __init__(self, count, shared):
            super().__init__(shared)

        def wait(self):
            name = self._shared.names[self._job.contender]
            return replace(super().wait(), seconds=seconds[name])

        def submit(self, job):
            super().submit(job)
            order.append((job.contender, job.index))

    order = []
    monkeypatch.setattr(crew, "Processes", Timed)
    run([*seconds], processes=2)
    assert order == [(0, 0), (1, 0), (2, 0), (1, 1), (2, 1), (0, 1)]


@pytest.mark.slow
@pytest.mark.parametrize("forks", [True, False])
def test_forked_and_spawned_processes_give_the_same_digests(monkeypatch, forks):
    monkeypatch.setattr("evenstep.experiments.executors.can_fork", lambda: forks)
    here = {(d.job.contender, d.job.index): d.result.digest for d in run(["br-0"])}
    assert {(d.job.contender, d.job.index): d.result.digest for d in run(["br-0"], processes=2)} == here


def test_short_comparisons_stay_here(monkeypatch):
    monkeypatch.setattr(crew, "is_worthwhile", lambda spent, done, left: False)
    monkeypatch.setattr(crew, "Processes", lambda *args: pytest.fail("started processes"))
    assert len(run(["jsq"], processes=None)) == 2


def test_records_are_kept_of_the_first_replicate_only_unless_all_are_asked_for():
    assert [d.result.requests is not None for d in run(["jsq"], records=True)] == [True, False]
    assert [d.result.requests is not None for d in run(["jsq"], all_records=True)] == [True, True]
    assert [d.result.requests is not None for d in run(["jsq"])] == [False, False]


def test_equal_replicates_are_refused():
    same = Trace(np.full(4, 9), np.full(4, 2), name="same")
    with pytest.raises(InputError, match="same: seeds is 2; expected replicates that differ"):
        replicates(plan(source=same).replicate, 2, False)
    assert len(replicates(plan(source=same).replicate, 1, False)) == 1
    assert len(replicates(plan(source=same).replicate, 3, True)) == 1


def test_the_first_copy_ends_the_search_for_replicates_however_many_are_asked_for():
    found = plan(source=Trace(np.array([3]), np.array([4])))
    with pytest.raises(InputError, match="replicates 0 and 1 are the same requests"):
        replicates(found.replicate, 10**15, False)


def test_a_policy_that_breaks_its_contract_ends_the_comparison(tmp_path):
    bad = tmp_path / "greedy.py"
    bad.write_text(
        "import numpy as np\nfrom evenstep import RoutingDecision\n"
        "class Greedy:\n    def route(self, view):\n"
        "        return RoutingDecision(np.zeros(view.waiting_id.size, np.int64))\n"
        "policy = Greedy\n"
    )
    with pytest.raises(PolicyError, match="over capacity"):
        run([str(bad)])


def test_before_a_fork_a_policy_of_ours_makes_a_short_run_and_a_user_s_does_not(monkeypatch, tmp_path):
    mine = tmp_path / "mine.py"
    mine.write_text(
        "from evenstep.routing.policies.jsq import JSQ\n"
        "class Mine:\n    def route(self, view):\n        return JSQ().route(view)\npolicy = Mine\n"
    )
    rehearsed = []
    monkeypatch.setattr(Shared, "_rehearse", lambda self, place: rehearsed.append(place))
    monkeypatch.setattr(crew, "can_fork", lambda: True)
    assert len(run(["jsq", str(mine)], processes=2)) == 4
    assert rehearsed == [0]
