"""What is written of the five papers: every name in it exists, and no numbered item of a paper is missing."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from evenstep import names
from evenstep.cli.main import main
from evenstep.experiments.recorded import papers
from evenstep.report.papers import Paper

ROOT = Path(__file__).parent.parent
PAPERS = papers()
#: How many of each a paper numbers through from 1, or the numbers of one that does not.
NUMBERED = {
    "BF-IO": {"Definition": 2, "Theorem": 3, "Lemma": 8, "Algorithm": 2, "Figure": 7, "Table": 1},
    "BalanceRoute": {"Algorithm": 3, "Table": 7, "Figure": 13},
    "WAIT": {"Proposition": 5, "Theorem": 4, "Lemma": 9, "Algorithm": 2, "Figure": 18},
    "Interval scheduling": {
        "Theorem": "3.3 3.4 4.1 4.2 4.3 5.1 5.2 5.3 8.6",
        "Lemma": "4.4 4.6 4.9 8.8",
        "Proposition": "4.5 8.4",
        "Corollary": "4.8 4.10",
        "Definition": "3.1 8.1 8.3 8.7 10.3 10.5",
        "Example": "3.2 8.2",
        "Algorithm": 6,
        "Figure": 7,
    },
    "Throughput-optimal": {"Theorem": 1, "Proposition": 3, "Lemma": 3, "Definition": 6, "Conjecture": 1, "Figure": 9},
}


def exists(dotted: str) -> bool:
    """Whether ``a.b.c`` below evenstep is a module, or a name that its module defines; nothing heavy is imported for it."""
    parts = dotted.split(".")
    for cut in range(len(parts), 0, -1):
        place = ROOT.parent / "src" / "evenstep" / Path(*parts[:cut])
        if place.is_dir() or place.with_suffix(".py").is_file():
            found = importlib.import_module(".".join(["evenstep", *parts[:cut]])) if cut < len(parts) else None
            for name in parts[cut:]:
                if not hasattr(found, name):
                    return False
                found = getattr(found, name)
            return True
    return False


@pytest.mark.parametrize("paper", PAPERS, ids=lambda p: p.name)
def test_code_commands_and_tests_exist(paper: Paper):
    wrong = [name for item in paper.rows for name in item.code if not exists(name)]
    wrong += [name for item in paper.rows for name in item.run if name not in names.members("experiments")]
    wrong += [place for item in paper.rows for place in item.test if not (ROOT / place).exists()]
    commands = {item.also.split()[1] for item in paper.rows if item.also}
    assert not wrong and commands <= set(names.members("cli"))


@pytest.mark.parametrize("paper", PAPERS, ids=lambda p: p.name)
def test_a_verdict_stands_on_something_and_says_what_limits_it(paper: Paper):
    unfounded = [item.of for item in paper.rows if item.verdict != "not ours to have" and not item.commands]
    unsaid = [item.of for item in paper.rows if item.verdict != "holds" and not item.why]
    assert not unfounded and not unsaid


@pytest.mark.parametrize(("name", "kinds"), NUMBERED.items(), ids=list(NUMBERED))
def test_no_numbered_item_is_missing(name: str, kinds: dict[str, int | str]):
    paper = next(p for p in PAPERS if p.name == name)
    said = {number for item in paper.rows for number in item.of}
    every = {
        f"{kind} {number}"
        for kind, of in kinds.items()
        for number in (of.split() if isinstance(of, str) else map(str, range(1, of + 1)))
    }
    assert not every - said
    assert not {one for one in said if one.split()[0] in kinds} - every


def test_no_item_has_another_item_s_claim():
    """A row written over that of another paper's item of the same number keeps the numbers whole; its claim is there twice."""
    says = [item.says for paper in PAPERS for item in paper.rows]
    assert not {one for one in says if says.count(one) > 1}


def test_every_experiment_belongs_to_an_item():
    named = {name for paper in PAPERS for item in paper.rows for name in item.run}
    missing = sorted(set(names.members("experiments")) - named)
    assert not missing, f"papers.yaml has no row with `run` for {missing}"


def test_the_page_has_a_row_an_item():
    rows = re.findall(r"^\| .* \| \*\*", (ROOT.parent / "docs" / "reference" / "papers.md").read_text(), re.M)
    assert len(rows) == sum(len(paper.rows) for paper in PAPERS)


def test_names_that_do_not_exist_are_found():
    assert exists("theory.intervals.a_max_ratio") and not exists("theory.intervals.no_such") and not exists("no.such")


def test_all_runs_everything_names_what_failed_and_writes_one_page(tmp_path, capsys, monkeypatch):
    broken = tmp_path / "broken.py"
    broken.write_text(BROKEN)
    real = names.members
    own = ("bfio-adversarial", "wait-fig6", str(broken))
    monkeypatch.setattr(names, "members", lambda room: own if room == "experiments" else real(room))
    assert main(["reproduce", "all", "--quick", "--seeds", "1", "--out", str(tmp_path / "out")]) == 1
    page = (tmp_path / "out" / "papers-quick.html").read_text()
    assert page.count("no verdict at this size") >= 3 and "this run</th>" in page and "Conjecture 1" in page
    assert '<a href="bfio-adversarial-quick.html">' in page
    captured = capsys.readouterr()
    assert "3/3" in captured.err and "did not run" in captured.err and "papers-quick.html" in captured.out


BROKEN = """
from evenstep.errors import InputError
from evenstep.experiments.reproduce import Experiment


def run(setting):
    raise InputError("broken", "size", 0, "more")


experiment = Experiment("broken", "nowhere", run)
"""
