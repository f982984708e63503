"""Verdicts of the papers' items follow from a recorded run of every experiment."""

from __future__ import annotations

import json

import pytest

from evenstep import names
from evenstep.errors import InputError
from evenstep.experiments import recorded as module
from evenstep.experiments.recorded import deciding, judged, papers, record, record_one, recorded
from evenstep.experiments.reproduce import Setting, reproduce
from evenstep.report.findings import verdict
from evenstep.report.papers import Item

EXACT = "schedule-fig2-fig5"


def claims(*verdicts: str) -> list[dict[str, str]]:
    return [{"says": f"claim {k}", "verdict": one, "seen": ""} for k, one in enumerate(verdicts)]


def item_of(name: str) -> Item:
    return next(item for paper in papers() for item in paper.rows if item.run == (name,))


def test_every_experiment_is_recorded_at_full_size():
    assert set(recorded()) == set(names.members("experiments"))
    assert all(own for own in recorded().values())
    assert {claim["verdict"] for own in recorded().values() for claim in own} <= {"holds", "does not hold", "not settled"}


@pytest.mark.parametrize(
    ("verdicts", "follows"),
    [
        (["holds", "holds"], "holds"),
        (["holds", "not settled"], "holds within"),
        (["holds", "does not hold"], "holds within"),
        (["does not hold", "not settled"], "does not"),
    ],
)
def test_what_follows_from_the_claims(verdicts, follows):
    assert judged(claims(*verdicts)) == follows


def test_an_item_s_verdict_moves_with_its_recorded_claims(monkeypatch):
    assert item_of(EXACT).verdict == "holds"
    other = {**recorded(), EXACT: claims("does not hold")}
    monkeypatch.setattr(module, "recorded", lambda: other)
    assert item_of(EXACT).verdict == "does not"


def test_a_stated_verdict_above_the_record_is_refused(monkeypatch):
    name = "bfio-fig1"
    assert item_of(name).verdict == "holds within"  # stated, where the record says that the claim holds
    monkeypatch.setattr(module, "recorded", lambda: {**recorded(), name: claims("does not hold")})
    with pytest.raises(InputError, match="Figure 1: verdict is 'holds within'; expected left out, or weaker"):
        papers()


def test_words_that_are_in_no_recorded_claim_and_runs_without_claims_are_refused():
    known = {"x": claims("holds")}
    asked = Item(of=("Theorem 9",), says="", run=("x",), claims=("claim 0",))
    assert deciding(asked, known) == known["x"]
    with pytest.raises(InputError, match="Theorem 9 is 'claim 7'; expected words of a recorded claim"):
        deciding(Item(of=("Theorem 9",), says="", run=("x",), claims=("claim 7",)), known)
    with pytest.raises(InputError, match="Theorem 9 is 'y'; expected recorded claims"):
        deciding(Item(of=("Theorem 9",), says="", run=("y",)), known)


def test_a_quick_run_is_not_recorded():
    quick, full = (reproduce(EXACT, Setting(quick=is_quick, processes=1)) for is_quick in (True, False))
    assert json.loads(record([quick]))["experiments"] == {}
    (own,) = json.loads(record([full]))["experiments"].values()
    assert own == recorded()[EXACT]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["wait-fig6", "wait-memory", "bfio-adversarial", "bfio-fig5", "wait-fcfs-gap"])
def test_a_run_of_today_comes_to_the_recorded_verdicts(name):
    found = reproduce(name, Setting(processes=1)).findings.claims
    assert {one.says: verdict(one, quick=False) for one in found} == {
        one["says"]: one["verdict"] for one in recorded()[name]
    }


def test_one_experiment_is_recorded_beside_the_others():
    ran = {
        "experiment": "a-new-one",
        "quick": False,
        "claims": [{"says": "it holds", "verdict": "holds", "seen": "8", "holds": True}],
    }
    found = json.loads(record_one(ran))["experiments"]
    assert found == {**recorded(), "a-new-one": [{"says": "it holds", "verdict": "holds", "seen": "8"}]}
    assert list(found) == sorted(found)
    with pytest.raises(InputError, match="a-new-one: --quick is 'given'; expected a run at full size"):
        record_one({**ran, "quick": True})
