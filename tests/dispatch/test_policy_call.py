"""A policy through its kernel and through its plain door answers alike, and keeps its memory."""

from __future__ import annotations

import pytest
from tests.dispatch.told import Story

from evenstep.dispatch.rounds.policy_call import Packed, PolicyCall, sealed
from evenstep.errors import InputError, PolicyError


def run(policy, plain):
    story = Story(policy)
    for name in "abc":
        story.worker(name, slots=4)
    if plain:
        story.d.parts.deciding.call._kernel = None
    told = []
    for request in range(9):
        story.arrives(request, prompt_tokens=1 + 7 * request % 5)
        told += [(c.request, c.worker) for c in story.tick()]
    return told


@pytest.mark.parametrize("policy", ["round-robin", "br-0", "jsq", "br-h:horizon=3", "bf-io:horizon=2"])
def test_both_doors_answer_alike(policy):
    assert PolicyCall(policy).has_kernel
    assert run(policy, plain=True) == run(policy, plain=False)


def test_the_exact_solver_never_runs_live(monkeypatch):
    """It may take seconds, and no budget ends it. So live decisions of bf-io search, also with `exact=true`."""
    monkeypatch.setattr("evenstep.routing.bf_io.exact.solve", lambda *_: pytest.fail("it was called"))
    assert run("bf-io:exact=true", plain=False) == run("bf-io", plain=False)


def test_round_robin_goes_on_where_it_was():
    assert [worker for _, worker in run("round-robin", plain=False)] == [*"abcabcabc"]


def test_something_that_cannot_route_is_no_policy(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("class policy: pass\n")
    with pytest.raises(InputError, match="route"):
        PolicyCall(str(file))


def test_an_answer_of_another_class_is_one_error(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("class policy:\n    def route(self, view): return [0] * view.waiting_id.size\n")
    call = PolicyCall(str(file))
    packed = Packed(2, 0)
    with pytest.raises(PolicyError, match=r"mine\.py broke its contract at decision 0: route answers list; expected a Rout"):
        call.answer(packed)


def test_a_sealed_window_cannot_be_written():
    import numpy as np

    with pytest.raises(ValueError, match="read-only"):
        sealed(np.zeros(2))[0] = 1
