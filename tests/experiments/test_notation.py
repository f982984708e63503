"""Drift, outages and laws as a person writes them."""

from __future__ import annotations

import pytest

from evenstep.cost.linear import Linear, law_of
from evenstep.errors import InputError
from evenstep.experiments.notation import drift_of, outages_of, slo_of, speeds_of
from evenstep.measure.metrics import Slo
from evenstep.sim.cluster.drift import Drift
from evenstep.sim.cluster.simulation import Outage

LINEAR = {"overhead_s": 0.001, "per_token_s": 2e-7, "sync_s": 0.0}


def parts(drift: Drift) -> tuple[float, int, tuple[float, ...]]:
    return drift.growth, drift.tokens_per_step, drift.sequence


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        (None, (1.0, 1, ())),
        ("growth=0", (0.0, 1, ())),
        ("growth=0.25", (0.25, 1, ())),
        ("growth=3,tokens_per_step=3", (3.0, 3, ())),
        ("tokens-per-step=2", (1.0, 2, ())),
        ("sequence=1/1/0.5", (1.0, 1, (1.0, 1.0, 0.5))),
        ("sequence=2*1/-1", (1.0, 1, (1.0, 1.0, -1.0))),
    ],
)
def test_a_drift_is_what_it_says(text, meant):
    assert parts(drift_of(text)) == meant


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected key=value"),
        ("0.25", "expected key=value"),
        ("grow=1", "Did you mean growth?"),
        ("growth=-1", "growth is -1.0"),
        ("growth=x", "growth is 'x'; expected a number"),
        ("growth=nan", "growth is nan"),
        ("growth=1e300", "growth is 1e+300; expected at most 1048576 tokens a step"),
        ("sequence=1/-1e300", "sequence is -1e+300; expected at most 1048576 tokens a step"),
        ("tokens_per_step=1000000000000000000000", "expected an integer from 1 to 9007199254740992"),
        ("tokens_per_step=1.5", "tokens_per_step is '1.5'; expected an integer"),
        ("tokens_per_step=0", "tokens_per_step is 0"),
        ("sequence=1/a", "sequence is 'a'"),
        ("growth=1,sequence=1", "no growth with a sequence"),
        ("growth=1,growth=2", "each option once"),
    ],
)
def test_a_drift_that_means_nothing_is_refused(text, message):
    with pytest.raises(InputError) as caught:
        drift_of(text)
    assert message in str(caught.value)


def test_outages_are_put_in_order_of_their_steps():
    assert outages_of(["900:3:back", "20:3", "20:0"], 4) == (
        Outage(20, 3),
        Outage(20, 0),
        Outage(900, 3, True),
    )
    assert outages_of([], 4) == ()


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["3"], "STEP:WORKER"),
        (["3:"], "STEP:WORKER"),
        (["-3:1"], "STEP:WORKER"),
        (["3:1:gone"], "STEP:WORKER"),
        (["3:1:"], "STEP:WORKER"),
        (["9" * 5000 + ":1"], "STEP:WORKER"),
        (["3:4"], "a worker in 0..3"),
        (["3:1", "9:1"], "not lost already"),
        (["3:1:back"], "lost by then"),
    ],
)
def test_outages_that_cannot_be_are_refused(texts, message):
    with pytest.raises(InputError) as caught:
        outages_of(texts, 4)
    assert message in str(caught.value)


def test_without_a_name_the_law_is_linear():
    assert law_of(None, **LINEAR) == Linear(0.001, 2e-7)
    synchronised = law_of(None, **{**LINEAR, "sync_s": "8:0.0002/64:0.0009"})
    assert synchronised.overhead_seconds(8) == pytest.approx(0.0012)
    assert synchronised.overhead_seconds(64) == pytest.approx(0.0019)


def test_a_law_has_its_own_options(tmp_path):
    assert law_of("linear:overhead-s=0.5", **LINEAR).overhead_seconds(4) == 0.5
    assert law_of("piecewise:knots=0:0/10:1/20:3", **LINEAR).table().seconds.tolist() == [[0.0, 1.0, 3.0]]
    assert law_of("per-worker:speed=1/0.5", **LINEAR).table().seconds.shape == (2, 2)
    measured = tmp_path / "h100.csv"
    measured.write_text("load,seconds\n0,0.005\n1000,0.006\n")
    assert law_of(f"table:path={measured}", **LINEAR).overhead_seconds(4) == pytest.approx(0.005)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("piecewis", "Did you mean piecewise?"),
        ("linear:overhead=1", "Did you mean overhead_s?"),
        ("table:path=nowhere.csv", "nowhere.csv"),
        ("piecewise:knots=0:0", "two knots or more"),
        ("evenstep.errors:InputError", "expected"),
    ],
)
def test_a_law_that_is_none_is_refused(text, message):
    with pytest.raises(InputError) as caught:
        law_of(text, **LINEAR)
    assert message in str(caught.value)


def test_speeds_are_listed_or_drawn_by_the_seed():
    assert speeds_of("1,1.5,2", 4, 0) == speeds_of("1/1.5/2", 4, 9) == (1.0, 1.5, 2.0)
    assert speeds_of("2*1/0.5", 3, 0) == (1.0, 1.0, 0.5)
    drawn = speeds_of("uniform:1:2", 50, 3)
    assert len(set(drawn)) == 50 and min(drawn) >= 1 and max(drawn) < 2
    assert drawn == speeds_of("uniform:1:2", 50, 3) != speeds_of("uniform:1:2", 50, 4)
    assert drawn[:10] == speeds_of("uniform:1:2", 10, 3)  # a worker keeps its speed in a larger fleet


@pytest.mark.parametrize("text", ["", "0", "1,-1", "x", "1,1,1", "uniform:1", "uniform:2:1", "uniform:0:1", "uniform"])
def test_what_is_no_speed_is_refused_with_its_text(text):
    with pytest.raises(InputError, match="^worker speeds: worker_speeds is "):
        speeds_of(text, 2, 0)


def test_an_objective_is_in_seconds_unless_it_says_milliseconds():
    assert slo_of(None) is None
    assert slo_of("ttft=2,tpot=50ms") == Slo(2.0, 0.05)
    assert slo_of("tpot=0.1s") == Slo(tpot_s=0.1)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("2", "expected ttft=SECONDS,tpot=SECONDS"),
        ("ttf=2", "key is 'ttf'; expected ttft or tpot"),
        ("ttft=soon", "ttft is 'soon'; expected seconds above 0"),
        ("ttft=0", "ttft_s is 0.0; expected seconds above 0"),
        ("tpot=nan", "tpot_s is nan; expected seconds above 0"),
    ],
)
def test_what_is_no_objective_is_one_clear_error(text, said):
    with pytest.raises(InputError, match=said):
        slo_of(text)
