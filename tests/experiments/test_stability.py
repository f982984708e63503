"""What ``evenstep stability`` answers."""

import math

import pytest

from evenstep.errors import InputError
from evenstep.experiments.stability import StabilitySettings, answer

SMALL = {"engine": "token-budget=4,batch-limit=0,first-token=decode", "batch_time": "unit", "requests": 3_000}


@pytest.mark.slow
def test_a_rate_is_judged_and_the_limit_stands_beside_its_closed_form():
    found = answer(StabilitySettings("3/5", rate=0.4, seeds=2, precision=0.02, **SMALL), 1)
    (one,) = found.policies
    assert one.at_rate.verdict == "stable"
    assert one.closed_form.requests_per_s == pytest.approx(0.5)
    assert one.largest_requests_per_s.value == pytest.approx(0.5, rel=0.01)
    over = answer(StabilitySettings("3/5", rate=0.6, seeds=1, precision=0.1, **SMALL), 1)
    assert over.policies[0].at_rate.verdict == "unstable"


@pytest.mark.slow
def test_a_trace_brings_its_own_rate():
    found = answer(StabilitySettings("sample:azure-conv", seeds=1, precision=0.2, requests=1_000, limit=500), 1)
    assert found.rate > 1
    assert found.arrivals.startswith("the 500 rows")
    assert found.policies[0].at_rate is not None


def test_a_trace_whose_requests_all_come_at_once_has_no_rate_to_judge(tmp_path):
    file = tmp_path / "burst.csv"
    file.write_text("arrival_s,prompt_tokens,output_tokens\n2,3,4\n2,4,5\n")
    assert answer(StabilitySettings(str(file), seeds=1, precision=0.2, **SMALL), 1).rate is None


def test_a_workload_is_judged_at_the_rate_of_its_file(tmp_path):
    """Not at that of the hundred arrivals that were drawn at it."""
    file, law = tmp_path / "w.yaml", "{law: constant, tokens: 5}"
    arrivals = "{process: poisson, requests_per_s: 0.25}"
    file.write_text(f"version: 1\nsynthetic: {{requests: 100, prompt: {law}, output: {law}, arrivals: {arrivals}}}\n")
    assert answer(StabilitySettings(str(file), seeds=1, precision=0.2, **SMALL), 1).rate == 0.25


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"source": "3/5", "rate": 0.0}, "--rate is 0.0"),
        ({"source": "3/5", "rate": math.nan}, r"--rate is nan; expected a number of requests a second from 1e-12 to 1e\+12"),
        ({"source": "3/5", "rate": 1e300}, r"--rate is 1e\+300; expected a number of requests a second from 1e-12"),
        ({"source": "129/pareto:alpha=0.9,minimum=40"}, "infinite mean"),
        ({"source": "3/4/5"}, "PROMPT/OUTPUT"),
        ({"source": "3/geometric:mean=0.5"}, "mean is 0.5"),
        ({"source": ""}, "FILE is 'missing'"),
        ({"source": "3/5", "precision": 1.0}, "--precision is 1.0"),
        ({"source": "3/5", "limit": 10}, "--limit is 10; expected nothing with laws of lengths"),
        (
            {"source": "3/5", "format_name": "burstgpt"},
            "--format-name or --columns is 'burstgpt'; expected nothing with laws",
        ),
        (
            {"source": "lognormal:sigma=50,median=100/5", "requests": 10_000_000},
            r"tokens of a request is 416\d{4}; expected at most \d+ on average, so that the iterations of 40000000 requests fit",
        ),
        ({"source": "3/5", "requests": 10}, "--requests is 10"),
        ({"source": "3/5", "seed": 10**23}, f"expected an integer from 0 to {2**53}"),
        ({"source": "3/5", "policies": ["jsq"]}, "jsq routes requests"),
    ],
)
def test_bad_input_is_one_clear_error(options, said):
    with pytest.raises(InputError, match=said) as raised:
        answer(StabilitySettings(**options), 1)
    assert "\n" not in str(raised.value)


def test_a_workload_file_whose_law_has_no_mean_is_refused(tmp_path):
    file = tmp_path / "heavy.yaml"
    law = "{law: pareto, alpha: 0.8, minimum: 10}"
    file.write_text(f"version: 1\nsynthetic:\n  requests: 10\n  prompt: {law}\n  output: {law}\n")
    with pytest.raises(InputError, match="infinite mean"):
        answer(StabilitySettings(str(file)), 1)


def test_a_long_law_that_is_cut_off_has_a_mean():
    cut = "pareto:alpha=0.9,minimum=2,high=50"
    found = answer(StabilitySettings(f"3/{cut}", seeds=1, precision=0.1, **SMALL), 1)
    assert found.policies[0].largest_requests_per_s.value > 0


@pytest.mark.slow
def test_a_heavy_tail_is_named_since_the_closed_form_asks_for_a_finite_variance():
    def said(source):
        return answer(StabilitySettings(source, requests=1_000, seeds=1, precision=0.5), processes=1).arrivals

    assert "the variance is finite only because the tail is cut" in said("129/pareto:alpha=1.6,mean=112")
    assert "variance" not in said("129/pareto:alpha=2.5,mean=112") and "variance" not in said("129/112")
