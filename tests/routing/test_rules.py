"""A rule is one text: it reads names, may not write its view, and says what its file lacks."""

from __future__ import annotations

import re
import textwrap

import pytest
from tests.routing._routed import moment

from evenstep import compiled, names
from evenstep.errors import PolicyError
from evenstep.routing.view import horizon_of


def view():
    return moment(load=[30.0, 10.0, 20.0], free=[2, 2, 2], waiting=[5.0, 6.0, 7.0, 8.0])


def written(tmp_path, text):
    path = tmp_path / "mine.py"
    path.write_text(
        "from dataclasses import dataclass; from http import HTTPMethod, HTTPStatus\nfrom typing import NamedTuple\n"
        "from evenstep.compiled import Floats, Ints\nfrom evenstep.routing.rules import Ruled, rule\n"
        + textwrap.dedent(text)
    )
    return names.build("routing", names.parse(f"{path}:Mine"))


POLICY = """
    @dataclass(frozen=True)
    class Mine(Ruled):
        last: bool = False
        share: float = 0.5
        levels: tuple[float, ...] = (1.0, 2.0)
"""


def test_a_rule_reads_an_option_whose_choices_are_numbers(tmp_path):
    head = "@dataclass(frozen=True)\nclass Mine(Ruled):\n    last: HTTPStatus = HTTPStatus.OK\n"
    policy = written(
        tmp_path, head + "@rule\ndef route(view, options, work):\n    work.worker[:] = int(options.last) - 199\n"
    )
    assert policy.route(view()).worker.tolist() == [1, 1, 1, 1]


def test_a_rule_reads_its_options_by_name(tmp_path):
    policy = written(
        tmp_path,
        POLICY
        + """
    @rule
    def route(view, options, work):
        if not options.last and options.share == 0.5 and options.levels.size == 2:
            work.worker[0] = int(options.levels[1])
    """,
    )
    assert policy.route(view()).worker.tolist() == [2, -1, -1, -1]


@pytest.mark.skipif(compiled.numba is None, reason="plain Python finds it when the rule writes")
def test_a_rule_that_writes_its_view_does_not_compile(tmp_path):
    policy = written(
        tmp_path,
        POLICY
        + """
    @rule
    def route(view, options, work):
        view.load[0] = 1.0
    """,
    )
    with pytest.raises(Exception, match="readonly|read-only|immutable|setitem"):
        policy.route(view())


def test_working_space_without_a_size_is_refused(tmp_path):
    policy = written(
        tmp_path,
        POLICY
        + """
    class Work(NamedTuple):
        worker: Ints
        memory: Ints
        bound: Floats
        load: Floats

    @rule
    def route(view, options, work):
        work.load[0] = 1.0
    """,
    )
    with pytest.raises(PolicyError, match=r"^mine\.py: the rule of Mine is refused: .*Work\.load has no length; expected"):
        policy.route(view())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("    last: str = 'x'\n@rule\ndef route(view, options, work):\n    pass\n", "option last is any text; expected"),
        (
            "    last: HTTPMethod = HTTPMethod.GET\n@rule\ndef route(view, options, work):\n    pass\n",
            "option last is an Enum; expected numbers, or the words that it may be, as a Literal",
        ),
        (
            "    pass\nclass Work(NamedTuple):\n    bound: Floats\n@rule\ndef route(view, options, work):\n    pass\n",
            r"Work begins with other arrays \(bound\); expected worker, memory, bound first, in this order",
        ),
        ("    pass\n", "^Mine has no rule; expected a function marked with @rule"),
        pytest.param(
            "    pass\n@rule\ndef route(view, options, work):\n    work.worker[0] = [1, 2]\n",
            r"^mine\.py: the rule of Mine is refused: line 10: [^\n\x1b]*$",
            marks=pytest.mark.skipif(compiled.numba is None, reason="only a compiler refuses it"),
        ),
        pytest.param(
            "    pass\n@rule\ndef route(view, options, work):\n    work.worker[0] = nothing\n",
            r"^mine\.py: the rule of Mine is refused: TypingError: NameError: name 'nothing' is not defined$",
            marks=pytest.mark.skipif(compiled.numba is None, reason="only a compiler refuses it"),
        ),
    ],
    ids=["text", "enum", "begins with other arrays", "no rule", "does not compile", "a line that numba does not tell"],
)
def test_a_mistake_in_a_rule_is_said_in_one_line_and_is_no_bug_of_evenstep(text, said, tmp_path):
    policy = written(tmp_path, "@dataclass(frozen=True)\nclass Mine(Ruled):\n" + text)
    with pytest.raises(PolicyError, match=said):
        policy.route(view())


def test_neither_a_bug_of_evenstep_nor_a_lack_of_memory_is_said_to_be_a_mistake_in_a_rule(tmp_path, monkeypatch):
    def fails(*_):
        raise error

    ours = names.build("routing", {"name": "br-h"})
    compiled.rule_of(type(ours)).cache_clear()
    head = "@dataclass(frozen=True)\nclass Mine(Ruled):\n"
    theirs = written(tmp_path, head + "    pass\n@rule\ndef route(view, options, work):\n    pass\n")
    monkeypatch.setattr(compiled, "generated", fails)
    for policy, error in ((ours, KeyError("ours")), (theirs, MemoryError())):
        with pytest.raises(type(error)):
            compiled.door_of(policy)


NOTEBOOK = (
    """
    from dataclasses import dataclass
    from typing import NamedTuple
    from evenstep.compiled import Floats, Ints
    from evenstep.routing.rules import Ruled, WorkerInts, rule
""",
    """
    @dataclass(frozen=True)
    class First(Ruled):
        pass

    @rule
    def route(view, options: First, work):
        work.worker[0] = 0
""",
    """
    @dataclass(frozen=True)
    class Last(Ruled):
        pass

    class Work(NamedTuple):
        worker: Ints
        memory: Ints
        bound: Floats
        place: WorkerInts

    @rule
    def route(view, options: Last, work: Work):
        work.place[2] = 2
        work.worker[0] = work.place[2]
""",
    """
    @dataclass(frozen=True)
    class Next(Last):
        pass

    class Work(NamedTuple):
        worker: Ints
        memory: Ints
        bound: Floats
""",
)


def run_cells(cells):
    scope = {"__name__": "notebook of a test"}
    for number, cell in enumerate(cells):
        exec(compile(textwrap.dedent(cell), f"cell{number}.py", "exec"), scope)
    return scope


def test_each_policy_of_a_notebook_runs_the_rule_that_names_it():
    """The rule of the last cell ran for the policies of all cells, without a word."""
    scope = run_cells(NOTEBOOK)
    chosen = [scope[name]().route(view()).worker[0] for name in ("First", "Last", "Next")]
    assert chosen == [0, 2, 2]


def test_in_a_notebook_a_rule_is_for_no_policy_that_it_may_not_be_meant_for():
    """The rule of another cell ran: that of `First` for a policy without one, and the last of two that name none for both."""
    unnamed = [cell.replace("options: First", "options").replace("options: Last", "options") for cell in NOTEBOOK[:3]]
    alone = run_cells([*unnamed[:2], "from evenstep.routing.policies.random import Random"])
    assert alone["First"]().route(view()).worker[0] == 0
    forgotten = NOTEBOOK[2].partition("class Work")[0]
    for cells, without in (([*NOTEBOOK[:2], forgotten], ["Last"]), (unnamed, ["First", "Last"])):
        scope = run_cells(cells)
        for name in without:
            with pytest.raises(PolicyError, match=f"{name} has no rule; .* in a notebook .* it says options: {name}"):
                scope[name]().route(view())


def test_a_cell_that_runs_again_replaces_its_rule():
    again = NOTEBOOK[1].replace("= 0", "= 1")
    scope = run_cells([*NOTEBOOK, again])
    assert scope["First"]().route(view()).worker[0] == 1
    assert scope["Last"]().route(view()).worker[0] == 2


def test_a_cell_that_runs_again_takes_the_work_below_its_rule_anew(tmp_path):
    """The `Work` of the first run stayed, and the rule wrote into arrays that it no longer had."""
    scope = {"__name__": "another notebook of a test"}
    above, rule, work = NOTEBOOK[0], NOTEBOOK[1], NOTEBOOK[2].partition("@rule")[0].partition("pass\n")[2]
    for name in ("place", "spot"):
        cell = rule.replace("worker[0] = 0", f"{name}[1] = 1\n        work.worker[0] = work.{name}[1]")
        file = tmp_path / f"{name}.py"
        file.write_text(textwrap.dedent(above + cell + work.replace("place", name)))
        exec(compile(file.read_text(), str(file), "exec"), scope)
        assert scope["First"]().route(view()).worker[0] == 1


def test_an_annotation_may_name_its_policy_in_quotes():
    """Where annotations are text, quotes are part of it: the rule of the last cell ran."""
    scope = run_cells([re.sub(r"options: (\w+)", r'options: "\1"', cell) for cell in NOTEBOOK])
    assert scope["First"]().route(view()).worker[0] == 0


@pytest.mark.slow
def test_the_space_a_rule_asks_for_is_its_own(tmp_path):
    policy = written(
        tmp_path,
        POLICY
        + """
    class Work(NamedTuple):
        worker: Ints
        memory: Ints
        bound: Floats
        seat: Ints
        load: Floats
        gap: Floats

    def room(workers, waiting, horizon, options):
        return waiting, workers, workers

    @rule
    def route(view, options, work):
        for g in range(view.load.size):
            work.load[g] = view.load[g]
            work.gap[g] = 100.0
        work.seat[0] = 1
        work.worker[work.seat[0]] = int(work.load[1]) // 10
    """,
    )
    assert horizon_of(policy) == 0
    assert policy.route(view()).worker.tolist() == [-1, 1, -1, -1]


@pytest.mark.slow
def test_an_array_may_state_its_length(tmp_path):
    policy = written(
        tmp_path,
        "from typing import Annotated\nfrom evenstep.compiled import Table\nfrom evenstep.routing.rules import WorkerFloats\n"
        + textwrap.dedent(POLICY)
        + textwrap.dedent("""
    class Work(NamedTuple):
        worker: Ints
        memory: Ints
        bound: Floats
        load: WorkerFloats
        seat: Annotated[Ints, "2 * waiting + options.levels.size"]
        pair: Annotated[Table, "waiting, workers"]

    @rule
    def route(view, options, work):
        work.pair[3, 2] = 1.0
        for g in range(view.load.size):
            work.load[g] = view.load[g]
        if work.seat.size == 10 and work.load.size == 3 and work.pair.shape == (4, 3):
            work.worker[1] = int(work.load[1] * work.pair[3, 2]) // 10
    """),
    )
    assert policy.route(view()).worker.tolist() == [-1, 1, -1, -1]


@pytest.mark.slow
def test_working_space_may_hold_structs_of_arrays(tmp_path):
    policy = written(
        tmp_path,
        POLICY
        + """
    class Fleet(NamedTuple):
        load: Floats
        seat: Ints

    class Work(NamedTuple):
        worker: Ints
        memory: Ints
        bound: Floats
        first: Ints
        fleet: Fleet
        last: Floats

    def room(workers, waiting, horizon, options):
        return 1, workers, waiting, 1

    @rule
    def route(view, options, work):
        fleet = work.fleet
        work.first[0], work.last[0] = 3, 7.0
        for g in range(view.load.size):
            fleet.load[g] = view.load[g]
        for i in range(fleet.seat.size):
            fleet.seat[i] = i
        if work.last[0] == 7.0 and fleet.load.size == view.load.size:
            work.worker[fleet.seat[work.first[0]]] = int(fleet.load[1]) // 10
    """,
    )
    assert policy.route(view()).worker.tolist() == [-1, -1, -1, 1]


def test_a_policy_that_inherits_from_one_with_a_rule_may_call_it(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from evenstep.routing.policies.jsq import JSQ\n\n"
        "class Mine(JSQ):\n    def route(self, view):\n        return super().route(view)\n"
    )
    policy = names.build("routing", names.parse(f"{tmp_path / 'mine.py'}:Mine"))
    assert policy.route(view()).worker.tolist() == names.build("routing", {"name": "jsq"}).route(view()).worker.tolist()
    assert compiled.kernel_of(policy) is None, "its own Python decides, so no compiled door may stand in for it"
