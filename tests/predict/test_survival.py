"""The survival estimate, as the paper defines it and as a host uses it."""

from __future__ import annotations

import numpy as np
import pytest
from tests.predict.asked import active, finished

from evenstep import names
from evenstep.errors import InputError
from evenstep.predict.survival import Survival
from evenstep.predict.view import Predictor, SurvivalCurve


def test_the_example_of_three_lengths():
    survival = Survival()
    survival.learn(finished(20, 5, 10))
    answer = survival.predict(active(0, 4, 9, 15), 6)
    p = answer.leaves
    assert p.tolist() == [1 / 3, 2 / 3, 1 / 2, 1.0]
    mu = (answer.steps_left - (1 - p) * 6) / p
    assert mu == pytest.approx([5.0, 3.5, 1.0, 5.0])
    assert survival.counted == {"too_short": 0, "drifts": 0, "learned": 3}


def test_without_enough_history_a_request_is_taken_to_stay_and_it_is_counted():
    survival = Survival(minimum=2)
    nothing = survival.predict(active(0, 3), 8)
    assert nothing.steps_left.tolist() == [8.0, 8.0]
    assert nothing.leaves.tolist() == [0.0, 0.0]
    survival.learn(finished(5, 10, 20))
    assert survival.predict(active(4, 12), 8).leaves.tolist() == [2 / 3, 0.0]  # one length only is above 12
    assert survival.curve(active(12), 2).tolist() == [[1.0, 1.0, 1.0]]
    assert survival.counted["too_short"] == 4


def test_the_order_of_learning_does_not_matter_while_the_window_holds_all():
    lengths = np.random.default_rng(1).integers(1, 300, 90)
    one, other = Survival(), Survival()
    one.learn(finished(*lengths))
    for length in sorted(lengths):
        other.learn(finished(length))
    ages = active(*range(0, 300, 7))
    assert one.predict(ages, 20).steps_left.tobytes() == other.predict(ages, 20).steps_left.tobytes()


def test_a_request_cannot_end_with_fewer_tokens_than_it_had_produced():
    survival = Survival()
    survival.predict(active(50, first=7), 10)
    with pytest.raises(InputError, match="finished: request 7: output_tokens is 49; expected at least 50"):
        survival.learn(finished(49, first=7))


def test_requests_that_run_count_from_the_next_completion_on():
    survival, letter = Survival(running=3, refresh_every=1), Survival(running=0)
    for one in (survival, letter):
        one.learn(finished(5, 10))
        one.predict(active(7, 8), 6)
        one.learn(finished(4))
    # above 4: lengths 5 and 10, and two that run, at 8 and 9 when they are asked about again
    assert survival.predict(active(4), 1).leaves.tolist() == [1 / 4]
    assert letter.predict(active(4), 1).leaves.tolist() == [1 / 2]


def test_it_is_found_by_name_and_takes_its_options_as_text():
    found = names.build("predict", names.parse("survival:window=50,gate=0.7,refresh=literal,refresh_every=8"))
    assert isinstance(found, Survival)
    assert (found.window, found.gate, found.refresh, found.refresh_every) == (50, 0.7, "literal", 8)
    assert isinstance(found, Predictor) and isinstance(found, SurvivalCurve)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("window", 0),
        ("minimum", 0),
        ("drift", -1),
        ("running", -1),
        ("refresh_every", 0),
        ("gate", 1.5),
        ("gate", "nan"),
    ],
)
def test_an_option_out_of_range_is_named(option, value):
    with pytest.raises(InputError, match=f"survival: {option} is "):
        names.build("predict", {"name": "survival", option: str(value)})
