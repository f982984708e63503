"""The evaluation of predictors on a trace they have not seen."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenstep.errors import InputError, PolicyError
from evenstep.predict import evaluation
from evenstep.predict.evaluation import area_under_curve, evaluate, reliability
from evenstep.request import Trace


def trace(outputs, **columns):
    outputs = np.array(outputs, dtype=np.int64)
    return Trace(np.full(outputs.size, 10), outputs, name="made", **columns)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=25))
def test_the_area_is_the_chance_to_rank_a_pair_rightly(pairs):
    chance = np.array([p / 5 for p, _ in pairs])
    happened = np.array([float(y) for _, y in pairs])
    won = [(a > b) + 0.5 * (a == b) for a in chance[happened > 0] for b in chance[happened == 0]]
    assert area_under_curve(chance, happened) == (pytest.approx(np.mean(won)) if won else None)


def test_reliability_is_by_tenths():
    told, left, count = reliability(np.array([0.05, 0.05, 0.15, 1.0]), np.array([0.0, 1.0, 1.0, 1.0]))
    assert count.tolist() == [2, 1, 0, 0, 0, 0, 0, 0, 0, 1]
    assert (told[0], left[0], told[9], left[9]) == (0.05, 0.5, 1.0, 1.0)
    assert np.isnan(told[2:9]).all()


def test_outputs_that_are_all_alike_are_told_exactly():
    found = evaluate(trace([50] * 40), ["survival"], (20, 60))
    near, far = found.scores
    assert (found.trained, found.judged) == (20, 20)
    assert near.predictions == 20 * 4  # at ages 0, 16, 32, 48
    assert (near.auc, near.brier, near.mae_steps) == (1.0, 0.0, 0.0)
    assert near.leaves_share == near.gate_share == 0.5
    assert far.auc is None  # everybody leaves within 60
    assert near.coverage_10_90 == 1.0


def test_two_lengths_by_hand():
    """Half of the outputs have 10 tokens, half 30. At age 0 half of them leave within 20 steps, after 10; at age 16 all, after 14.

    A chance at the gate passes it. A predictor without history says that all stay, and means 20 steps.
    """
    two = trace([10, 30] * 20)
    near, now = evaluate(two, ["survival"], (20, 1)).scores
    assert (near.predictions, near.leaves_share, near.gate_share) == (30, pytest.approx(2 / 3), 1.0)
    assert (near.auc, near.brier, near.mae_steps) == (0.75, pytest.approx(1 / 6), 0.0)
    assert near.coverage_10_90 == 1.0
    assert (now.leaves_share, now.gate_share, now.auc, now.brier, now.mae_steps) == (0.0, 0.0, None, 0.0, None)
    (silent,) = evaluate(two, ["survival:minimum=50"], (20,)).scores
    assert (silent.too_short, silent.gate_share, silent.coverage_10_90) == (30, 0.0, None)
    assert (silent.auc, silent.brier, silent.mae_steps) == (0.5, pytest.approx(2 / 3), 8.0)


def test_predictors_learn_from_the_first_part_only():
    found = evaluate(trace([10] * 30 + [100] * 30), ["survival", "memorised"], (20,))
    for score in found.scores:
        assert score.too_short == 30 * 6  # nothing longer than 10 was seen: ages 16 to 96
        assert score.coverage_10_90 == 0.0
    assert evaluate(trace([10] * 30 + [100] * 30), ["survival"], (20,), train_share=0.9).scores[0].too_short == 0


@pytest.mark.parametrize(
    ("method", "answer", "said"),
    [
        ("predict", "None", "answered NoneType; expected a Prediction"),
        ("predict", "Prediction(np.full(n, 3.0), np.full(n, np.nan))", "expected finite values, one a request, and chances"),
        ("predict", "Prediction(np.full(n, 3.0), np.full(n, -1.0))", "expected finite values, one a request, and chances"),
        ("predict", "Prediction(np.ones(n + 1), np.ones(n))", "expected finite values, one a request, and chances"),
        ("curve", "None", "answered a curve of shape"),
        ("interval", "None", "answered NoneType; expected low and high"),
    ],
)
def test_an_answer_that_is_none_is_the_predictors_fault(tmp_path, method, answer, said):
    """``predict evaluate`` called it a bug of evenstep."""
    methods = {"predict": "Prediction(np.ones(n), np.ones(n))", method: answer}
    text = "".join(
        f"    def {one}(self, active, *_):\n        n = active.age.size\n        return {methods[one]}\n" for one in methods
    )
    head = (
        "import numpy as np\nfrom evenstep.predict.view import Prediction\nclass Mine:\n    def learn(self, finished): ...\n"
    )
    (tmp_path / "mine.py").write_text(f"{head}{text}predictor = Mine\n")
    with pytest.raises(PolicyError, match=f"predictor Mine .*{said}"):
        evaluate(trace([50] * 40), [str(tmp_path / "mine.py")], (20,))


def test_memorised_is_better_where_prompts_come_back():
    rng = np.random.default_rng(4)
    key = rng.integers(1, 21, 800)
    output = 30 + 20 * key + rng.integers(-3, 4, 800)
    survival, memorised = evaluate(trace(output, prompt_key=key), ["survival", "memorised"], (20,)).scores
    assert memorised.auc > 0.99 > survival.auc
    assert memorised.mae_steps < survival.mae_steps
    assert memorised.brier < survival.brier / 4


def test_a_prompt_asked_once_tells_memorised_no_more_than_survival_knows():
    rng = np.random.default_rng(0)
    output = rng.geometric(1 / 100, 600)
    for key in (np.arange(1, 601), np.r_[np.arange(1, 301), np.repeat(np.arange(301, 401), 3)]):
        scores = evaluate(trace(output, prompt_key=key), ["survival", "memorised"], (20, 40)).scores
        for survival, memorised in zip(scores[:2], scores[2:], strict=True):
            assert (memorised.auc, memorised.gate_share) == (survival.auc, survival.gate_share)
            assert memorised.brier == pytest.approx(survival.brier, abs=1e-12)


def test_what_a_trace_lacks_is_said_and_a_cap_below_its_output_is_none():
    caps = np.full(40, 30)
    found = evaluate(trace([50] * 40, max_tokens=caps), ["bounded"], (20,))
    assert found.scores[0].auc == 1.0
    assert any("order of rows" in note for note in found.notes)
    assert any("no prompt keys" in note for note in found.notes)
    assert not any("max_tokens" in note for note in found.notes)


def test_a_long_trace_is_thinned_by_whole_requests_and_it_is_said(monkeypatch):
    monkeypatch.setattr(evaluation, "_MOST", 30)
    found = evaluate(trace([50] * 40), ["survival"], (20,))
    assert found.scores[0].predictions == 4 * 7  # every third of 20 requests
    assert any("one in 3 requests" in note for note in found.notes)


def test_a_predictor_asked_for_twice_is_refused():
    with pytest.raises(InputError, match="predictor is 'survival'; expected each predictor once"):
        evaluate(trace([5] * 9), ["survival", "memorised", "survival"])


@pytest.mark.parametrize(
    ("outputs", "predictor", "horizon", "share", "said"),
    [
        ([5], "survival", 20, 0.5, "requests is 1"),
        ([5] * 9, "survival", 0, 0.5, "horizon is 0"),
        ([5] * 9, "survival", 20, 1.0, "train-share is 1.0"),
        ([5] * 9, "oracle", 20, 0.5, "predictor is 'oracle'"),
        ([5] * 9, "survivor", 20, 0.5, "Did you mean survival"),
    ],
)
def test_what_cannot_be_evaluated_is_named(outputs, predictor, horizon, share, said):
    with pytest.raises(InputError, match=said):
        evaluate(trace(outputs), [predictor], (horizon,), train_share=share)


def test_what_cannot_predict_is_refused(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("class predictor:\n    pass\n")
    with pytest.raises(InputError, match="expected a class with predict, learn"):
        evaluate(trace([3] * 40), [str(path)], (5,))


def test_a_predictor_without_a_curve_is_judged_without_intervals(tmp_path):
    path = tmp_path / "flat.py"
    path.write_text(
        "import numpy as np\nfrom evenstep.predict.view import Prediction\n"
        "class Flat:\n"
        "    def predict(self, active, horizon):\n"
        "        return Prediction(np.full(active.age.size, 1.0), np.full(active.age.size, 0.5))\n"
        "    def learn(self, finished): pass\n"
        "predictor = Flat\n"
    )
    (score,) = evaluate(trace([3] * 40), [str(path)], (5,)).scores
    assert (score.predictor, score.brier, score.coverage_10_90) == (str(path), 0.25, None)
