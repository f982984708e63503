"""A rule is one text: it reads names, may not write its view, and says what its file lacks."""

from __future__ import annotations

import re
import textwrap

import pytest
from tests.scheduling._views import decodes, formed, view_of, waits

from evenstep import compiled, names
from evenstep.cli.policy import TEMPLATES
from evenstep.errors import PolicyError
from evenstep.scheduling.check_views import check_views
from evenstep.scheduling.checks import check
from evenstep.scheduling.order import ARRIVAL

HEAD = """
from dataclasses import dataclass
from typing import NamedTuple

from evenstep.compiled import Ints
from evenstep.scheduling.batch import Batch, give, offer, vacate
from evenstep.scheduling.rules import Ruled, RuleView, rule


@dataclass(frozen=True)
class Mine(Ruled):
    most: int = 2
"""

LONGEST = """
class Work(NamedTuple):
    batch: Batch
    order: Ints

def room(running, waiting, options):
    return (waiting,)

@rule
def form_batch(view, options, work):
    for position in range(view.running.size):
        offer(view, work.batch, view.running[position], position, 0)
    for i in range(view.waiting.size):
        work.order[i] = i
    for i in range(min(options.most, view.waiting.size)):
        offer(view, work.batch, view.waiting[work.order[i]], view.running.size + i, 0)
    work.batch.wake_s[0] = view.now_s + 5.0
"""


def written(tmp_path, text):
    path = tmp_path / "mine.py"
    path.write_text(HEAD + textwrap.dedent(text))
    return names.build("scheduling", names.parse(f"{path}:Mine"))


@pytest.mark.slow
def test_a_rule_has_options_by_name_and_working_space_of_its_own(tmp_path):
    policy = written(tmp_path, LONGEST)
    view = view_of([decodes(4, 2)], [waits(3), waits(5), waits(6)], free=99)
    assert formed(policy, view) == ([1, 3, 5, 0], [])
    assert policy.form_batch(view).wake_s == 105.0
    assert formed(policy, view_of([], [], free=99)) == ([], [])


@pytest.mark.slow
def test_a_rule_keeps_the_promises_of_a_policy(tmp_path):
    policy = written(tmp_path, LONGEST.replace("work.batch.wake_s[0] = view.now_s + 5.0", "pass"))
    assert [found for found in check(policy) if not found.passed] == []


@pytest.mark.skipif(compiled.numba is None, reason="plain Python finds it when the rule writes")
def test_a_rule_that_writes_its_view_does_not_compile(tmp_path):
    policy = written(
        tmp_path,
        """
        @rule
        def form_batch(view, options, batch):
            view.left[0] = 1
        """,
    )
    with pytest.raises(Exception, match="readonly|read-only|immutable|setitem"):
        policy.form_batch(view_of([], [waits(3)], free=9))


def test_working_space_without_a_size_is_refused(tmp_path):
    policy = written(
        tmp_path,
        """
        class Work(NamedTuple):
            batch: Batch
            order: Ints

        @rule
        def form_batch(view, options, work):
            work.order[0] = 1
        """,
    )
    with pytest.raises(PolicyError, match=r"Work\.order has no length; expected one, as Annotated\[Ints, .2 \* running.\]"):
        policy.form_batch(view_of([], [waits(3)], free=9))


@pytest.mark.slow
def test_the_two_ways_to_write_the_template_s_policy_form_the_same_batches(tmp_path):
    policies = []
    for kind, text in (("plain", "policy"), ("ruled", "rule")):
        path = tmp_path / f"{kind}.py"
        written = (TEMPLATES / f"scheduling_{text}.py.txt").read_text()
        path.write_text(written.replace("NAME", kind).replace("TITLE", "Mine"))
        policies.append(names.build("scheduling", names.parse(f"{path}:room=7")))
    for view in check_views(ARRIVAL, 0):
        assert formed(policies[0], view) == formed(policies[1], view)


MISPLACED = """
@rule
def form_batch(view, options, work):
    if view.running.size > 1 and view.waiting.size > 1:
        {0}
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("calls", "fault"),
    [
        ("give(view, work, view.running[0], -1, 1)", "picks position -1; expected 0 to 3"),
        ("give(view, work, view.running[0], view.running.size + view.waiting.size, 1)", "picks position 4; expected 0 to 3"),
        ("for _ in range(2): give(view, work, view.running[0], 0, 1)", "picks position 0 twice"),
        (
            "for k in range(2): give(view, work, view.waiting[1 - k], 3 - k, 3)",
            "picks position 2 of the queue after a later one",
        ),
        ("vacate(view, work, view.running.size - 3)", "evicts position -1; expected a running request, 0 to 1"),
        ("for _ in range(2): vacate(view, work, 1)", "evicts position 1 twice"),
    ],
)
def test_positions_that_the_simulator_refuses_are_an_error_of_a_single_decision_too(tmp_path, calls, fault):
    policy = written(tmp_path, MISPLACED.format(calls))
    with pytest.raises(PolicyError, match=f"^the rule of Mine {re.escape(fault)}$"):
        policy.form_batch(view_of([decodes(4, 2), decodes(4, 2)], [waits(3), waits(3)], free=99))
    assert any(one.name == "answers" and not one.passed and "the rule of Mine" in one.message for one in check(policy))
