"""A rule is one text: it reads names, may not write its view, and says what its file lacks."""

from __future__ import annotations

import textwrap

import pytest
from tests.scheduling._views import decodes, formed, view_of, waits

from evenstep import compiled, names
from evenstep.cli.policy import TEMPLATES
from evenstep.scheduling.check_views import check_views
from evenstep.scheduling.checks import check
from evenstep.scheduling.order import ARRIVAL

HEAD = """
from dataclasses import dataclass
from typing import NamedTuple

from evenstep.compiled import Ints
from evenstep.scheduling.batch import Batch, give, offer
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


def test_a_rule_has_options_by_name_and_working_space_of_its_own(tmp_path):
    policy = written(tmp_path, LONGEST)
    view = view_of([decodes(4, 2)], [waits(3), waits(5), waits(6)], free=99)
    assert formed(policy, view) == ([1, 3, 5, 0], [])
    assert policy.form_batch(view).wake_s == 105.0
    assert formed(policy, view_of([], [], free=99)) == ([], [])


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
    with pytest.raises(TypeError, match="expected a function room"):
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
